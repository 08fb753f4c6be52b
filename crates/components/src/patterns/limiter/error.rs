//! What a rate limiter answers when it cannot decide.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a rate limiter did not decide. Nothing was counted.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LimiterError {
    /// The request is invalid; the text says what is expected.
    #[error("{0}")]
    Invalid(String),
    /// The limiter counts too many keys.
    #[error("the rate limiter counts {max} keys already: use fewer, or one limiter for each user")]
    TooManyKeys {
        /// How many there may be.
        max: usize,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

abide_component::error_kinds!(LimiterError {
    Invalid => Input,
    TooManyKeys => Limit,
});
