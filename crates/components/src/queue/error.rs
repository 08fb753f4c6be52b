//! Errors of queues.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::MessageId;

/// Why a queue refused a request. Nothing changed in the shard that says so.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum QueueError {
    /// It is invalid; the text says what is valid.
    #[error("{0}")]
    Invalid(String),
    /// The program has not declared the queue.
    #[error("there is no queue `{queue}`; this program declares {known}")]
    Unknown {
        /// What was asked for.
        queue: String,
        /// The declared queues.
        known: String,
    },
    /// The shard is full.
    #[error(
        "shard {shard} of queue `{queue}` holds {messages} messages and {dead} dead letters, {bytes} bytes in all, and takes no \
         more: send again when some were consumed, or redrive or discard dead letters"
    )]
    Full {
        /// The queue.
        queue: String,
        /// The shard.
        shard: u32,
        /// Messages that wait or are in flight.
        messages: i64,
        /// Dead letters.
        dead: i64,
        /// Bytes of their bodies.
        bytes: i64,
    },
    /// The dedup key belongs to a message with other content.
    #[error(
        "the dedup key belongs to message {id}, which has other content: a new message needs a new key"
    )]
    KeyReused {
        /// The message.
        id: MessageId,
    },
    /// There is no such dead letter.
    #[error("there is no dead letter {id}")]
    NotFound {
        /// What was asked for.
        id: MessageId,
    },
    /// The storage, the object, or the transport failed.
    #[error(transparent)]
    Object(#[from] Error),
}

impl QueueError {
    /// True if nothing was accepted, and the same may be accepted after a pause.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Object(error) => error.retryable(),
            _ => false,
        }
    }
}

abide_component::error_kinds!(QueueError {
    Invalid => Input,
    Full => Overloaded,
    KeyReused => KeyReused,
    Unknown | NotFound => NotFound,
});
