//! Messages: what is sent, and its stored state.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MessageId, QueueError, limits};
use abide_component::numbers::millis;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueMessage {
    /// What it says: a JSON text.
    pub body: String,
    /// Messages with the same key go to the same shard.
    #[serde(default)]
    pub key: Option<String>,
    /// A message with the same dedup key is accepted once, for as long as its shard remembers the key.
    #[serde(default)]
    pub dedup_key: Option<String>,
    /// It is not delivered before this time has passed, in milliseconds.
    #[serde(default)]
    pub delay: i64,
}

impl QueueMessage {
    /// A message with this body.
    pub fn new(body: &(impl Serialize + ?Sized)) -> Result<Self, QueueError> {
        serde_json::to_string(body)
            .map(Self::from_json)
            .map_err(|error| {
                QueueError::Invalid(format!("the body cannot be written as JSON: {error}"))
            })
    }

    /// A message whose body is already a JSON text. Sending validates it.
    pub fn from_json(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            key: None,
            dedup_key: None,
            delay: 0,
        }
    }

    /// Sets [`key`](Self::key).
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets [`dedup_key`](Self::dedup_key).
    #[must_use]
    pub fn dedup_key(mut self, key: impl Into<String>) -> Self {
        self.dedup_key = Some(key.into());
        self
    }

    /// Sets [`delay`](Self::delay).
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = millis(delay);
        self
    }

    /// Validates the message.
    pub(super) fn check(&self) -> Result<(), QueueError> {
        let invalid = |text: String| Err(QueueError::Invalid(text));
        if self.body.len() > limits::MAX_BODY_BYTES {
            return invalid(format!(
                "the body has {} bytes; at most {} are accepted: store large data elsewhere and send its address",
                self.body.len(),
                limits::MAX_BODY_BYTES
            ));
        }
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&self.body) {
            return invalid(format!("the body is not JSON: {error}"));
        }
        for (what, key) in [("key", &self.key), ("dedup key", &self.dedup_key)] {
            if let Some(key) = key
                && !(1..=limits::MAX_KEY_BYTES).contains(&key.len())
            {
                return invalid(format!(
                    "the {what} has {} bytes: give it 1 to {}",
                    key.len(),
                    limits::MAX_KEY_BYTES
                ));
            }
        }
        if !(0..=millis(limits::MAX_DELAY)).contains(&self.delay) {
            return invalid(format!(
                "the delay is {} ms: it may be 0 to {}",
                self.delay,
                millis(limits::MAX_DELAY)
            ));
        }
        Ok(())
    }
}

/// The result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sent {
    /// The message.
    pub id: MessageId,
    /// True if a message with the same dedup key and content was accepted before: nothing was added.
    pub duplicate: bool,
}

/// Counts of a shard or of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// Messages that wait, or that a consumer has.
    pub messages: i64,
    /// Bytes of the bodies of messages and dead letters.
    pub bytes: i64,
    /// Dead letters.
    pub dead: i64,
    /// Messages that were consumed, ever.
    pub consumed: i64,
    /// When the oldest of the messages was sent, in milliseconds since 1970.
    pub oldest: Option<i64>,
    /// Shards that are paused because their consumer failed the newest batch as a whole.
    pub failing: u32,
    /// The error of one of them.
    pub last_error: Option<String>,
}

impl Counts {
    pub(super) fn and(self, other: Self) -> Self {
        let oldest = match (self.oldest, other.oldest) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            dead: self.dead + other.dead,
            consumed: self.consumed + other.consumed,
            oldest,
            failing: self.failing + other.failing,
            last_error: self.last_error.or(other.last_error),
        }
    }
}

/// A message that was given up. It waits for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The message.
    pub id: MessageId,
    /// What it says: a JSON text.
    pub body: String,
    /// Its key.
    pub key: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it was given up.
    pub error: String,
    /// When it was sent, in milliseconds since 1970.
    pub sent_at: i64,
    /// When it was given up, in milliseconds since 1970.
    pub died_at: i64,
}
