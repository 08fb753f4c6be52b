//! Shared parts of requests for pages and for JSON: parameters and error responses.

use abide::limits::outbox as limits;
use abide::outbox::{MessageFilter, OutboxError, Status};
use abide::server::ApiError;
use axum::http::StatusCode;
use serde::Deserialize;

/// Mails on one page.
pub(crate) const PAGE: usize = 50;

#[derive(Deserialize)]
pub(crate) struct ById {
    pub(crate) id: i64,
}

#[derive(Deserialize)]
pub(crate) struct Wanted {
    pub(crate) status: Option<Status>,
    pub(crate) before: Option<i64>,
    pub(crate) limit: Option<usize>,
}

impl Wanted {
    pub(crate) fn filter(&self) -> MessageFilter {
        MessageFilter::default()
            .status(self.status)
            .before(self.before)
            .limit(self.limit.unwrap_or(PAGE).clamp(1, limits::MAX_PAGE))
    }
}

/// The error response for an outbox error.
pub(crate) fn told(error: OutboxError) -> ApiError {
    let text = sentence(&error.to_string());
    match error {
        OutboxError::Invalid(_) => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_mail", text)
        }
        OutboxError::Full { .. } => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "outbox_full", text).retry_soon()
        }
        OutboxError::KeyReused { .. } => ApiError::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            text,
        ),
        OutboxError::NotFound { .. } => ApiError::not_found("no_such_mail", text),
        OutboxError::Conflict { .. } => ApiError::conflict("wrong_status", text),
        OutboxError::ClosedKind { .. } => ApiError::new(StatusCode::FORBIDDEN, "closed_kind", text),
        OutboxError::Object(error) => error.into(),
        _ => ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", text),
    }
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{}{}{end}", first.unwrap_or_default(), letters.as_str())
}
