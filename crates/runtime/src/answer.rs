//! Maps an error to an HTTP response: its status, its code, and the JSON body common to all error responses.

use std::{borrow::Cow, time::Duration};

use axum_core::response::{IntoResponse, Response};
use http::{
    HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use serde::Serialize;

use crate::{Body, Error, ErrorKind, limits::RETRY_AFTER_SECONDS};

/// An error response: `{"error":{"code":"…","message":"…"}}`.
#[derive(Clone, Debug)]
pub struct ErrorAnswer {
    /// The status.
    pub status: StatusCode,
    /// The code for programs.
    pub code: &'static str,
    /// The message for people.
    pub message: Cow<'static, str>,
    /// The seconds of `Retry-After`.
    pub retry_after: Option<u64>,
    /// The URL of the node that has the object, for the header [`OWNER`].
    pub owner: Option<Box<str>>,
}

/// The header of a response 421 that names the node that has the object.
pub const OWNER: HeaderName = HeaderName::from_static("abide-owner");

#[derive(Serialize)]
struct Envelope<'a> {
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
}

impl ErrorAnswer {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry_after: None,
            owner: None,
        }
    }

    /// The request was sent to the wrong node.
    fn elsewhere(owner: Option<&str>) -> Self {
        let message = match owner {
            Some(url) => format!(
                "The object is on another node of the cluster, and its call did nothing: send the request to {url}."
            ),
            None => "The object is on another node of the cluster, or is being taken over, and its call did nothing: try again soon."
                .to_owned(),
        };
        let answer = Self {
            owner: owner.map(Box::from),
            ..Self::new(StatusCode::MISDIRECTED_REQUEST, "elsewhere", message)
        };
        match owner {
            Some(_) => answer,
            None => answer.retry_soon(),
        }
    }

    /// Sets `Retry-After`, in whole seconds, rounded up.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        let started = u64::from(wait.subsec_nanos() > 0);
        self.retry_after = Some((wait.as_secs() + started).max(1));
        self
    }

    fn retry_soon(mut self) -> Self {
        self.retry_after = Some(RETRY_AFTER_SECONDS);
        self
    }
}

/// The response to the client whose call of an object failed. Details that the client does not get are logged.
impl From<Error> for ErrorAnswer {
    fn from(error: Error) -> Self {
        // Limits set by an operator: the message says which.
        match error.kind() {
            ErrorKind::StorageFull => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                return Self::new(status, "storage_full", sentence(error.message()));
            }
            ErrorKind::TooManyCreated => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                let text = sentence(error.message());
                return Self::new(status, "too_many_new_objects", text)
                    .retry_after(error.retry_after().unwrap_or_default());
            }
            _ => {}
        }
        if error.remote() && error.kind() == ErrorKind::Overloaded {
            tracing::warn!(%error, "an object's handler failed because the node is overloaded; responded with `overloaded`");
            return Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "overloaded",
                "The object has not finished the request because the server is temporarily out of resources; try again soon. \
                 The request may have taken effect in part: check before you repeat it.",
            )
            .retry_soon();
        }
        if error.remote() {
            tracing::warn!(%error, "an object's handler returned an error; responded with `object_error`");
            return Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "object_error",
                "The object failed to handle the request. The server's log has the details.",
            );
        }
        if error.is_elsewhere() {
            return Self::elsewhere(error.owner());
        }
        let (status, code) = match error.kind() {
            ErrorKind::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::Reset => (StatusCode::SERVICE_UNAVAILABLE, "object_reset"),
            ErrorKind::Timeout => (StatusCode::GATEWAY_TIMEOUT, "handler_timeout"),
            ErrorKind::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "no_space"),
            ErrorKind::Input => (StatusCode::BAD_REQUEST, "bad_request"),
            ErrorKind::Limit => (StatusCode::BAD_REQUEST, "limit_exceeded"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            ErrorKind::InProgress => (StatusCode::CONFLICT, "in_progress"),
            ErrorKind::NoResult => (StatusCode::INTERNAL_SERVER_ERROR, "no_result"),
            ErrorKind::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
            ErrorKind::Deadlock => (StatusCode::LOOP_DETECTED, "deadlock"),
            ErrorKind::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "object_damaged"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        if error.kind() == ErrorKind::NoResult {
            tracing::warn!(%error, "a call was applied, but its result could not be sent");
        } else if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(%error, "an object could not be reached");
        } else if matches!(error.kind(), ErrorKind::Reset | ErrorKind::NoSpace) {
            tracing::warn!(%error, "an object was reset; responded with `{code}`");
        }
        let retryable = error.retryable();
        let answer = Self::new(status, code, public_text(error));
        if retryable {
            answer.retry_soon()
        } else {
            answer
        }
    }
}

