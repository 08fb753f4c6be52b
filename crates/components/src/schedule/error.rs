//! What a schedule answers when it does not do what it is asked.

use abide::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a schedule did not do what it was asked. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum ScheduleError {
    /// The timer makes no sense; the text says what would.
    #[error("{0}")]
    Invalid(String),
    /// There are too many timers.
    #[error("the schedule has {max} timers already: cancel some, or use several objects")]
    Full {
        /// How many there may be.
        max: i64,
    },
    /// There is no such timer.
    #[error("there is no timer `{name}`: set it first")]
    NotFound {
        /// What was asked for.
        name: String,
    },
    /// The timer's last occurrence has not ended.
    #[error(
        "timer `{name}` has not ended what it began: wait for it, or let its occurrences overlap"
    )]
    Busy {
        /// The timer.
        name: String,
    },
    /// Nothing of the timer has failed.
    #[error("timer `{name}` has not failed: only what has failed can be tried again or given up")]
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
