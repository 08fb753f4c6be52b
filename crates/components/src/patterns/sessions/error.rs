//! Errors of sessions.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why nothing was done. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionError {
    /// The request is invalid; the text says what is expected.
    #[error("{0}")]
    Invalid(String),
    /// The data are no JSON of the wanted type.
    #[error("the session's data: {0}")]
    Data(String),
    /// The object holds too many sessions.
    #[error("the object holds {max} sessions already: end some, or raise `max_sessions`")]
    Full {
        /// How many there may be.
        max: u32,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

abide_component::error_kinds!(SessionError {
    Invalid => Input,
    Data => Decode,
    Full => Limit,
});
