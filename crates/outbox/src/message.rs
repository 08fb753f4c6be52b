//! Messages: what is enqueued, and its stored state.

use std::{borrow::Cow, fmt, time::Duration};

use abide::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use abide_component::numbers::millis;

/// A message to be enqueued: a kind, a payload, and how to deliver it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxMessage {
    /// The kind, which selects the handler.
    pub kind: Cow<'static, str>,
    /// The payload: a JSON text.
    pub payload: String,
    /// A message with the same key is enqueued once, for as long as the outbox keeps the first.
    #[serde(default)]
    pub dedup_key: Option<String>,
    /// Messages with the same key are delivered one after the other, in the order in which they were enqueued.
    #[serde(default)]
    pub ordering_key: Option<String>,
    /// Not to be sent before this time, in milliseconds since 1970.
    #[serde(default)]
    pub not_before: Option<i64>,
    /// No attempt begins after this time, in milliseconds since 1970: the message fails.
    #[serde(default)]
    pub deadline: Option<i64>,
    /// The order among messages that are due to one destination.
    #[serde(default)]
    pub priority: Priority,
    /// The waits between its attempts, in milliseconds; replaces the handler's.
    #[serde(default)]
    pub schedule: Option<Vec<i64>>,
}

/// The priority of a message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// When there is nothing else to send.
    Low,
}

impl OutboxMessage {
    /// A message of a kind.
    pub fn new(
        kind: impl Into<Cow<'static, str>>,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<Self> {
        let payload = serde_json::to_string(payload).map_err(|error| {
            Error::with_kind(
                ErrorKind::Input,
                format!("the payload cannot be written as JSON: {error}"),
            )
        })?;
        Ok(Self::from_json(kind, payload))
    }

    /// A message whose payload is already a JSON text. Enqueuing validates it.
    pub fn from_json(kind: impl Into<Cow<'static, str>>, payload: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            payload: payload.into(),
            dedup_key: None,
            ordering_key: None,
            not_before: None,
            deadline: None,
            priority: Priority::Normal,
            schedule: None,
        }
    }

    /// Sets [`dedup_key`](Self::dedup_key).
    #[must_use]
    pub fn dedup_key(mut self, key: impl Into<String>) -> Self {
        self.dedup_key = Some(key.into());
        self
    }

    /// Sets [`ordering_key`](Self::ordering_key).
    #[must_use]
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Sets [`not_before`](Self::not_before).
    #[must_use]
    pub fn not_before(mut self, unix_millis: i64) -> Self {
        self.not_before = Some(unix_millis);
        self
    }

    /// Sets [`deadline`](Self::deadline).
    #[must_use]
    pub fn deadline(mut self, unix_millis: i64) -> Self {
        self.deadline = Some(unix_millis);
        self
    }

    /// Sets [`priority`](Self::priority).
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets [`schedule`](Self::schedule): the first attempt is made at once, and another after each of these waits.
    #[must_use]
    pub fn schedule(mut self, waits: &[Duration]) -> Self {
        self.schedule = Some(waits.iter().map(|wait| millis(*wait)).collect());
        self
    }
}

/// The result of enqueuing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Enqueued {
    /// The message's id in its outbox. Ids increase.
    pub id: i64,
    /// True if a message with the same dedup key and content existed: nothing was added.
    pub duplicate: bool,
}

/// The status of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waits for an attempt.
    Queued,
    /// An attempt is in flight, or the receiver has accepted it and is polled.
    Sending,
    /// Delivered.
    Sent,
    /// Given up: a dead letter until an operator decides.
    Failed,
    /// Canceled before it was sent.
    Canceled,
    /// A dead letter that an operator discarded.
    Discarded,
}

impl Status {
    /// All, in the order of a message's life.
    pub const ALL: [Self; 6] = [
        Self::Queued,
        Self::Sending,
        Self::Sent,
        Self::Failed,
        Self::Canceled,
        Self::Discarded,
    ];

    /// The name in the database and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Discarded => "discarded",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a message, without its payload. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Its id.
    pub id: i64,
    /// Its kind.
    pub kind: String,
    /// Its status.
    pub status: Status,
    /// Its destination: what shares a rate and a circuit breaker.
    pub destination: String,
    /// A line for people, by its handler.
    pub summary: String,
    /// Sent with every attempt.
    pub idempotency_key: String,
    /// See [`OutboxMessage::dedup_key`].
    pub dedup_key: Option<String>,
    /// See [`OutboxMessage::ordering_key`].
    pub ordering_key: Option<String>,
    /// See [`OutboxMessage::priority`].
    pub priority: Priority,
    /// See [`OutboxMessage::not_before`].
    pub not_before: Option<i64>,
    /// See [`OutboxMessage::deadline`].
    pub deadline: Option<i64>,
    /// True while an earlier message with its ordering key blocks it.
    pub blocked: bool,
    /// When the next attempt or poll is due. `None` while one is in flight, and when the message is finished.
    pub next_at: Option<i64>,
    /// Attempts begun.
    pub attempts: u32,
    /// The operation to poll, if the receiver has accepted the message and is processing it.
    pub operation: Option<String>,
    /// Polls made.
    pub polls: u32,
    /// True if an attempt's response was lost, so it may have had its effect.
    pub unknown: bool,
    /// The last error.
    pub last_error: Option<String>,
    /// When it was enqueued.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
    /// When it finished.
    pub finished_at: Option<i64>,
    /// The fan-out that created it.
    pub fan_out: Option<i64>,
    /// Since when it would have been given up, if the outbox gave messages up: see [`GiveUp::Never`](super::GiveUp::Never).
    #[serde(default)]
    pub failing_since: Option<i64>,
}

/// An event of a message's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The time, in milliseconds since 1970.
    pub at: i64,
    /// The event.
    pub event: String,
    /// Details, for people.
    pub detail: Option<String>,
}

/// The numbers of an outbox's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Counts {
    /// See [`Status::Queued`].
    pub queued: i64,
    /// See [`Status::Sending`].
    pub sending: i64,
    /// See [`Status::Sent`]: those that are still kept.
    pub sent: i64,
    /// See [`Status::Failed`].
    pub failed: i64,
    /// See [`Status::Canceled`]: those that are still kept.
    pub canceled: i64,
    /// See [`Status::Discarded`]: those that are still kept.
    pub discarded: i64,
    /// The queued and sending messages that would have been given up, if the outbox gave messages up.
    #[serde(default)]
    pub failing: i64,
}
