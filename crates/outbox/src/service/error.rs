//! Responses when the outbox refuses.

use abide::{ErrorKind, server::ApiError};
use axum::http::StatusCode;

use super::Refused;
use crate::{OutboxError, refusal::refused};

/// The same for one message of a request.
pub(super) fn refused_message(Refused { index, error }: Refused, one: bool) -> ApiError {
    match error {
        OutboxError::Invalid(text) if !one => {
            refused(OutboxError::Invalid(format!("messages[{index}]: {text}")))
        }
        error => refused(error),
    }
}

/// Why a request with an `Idempotency-Key` has no response.
pub(super) fn unanswered(error: abide::Error) -> ApiError {
    match error.kind() {
        ErrorKind::KeyReused => ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            "This Idempotency-Key was used with another request: a new request needs a new key.",
        ),
        ErrorKind::InProgress => ApiError::conflict(
            "in_progress",
            "The first request with this Idempotency-Key is still running: repeat the request to get its response.",
        )
        .retry_soon(),
        _ => error.into(),
    }
}
