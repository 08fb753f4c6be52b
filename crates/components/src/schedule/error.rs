//! Errors of schedules.

use abide::Error;
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

abide_component::error_kinds!(ScheduleError {
    Invalid => Input,
    Full => Limit,
    NotFound => NotFound,
    Busy | NotFailed => Application,
});