impl IntoResponse for ErrorAnswer {
    fn into_response(self) -> Response {
        let envelope = Envelope {
            error: ErrorBody {
                code: self.code,
                message: &self.message,
            },
        };
        // Two texts are always JSON.
        let body = serde_json::to_vec(&envelope).unwrap_or_default();
        let mut response = (self.status, Body::from(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        let owner = self.owner.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(owner)) = owner {
            headers.insert(OWNER, owner);
        }
        response
    }
}

/// What a client may read. Texts of the program, of panics and of the operating system are for the log.
fn public_text(error: Error) -> Cow<'static, str> {
    match error.kind() {
        ErrorKind::Reset if error.retryable() => {
            "The object was reset before the request began; try again.".into()
        }
        ErrorKind::Reset => {
            "The object was reset while it handled the request. The request may have taken effect in part: check \
             before you repeat it. The server's log has the details."
                .into()
        }
        ErrorKind::NoSpace => {
            "The server's disk is full, so nothing was changed; try again later.".into()
        }
        ErrorKind::Damaged => {
            "The object's stored data is damaged, and it is not available until it is repaired. The server's log has \
             the details."
                .into()
        }
        ErrorKind::Io | ErrorKind::Application | ErrorKind::Decode | ErrorKind::Forbidden => {
            "The server failed to handle the request. Its log has the details.".into()
        }
        _ => error.into_message(),
    }
}

/// The message with an initial capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

/// Lets axum handlers return it: the client gets the response that corresponds to the [`ErrorKind`], as JSON.
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        ErrorAnswer::from(self).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_answers_with_the_status_of_its_kind() {
        let answer = |kind| Error::with_kind(kind, "why").into_response();
        for (kind, status) in [
            (ErrorKind::Input, 400),
            (ErrorKind::Limit, 400),
            (ErrorKind::NotFound, 404),
            (ErrorKind::InProgress, 409),
            (ErrorKind::KeyReused, 422),
            (ErrorKind::Application, 500),
            (ErrorKind::NoResult, 500),
            (ErrorKind::Damaged, 500),
            (ErrorKind::Unavailable, 503),
            (ErrorKind::Reset, 503),
            (ErrorKind::Timeout, 504),
            (ErrorKind::NoSpace, 507),
            (ErrorKind::Deadlock, 508),
        ] {
            assert_eq!(answer(kind).status(), status, "{kind:?}");
        }
        for kind in [
            ErrorKind::Reset,
            ErrorKind::NoSpace,
            ErrorKind::Damaged,
            ErrorKind::Io,
        ] {
            let secret = Error::with_kind(kind, "/data/objects: a secret");
            let told = ErrorAnswer::from(secret).message;
            assert!(!told.contains("secret"), "{kind:?}: {told}");
        }
        let response = answer(ErrorKind::Overloaded);
        assert_eq!(response.status(), 503);
        assert_eq!(
            response.headers()[RETRY_AFTER],
            RETRY_AFTER_SECONDS.to_string()
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
        assert!(!answer(ErrorKind::Reset).headers().contains_key(RETRY_AFTER));
    }
}
