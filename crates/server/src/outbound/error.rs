//! Errors of outgoing requests.

use std::{error::Error as StdError, fmt::Write};

use abide_runtime::{Error, ErrorKind};

use super::policy::Forbidden;

/// How a request ended, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A response arrived, whatever its status.
    Answered,
    /// The policy forbids the address.
    Forbidden,
    /// No connection could be established: nothing was sent.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// Too many other requests were in flight.
    Overloaded,
    /// Anything else: an invalid request, a broken connection.
    Failed,
}

impl Outcome {
    pub(super) fn of<T>(result: &Result<T, Error>) -> Self {
        match result.as_ref().map_err(Error::kind) {
            Ok(_) => Self::Answered,
            Err(ErrorKind::Forbidden) => Self::Forbidden,
            Err(ErrorKind::Unavailable) => Self::Unreachable,
            Err(ErrorKind::Timeout) => Self::TimedOut,
            Err(ErrorKind::Overloaded) => Self::Overloaded,
            Err(_) => Self::Failed,
        }
    }

    /// The value of the metric label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Forbidden => "forbidden",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::Overloaded => "overloaded",
            Self::Failed => "failed",
        }
    }
}

/// The error of a request that the client could not complete.
pub(super) fn failed(error: &reqwest::Error) -> Error {
    if let Some(forbidden) = find::<Forbidden>(error) {
        return forbidden_address(forbidden);
    }
    if let Some(too_many) = find::<TooManyRedirects>(error) {
        return Error::with_kind(ErrorKind::Limit, too_many.to_string());
    }
    let causes = causes(error);
    if error.is_builder() {
        return Error::with_kind(
            ErrorKind::Input,
            format!("the request is invalid: {causes}"),
        );
    }
    // Even after a timeout: nothing of the request was sent.
    if error.is_connect() {
        return Error::with_kind(
            ErrorKind::Unavailable,
            format!("could not connect: {causes}"),
        );
    }
    if error.is_timeout() {
        return Error::with_kind(ErrorKind::Timeout, format!("no response in time: {causes}"));
    }
    Error::with_kind(ErrorKind::Io, format!("the request failed: {causes}"))
}

pub(super) fn forbidden_address(forbidden: &Forbidden) -> Error {
    Error::with_kind(ErrorKind::Forbidden, forbidden.to_string())
}

/// A server that keeps redirecting its clients.
#[derive(Debug, thiserror::Error)]
#[error("the server redirected more than {0} times (outbound.max_redirects)")]
pub(super) struct TooManyRedirects(pub(super) usize);

/// The causes of an error, without the URL: it may contain secrets.
pub(super) fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let separator = if text.is_empty() { "" } else { ": " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{cause}");
        next = cause.source();
    }
    if text.is_empty() {
        "unknown cause".clone_into(&mut text);
    }
    text
}

fn find<E: StdError + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        next = cause.source();
    }
    None
}
