//! What a client is told when something went wrong: a status and `{"error":{"code":"…","message":"…"}}`.
//!
//! Contract: every error that the edge makes has this one shape. `code` is stable and for programs; `message` is a
//! sentence for people that says what to do. What went wrong inside an object's handler is not told to clients (it may
//! hold SQL or data): it is logged, and the client gets `object_error`.

use std::time::Duration;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header::RETRY_AFTER};
use serde::Serialize;

use crate::limits;

/// An error answer. Handlers return it: `async fn handler() -> Result<Json<Seats>, ApiError>`.
///
/// ```
/// use abide_server::ApiError;
/// use axum::{http::StatusCode, response::IntoResponse};
///
/// let taken = ApiError::new(StatusCode::CONFLICT, "seat_taken", "Seat 14C is taken.");
/// assert_eq!(taken.into_response().status(), StatusCode::CONFLICT);
/// ```
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry: Retry,
}

/// Whether the client is told to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    Unsaid,
    Soon,
    After(Duration),
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
}

impl ApiError {
    /// An error with a status, a code for programs (`snake_case`) and a sentence for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry: Retry::Unsaid,
        }
    }

    /// 400: the request makes no sense; the sentence says what would.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404: there is no such thing.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// 409: the thing's state forbids it.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// Tells the client to try again after a moment (`Retry-After`).
    #[must_use]
    pub fn retry_soon(mut self) -> Self {
        self.retry = Retry::Soon;
        self
    }

    /// Tells the client when to try again (`Retry-After`), in whole seconds and not a moment too early.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry = Retry::After(wait);
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The code for programs.
    pub fn code(&self) -> &str {
        self.code
    }

    /// The sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn body_too_large(limit: Option<u64>) -> Self {
        let message = match limit {
            Some(limit) => format!(
                "The request body is too large; at most {limit} bytes are taken. The setting server.max_body_bytes \
                 changes that."
            ),
            None => "The request body is too large. The setting server.max_body_bytes says how large it may be."
                .to_owned(),
        };
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    pub(crate) fn out_of_memory() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "The server has no memory for more at the moment; come back soon.",
        )
        .retry_soon()
    }

    pub(crate) fn too_many_connections() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_connections",
            "This client has as many requests and WebSockets open as it may; come back when one has ended. The setting \
             server.max_connections_per_client says how many.",
        )
        .retry_soon()
    }

    pub(crate) fn too_many_requests(wait: Duration) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_requests",
            "This client sends requests faster than it may; the header Retry-After says when the next one is answered. The \
             setting server.requests_per_client says how many it may send.",
        )
        .retry_after(wait)
    }

    pub(crate) fn body_timeout() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_timeout",
            "The request's body stopped arriving; send it again. The setting server.body_timeout says how long a pause may be.",
        )
    }

    pub(crate) fn request_timeout() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "request_timeout",
            "The request was not answered in time. It may still take effect; read before you repeat it.",
        )
    }

    pub(crate) fn panicked() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The server failed to handle the request; its log has the details.",
        )
    }

    /// The JSON form of an error status that came without a body, as axum's router answers for what it has no route.
    pub(crate) fn bare(status: StatusCode) -> Self {
        let (code, message) = match status {
            StatusCode::NOT_FOUND => ("not_found", "There is nothing at this address."),
            StatusCode::METHOD_NOT_ALLOWED => (
                "method_not_allowed",
                "This address does not take this method; the Allow header lists those it takes.",
            ),
            _ if status.is_client_error() => ("bad_request", "The request was refused."),
            _ => (
                "internal",
                "The server failed to handle the request; its log has the details.",
            ),
        };
        Self::new(status, code, message)
    }
}

/// What a failed call of an object means to the client that asked for it.
impl From<abide_runtime::Error> for ApiError {
    fn from(error: abide_runtime::Error) -> Self {
        use abide_runtime::ErrorKind;
        // Bounds that an operator has set, whoever has met them: the text says which.
        match error.kind() {
            ErrorKind::StorageFull => {
                return Self::new(
                    StatusCode::INSUFFICIENT_STORAGE,
                    "storage_full",
                    sentence(error.message()),
                );
            }
            ErrorKind::TooManyCreated => {
                let refused = Self::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too_many_new_objects",
                    sentence(error.message()),
                );
                return refused.retry_after(error.retry_after().unwrap_or_default());
            }
            _ => {}
        }
        if error.remote() && error.kind() == ErrorKind::Overloaded {
            tracing::warn!(%error, "an object's handler found the node overloaded; the client got overloaded");
            return Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "overloaded",
                "The object has not finished the request because the server is out of resources at the moment; come back soon. \
                 It may have taken effect in part; read before you repeat it.",
            )
            .retry_soon();
        }
        if error.remote() {
            tracing::warn!(%error, "an object's handler returned an error; the client got object_error");
            return Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "object_error",
                "The object failed to handle the request; the server's log has the details.",
            );
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
            tracing::warn!(%error, "a call was applied, and its result could not be sent");
        } else if status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(%error, "an object could not be reached");
        }
        let told = Self::new(status, code, error.message());
        if error.retryable() {
            told.retry_soon()
        } else {
            told
        }
    }
}

/// The text with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(Envelope {
            error: ErrorBody {
                code: self.code,
                message: &self.message,
            },
        });
        let mut response = (self.status, body).into_response();
        let seconds = match self.retry {
            Retry::Unsaid => None,
            Retry::Soon => Some(limits::RETRY_AFTER_SECONDS.into()),
            // Not a moment too early: the header counts whole seconds.
            Retry::After(wait) => Some(wait.as_secs() + 1),
        };
        if let Some(seconds) = seconds {
            let seconds: u64 = seconds;
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
