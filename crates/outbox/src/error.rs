//! What an outbox answers when it does not do what it is asked.

use abide::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Status;

/// Why an outbox did not do what it was asked. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum OutboxError {
    /// The message makes no sense; the text says what would.
    #[error("{0}")]
    Invalid(String),
    /// Too many messages wait.
    #[error("{max} messages are queued already: enqueue when some were sent")]
    Full {
        /// How many may wait.
        max: i64,
    },
    /// The dedup key belongs to a message that says something else.
    #[error(
        "the dedup key belongs to message {id}, which says something else: a new message needs a new key"
    )]
    KeyReused {
        /// The message.
        id: i64,
    },
    /// There is no such message, or it is not kept any more.
    #[error("there is no message {id}")]
    NotFound {
        /// What was asked for.
        id: i64,
    },
    /// The message is not where it would have to be.
    #[error("message {id} is {status}: only one that is {wanted} can be {verb}")]
    Conflict {
        /// The message.
        id: i64,
        /// Where it is.
        status: Status,
        /// Where it would have to be.
        wanted: Status,
        /// What was to be done with it.
        verb: String,
    },
    /// Clients do not write messages of this kind.
    #[error("messages of kind `{kind}` are written by the program alone")]
    ClosedKind {
        /// The kind.
        kind: String,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

impl From<OutboxError> for Error {
    fn from(error: OutboxError) -> Self {
        let kind = match &error {
            OutboxError::Object(error) => return error.clone(),
            OutboxError::Invalid(_) | OutboxError::ClosedKind { .. } => ErrorKind::Input,
            OutboxError::Full { .. } => ErrorKind::Overloaded,
            OutboxError::KeyReused { .. } => ErrorKind::KeyReused,
            OutboxError::NotFound { .. } => ErrorKind::NotFound,
            OutboxError::Conflict { .. } => ErrorKind::Application,
        };
        Self::with_kind(kind, error.to_string())
    }
}
