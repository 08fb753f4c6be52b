//! The response to a client when an outbox refuses.

use abide::{ErrorKind, server::ApiError};
use abide_component::texts::sentence;
use axum::http::StatusCode;

use super::OutboxError;

/// An outbox's refusal, as a response.
pub(crate) fn refused(error: OutboxError) -> ApiError {
    let text = sentence(&error);
    match error {
        OutboxError::Invalid(_) => ApiError::bad_request("invalid_message", text),
        OutboxError::Full { .. } => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "outbox_full", text).retry_soon()
        }
        OutboxError::KeyReused { .. } => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "dedup_key_reused", text)
        }
        OutboxError::NotFound { .. } => ApiError::not_found("no_such_message", text),
        OutboxError::Conflict { .. } => ApiError::conflict("wrong_status", text),
        OutboxError::ClosedKind { .. } => ApiError::new(StatusCode::FORBIDDEN, "closed_kind", text),
        // There was no answer.
        OutboxError::Object(error) if !error.remote() => error.into(),
        OutboxError::Object(error) => match error.kind() {
            ErrorKind::Input => ApiError::bad_request("invalid_message", text),
            ErrorKind::Limit
            | ErrorKind::NoSpace
            | ErrorKind::StorageFull
            | ErrorKind::TooManyCreated => error.into(),
            // It may hold SQL or data.
            _ => {
                tracing::error!(%error, "an outbox failed; its client received object_error");
                ApiError::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "object_error",
                    "The outbox failed to handle the request; the server's log has the details.",
                )
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use abide::Error;

    use super::*;

    #[test]
    fn a_node_that_is_too_busy_to_answer_is_no_failure_of_the_outbox() {
        let busy = Error::with_kind(ErrorKind::Overloaded, "too many calls wait");
        let answer = refused(OutboxError::Object(busy.clone()));
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        // The outbox itself has met such an error: its client learns nothing of it.
        let text = serde_json::to_string(&busy).unwrap();
        let met: Error = serde_json::from_str(&text).unwrap();
        let answer = refused(OutboxError::Object(met));
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
