//! Error responses: a status and `{"error":{"code":"…","message":"…"}}`.
//!
//! Contract: every error of this crate has this form. `code` is stable and for programs; `message` is a sentence for
//! people that says what to do. Details of a failure inside an object's handler are not sent to clients (they may
//! contain SQL or data): they are logged, and the client gets `object_error`.

use std::time::Duration;

use abide_runtime::{answer::ErrorAnswer, limits::RETRY_AFTER_SECONDS};
use axum::response::{IntoResponse, Response};
use http::StatusCode;

/// An error response. Handlers return it: `async fn handler() -> Result<Json<Seats>, ApiError>`.
///
/// ```
/// use abide_server::ApiError;
/// use axum::{http::StatusCode, response::IntoResponse};
///
/// let taken = ApiError::new(StatusCode::CONFLICT, "seat_taken", "Seat 14C is taken.");
/// assert_eq!(taken.into_response().status(), StatusCode::CONFLICT);
/// ```
#[derive(Debug)]
pub struct ApiError(ErrorAnswer);

impl ApiError {
    /// An error with a status, a code for programs (`snake_case`) and a message for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self(ErrorAnswer {
            status,
            code,
            message: message.into().into(),
            retry_after: None,
            owner: None,
        })
    }

    /// 400: the request is invalid; the message says what would be valid.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 404: not found.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// 409: not possible in the current state.
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// Asks the client to retry after a moment (`Retry-After`).
    #[must_use]
    pub fn retry_soon(mut self) -> Self {
        self.0.retry_after = Some(RETRY_AFTER_SECONDS);
        self
    }

    /// Tells the client when to retry (`Retry-After`), in whole seconds, rounded up.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.0 = self.0.retry_after(wait);
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The code for programs.
    pub fn code(&self) -> &str {
        self.0.code
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn body_too_large(limit: Option<u64>) -> Self {
        let message = match limit {
            Some(limit) => format!(
                "The request body is too large; the limit is {limit} bytes. The setting server.max_body_bytes \
                 changes that."
            ),
            None => {
                "The request body is too large. The setting server.max_body_bytes sets the limit."
                    .to_owned()
            }
        };
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    pub(crate) fn out_of_memory() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "The server has no memory for more requests at the moment; try again soon.",
        )
        .retry_soon()
    }

    pub(crate) fn too_many_connections() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_connections",
            "This client has too many open requests and WebSockets; try again when one has ended. The setting \
             server.max_connections_per_client sets the limit.",
        )
        .retry_soon()
    }

    pub(crate) fn too_many_requests(wait: Duration) -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_requests",
            "This client sends too many requests; wait for the time in the header Retry-After. The \
             setting server.requests_per_client sets the limit.",
        )
        .retry_after(wait)
    }

    pub(crate) fn body_timeout() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_timeout",
            "The request's body stopped arriving; send the request again. The setting server.body_timeout limits the pause.",
        )
    }

    pub(crate) fn request_timeout() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "request_timeout",
            "The request was not answered in time. It may still take effect: check before you repeat it.",
        )
    }

    pub(crate) fn panicked() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "The server failed to handle the request. Its log has the details.",
        )
    }

    /// The JSON form of an error status without a body, such as axum's answer for an unknown route.
    pub(crate) fn bare(status: StatusCode) -> Self {
        let (code, message) = match status {
            StatusCode::NOT_FOUND => ("not_found", "There is nothing at this address."),
            StatusCode::METHOD_NOT_ALLOWED => (
                "method_not_allowed",
                "This address does not support this method; the Allow header lists the supported ones.",
            ),
            _ if status.is_client_error() => ("bad_request", "The request was rejected."),
            _ => (
                "internal",
                "The server failed to handle the request. Its log has the details.",
            ),
        };
        Self::new(status, code, message)
    }
}

/// The error of a client whose call of an object failed.
impl From<abide_runtime::Error> for ApiError {
    fn from(error: abide_runtime::Error) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}
