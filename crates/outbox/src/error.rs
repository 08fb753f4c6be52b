//! Errors of an outbox.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Status;

/// Why an outbox refused an operation. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OutboxError {
    /// The message is invalid; the text says what is valid.
    #[error("{0}")]
    Invalid(String),
    /// Too many messages wait.
    #[error("{max} messages are already queued: enqueue again when some were sent")]
    Full {
        /// How many may wait.
        max: i64,
    },
    /// The dedup key belongs to a message with other content.
    #[error(
        "the dedup key belongs to message {id}, which has other content: a new message needs a new key"
    )]
    KeyReused {
        /// The message.
        id: i64,
    },
    /// There is no such message, or it is no longer kept.
    #[error("there is no message {id}")]
    NotFound {
        /// The requested message.
        id: i64,
    },
    /// The message does not have the required status.
    #[error(
        "message {id} is {status}: only one that is {} can be {verb}",
        any_of(wanted)
    )]
    Conflict {
        /// The message.
        id: i64,
        /// Its status.
        status: Status,
        /// The statuses that allow it.
        wanted: Vec<Status>,
        /// The refused operation.
        verb: String,
    },
    /// Clients may not write messages of this kind.
    #[error("only the program may write messages of kind `{kind}`")]
    ClosedKind {
        /// The kind.
        kind: String,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

abide_component::error_kinds!(OutboxError {
    Invalid | ClosedKind => Input,
    Full => Overloaded,
    KeyReused => KeyReused,
    NotFound => NotFound,
    Conflict => Application,
});

fn any_of(statuses: &[Status]) -> String {
    let names: Vec<_> = statuses.iter().map(|status| status.as_str()).collect();
    names.join(" or ")
}
