//! What a lock or a fence answers when it refuses.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Token;

/// Why a lock, or a fence, refused. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LockError {
    /// The request is invalid; the text says what is expected.
    #[error("{0}")]
    Invalid(String),
    /// Another holder has the lock.
    #[error(
        "`{holder}` holds the lock until {expires_at} (milliseconds since 1970), unless it renews or releases it"
    )]
    Held {
        /// Who.
        holder: String,
        /// When its lease ends.
        expires_at: i64,
    },
    /// The lease has ended, and another holder may have had the lock since.
    #[error(
        "the lease with token {token} has ended: acquire the lock again, and look at what it protects"
    )]
    Lost {
        /// The lease's.
        token: Token,
    },
    /// Too many calls wait for the lock.
    #[error("{max} calls wait for the lock already: try again later")]
    TooManyWaiters {
        /// How many may wait.
        max: usize,
    },
    /// The resource has seen a newer holder.
    #[error(
        "token {token} is of an older lease than {newest}, which the resource has seen: acquire the lock again"
    )]
    Stale {
        /// The token that was refused.
        token: Token,
        /// The highest that was seen.
        newest: Token,
    },
    /// The lock's object is a fork that was not activated, or was restored as a dormant copy.
    #[error(
        "this lock is dormant, so it grants nothing: activate its object, or use the lock that it is a copy of"
    )]
    Dormant,
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

abide_component::error_kinds!(LockError {
    Invalid => Input,
    TooManyWaiters => Overloaded,
    Held | Lost | Stale | Dormant => Application,
});
