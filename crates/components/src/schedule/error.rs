//! Errors of schedules.

use abide::{Error, ErrorKind};
use abide_component::Failure;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a schedule refused a request. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The timer is invalid; the text says what is valid.
    #[error("{0}")]
    Invalid(String),
    /// There are too many timers.
    #[error("the schedule already has {max} timers: cancel some, or use several objects")]
    Full {
        /// How many there may be.
        max: i64,
    },
    /// There is no such timer.
    #[error("there is no timer `{name}`: set it first")]
    NotFound {
        /// The requested timer.
        name: String,
    },
    /// The timer's last occurrence has not finished.
    #[error(
        "the last occurrence of timer `{name}` has not finished: wait for it, or let occurrences overlap"
    )]
    Busy {
        /// The timer.
        name: String,
    },
    /// Nothing of the timer has failed.
    #[error("timer `{name}` has not failed: only a failed timer can be retried or discarded")]
    NotFailed {
        /// The timer.
        name: String,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

impl From<ScheduleError> for Error {
    fn from(error: ScheduleError) -> Self {
        let kind = match &error {
            ScheduleError::Object(error) => return error.clone(),
            ScheduleError::Invalid(_) => ErrorKind::Input,
            ScheduleError::Full { .. } => ErrorKind::Limit,
            ScheduleError::NotFound { .. } => ErrorKind::NotFound,
            ScheduleError::Busy { .. } | ScheduleError::NotFailed { .. } => ErrorKind::Application,
        };
        Self::with_kind(kind, error.to_string())
    }
}

impl From<ScheduleError> for Failure {
    fn from(error: ScheduleError) -> Self {
        Error::from(error).into()
    }
}
