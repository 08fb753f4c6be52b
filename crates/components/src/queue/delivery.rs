//! A batch as it travels to consumers that are elsewhere, and their answer.

use abide::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::MessageId;

/// A message on its way to a consumer that is an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The message: the same at every attempt, so a consumer can tell repetitions by it.
    pub id: MessageId,
    /// Its key.
    pub key: Option<String>,
    /// What it says: a JSON text.
    pub body: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When it was sent, in milliseconds since 1970.
    pub sent_at: i64,
}

impl Delivery {
    /// What it says, as a value.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.body).map_err(|error| {
            Error::with_kind(
                ErrorKind::Decode,
                format!("message {} does not fit its consumer: {error}", self.id),
            )
        })
    }
}

/// Which messages of a batch were not taken. All others were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    /// To be tried again.
    #[serde(default)]
    pub retry: Vec<Retry>,
    /// Never to be taken: they become dead letters at once.
    #[serde(default)]
    pub dead: Vec<Dead>,
}

/// A message that is to be tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The message.
    pub id: MessageId,
    /// Not before so many seconds, if not as the queue does.
    #[serde(default)]
    pub after: Option<u32>,
    /// Why.
    #[serde(default)]
    pub error: String,
}

/// A message that will never be taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dead {
    /// The message.
    pub id: MessageId,
    /// Why.
    pub error: String,
}

impl Exceptions {
    /// Adds a message that is to be tried again when the queue thinks fit.
    #[must_use]
    pub fn retry(mut self, id: MessageId, error: impl Into<String>) -> Self {
        self.retry.push(Retry {
            id,
            after: None,
            error: error.into(),
        });
        self
    }

    /// Adds a message that will never be taken.
    #[must_use]
    pub fn dead(mut self, id: MessageId, error: impl Into<String>) -> Self {
        self.dead.push(Dead {
            id,
            error: error.into(),
        });
        self
    }
}
