//! Errors that clients receive when a request is refused.

use abide::{Error, server::ApiError};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::{Invalid, definition::InvalidCode, limits};

/// Why an operation on a scheduled request failed. Nothing changed.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum SchedulerError {
    /// The definition cannot be scheduled.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// There is no such request.
    #[error(
        "There is no scheduled request with this id. A request that runs once is forgotten when it is done."
    )]
    NotFound,
    /// There are too many.
    #[error(
        "There are as many scheduled requests as there may be ({max}): cancel some, or start the server with a higher --max-requests."
    )]
    Full {
        /// How many there may be.
        max: i64,
    },
    /// Nothing has failed.
    #[error("No run of this request has failed: there is nothing to retry.")]
    NothingFailed,
    /// It runs at the moment, and never again.
    #[error("Its only run has begun: it cannot be paused any more. DELETE cancels it.")]
    HasRun,
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

impl SchedulerError {
    pub(crate) fn full(max: i64) -> Self {
        Self::Full { max }
    }
}

impl From<SchedulerError> for ApiError {
    fn from(error: SchedulerError) -> Self {
        let text = error.to_string();
        match error {
            SchedulerError::Invalid(Invalid { code, .. }) => match code {
                InvalidCode::Schedule => Self::bad_request("invalid_schedule", text),
                InvalidCode::Request => Self::bad_request("invalid_request", text),
                InvalidCode::Retry => Self::bad_request("invalid_retries", text),
                InvalidCode::TooLarge => {
                    Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", text)
                }
            },
            SchedulerError::NotFound => Self::not_found("no_such_request", text),
            SchedulerError::Full { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_requests", text)
            }
            SchedulerError::NothingFailed => Self::conflict("nothing_failed", text),
            SchedulerError::HasRun => Self::conflict("has_run", text),
            SchedulerError::Object(error) => error.into(),
        }
    }
}

/// Refuses an id that cannot be one.
pub(crate) fn check_id(id: &str) -> Result<(), ApiError> {
    let fits = (1..=limits::MAX_ID).contains(&id.len())
        && id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if fits {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "invalid_id",
        format!(
            "An id has 1 to {} letters, digits, `-`, `_` and `.`, and begins with a letter or a digit.",
            limits::MAX_ID
        ),
    ))
}
