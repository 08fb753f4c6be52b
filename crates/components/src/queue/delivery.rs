//! The wire form of a batch for remote consumers, and their response.

use abide::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::MessageId;

/// A message for a consumer that is an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The message's id: the same on every attempt, so a consumer can detect duplicates.
    pub id: MessageId,
    /// Its key.
    pub key: Option<String>,
    /// The body: a JSON text.
    pub body: String,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// When it was sent, in milliseconds since 1970.
    pub sent_at: i64,
}

impl Delivery {
    /// The body, deserialized.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.body).map_err(|error| {
            Error::with_kind(
                ErrorKind::Decode,
                format!(
                    "message {} does not match its consumer's type: {error}",
                    self.id
                ),
            )
        })
    }
}

/// The messages of a batch that were not consumed. All others were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    /// To be retried.
    #[serde(default)]
    pub retry: Vec<Retry>,
    /// Never to be consumed: they become dead letters at once.
    #[serde(default)]
    pub dead: Vec<Dead>,
}

/// A message to retry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The message.
    pub id: MessageId,
    /// Not before this many seconds, nor before the queue's policy says.
    #[serde(default)]
    pub after: Option<u32>,
    /// Why.
    #[serde(default)]
    pub error: String,
}

/// A message that will never be consumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    /// The message.
    pub id: MessageId,
    /// Why.
    pub error: String,
}

impl Exceptions {
    /// Adds a message to retry according to the queue's policy.
    #[must_use]
    pub fn retry(mut self, id: MessageId, error: impl Into<String>) -> Self {
        self.retry.push(Retry {
            id,
            after: None,
            error: error.into(),
        });
        self
    }

    /// Adds a message that will never be consumed.
    #[must_use]
    pub fn dead(mut self, id: MessageId, error: impl Into<String>) -> Self {
        self.dead.push(Dead {
            id,
            error: error.into(),
        });
        self
    }
}
