//! Errors of outgoing requests.

use std::{error::Error as StdError, io, iter};

use abide_runtime::{Error, ErrorKind};
use h2::Reason;
use hyper_util::client::legacy;

use super::policy::ForbiddenAddress;

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
pub(super) fn failed(error: &legacy::Error) -> Error {
    if let Some(forbidden) = find::<ForbiddenAddress>(error) {
        return Error::with_kind(ErrorKind::Forbidden, forbidden.to_string());
    }
    // The client's own text says only in which step it failed.
    let causes = causes(error.source().unwrap_or(error));
    // Even after a timeout: nothing of the request was sent.
    if error.is_connect() {
        return Error::with_kind(
            ErrorKind::Unavailable,
            format!("could not connect: {causes}"),
        );
    }
    if has_timed_out(error) {
        return Error::with_kind(ErrorKind::Timeout, format!("no response in time: {causes}"));
    }
    Error::with_kind(ErrorKind::Io, format!("the request failed: {causes}"))
}

fn has_timed_out(error: &legacy::Error) -> bool {
    let io = find::<io::Error>(error);
    io.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        || find::<hyper::Error>(error).is_some_and(hyper::Error::is_timeout)
}

/// Whether the server has not begun to process the request: it is closing the connection, or refused the stream
/// (RFC 9113, section 8.7).
pub(super) fn is_unprocessed(error: &legacy::Error) -> bool {
    find::<h2::Error>(error).is_some_and(|error| {
        let closing = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        error.is_remote() && (closing || refused)
    })
}

/// An error and its causes.
pub(crate) fn causes(error: &(dyn StdError + 'static)) -> String {
    let texts: Vec<_> = chain(error).map(ToString::to_string).collect();
    texts.join(": ")
}

fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}
