//! What sharded namespaces answer when they refuse.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why nothing was done. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ShardingError {
    /// The request is invalid; the text says what is expected.
    #[error("{0}")]
    Invalid(String),
    /// The namespace has another number of shards.
    #[error(
        "the sharded namespace has {shards} shards, not {wanted}: keys would lose what their shards hold. Use another \
         name, and move the data"
    )]
    Declared {
        /// How many it has.
        shards: u32,
        /// How many were wanted.
        wanted: u32,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

abide_component::error_kinds!(ShardingError {
    Invalid => Input,
    Declared => Application,
});
