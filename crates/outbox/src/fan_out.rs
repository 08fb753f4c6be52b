//! Fan-out: one command that becomes many messages, a batch at a time.
//!
//! Contract: a batch of messages and the place where the next one begins are one transaction, so a fan-out that is cut off
//! goes on where it was and makes each message once. A batch is all that is in memory.

use abide::{Error, ErrorKind, Result, Storage};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Message, OutboxError, sql::Sql};
use abide_component::numbers::rows;

/// Turns one command into many messages.
pub trait FanOut: Send + Sync + 'static {
    /// What is to be done, such as the text that goes to all and up to which subscriber. Kept as JSON.
    type Command: Serialize + DeserializeOwned + 'static;

    /// The name that the command's row carries.
    const NAME: &'static str;

    /// The next messages, at most `limit`, behind the place where the last batch ended. Synchronous: it reads the object's
    /// own storage, in the transaction that enqueues what it returns. An error or a panic ends the fan-out as failed;
    /// [`Outbox::resume_fan_out`](super::Outbox::resume_fan_out) lets it go on.
    fn batch(
        &self,
        storage: &Storage,
        command: &Self::Command,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch>;
}

/// Some of a fan-out's messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// They are enqueued in this order.
    pub messages: Vec<Message>,
    /// Where the next batch begins, in the fan-out's own words; `None` if this is the last.
    pub next: Option<String>,
}

/// How far a fan-out is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FanOutRecord {
    /// Its id in its outbox.
    pub id: i64,
    /// Its [`FanOut::NAME`].
    pub name: String,
    /// Whether it goes on.
    pub status: FanOutStatus,
    /// Messages that it has made.
    pub made: i64,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was asked for, in milliseconds since 1970.
    pub created_at: i64,
    /// When its last batch was made.
    pub updated_at: i64,
}

/// Whether a fan-out goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FanOutStatus {
    /// There is more to make.
    Running,
    /// All messages are made.
    Done,
    /// Its code refused to go on.
    Failed,
    /// Somebody ended it.
    Canceled,
}

/// A [`FanOut`] without its type.
pub(crate) trait AnyFanOut: Send + Sync {
    fn batch(
        &self,
        storage: &Storage,
        command: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch>;
}

impl<F: FanOut> AnyFanOut for F {
    fn batch(
        &self,
        storage: &Storage,
        command: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch> {
        let command = serde_json::from_str(command).map_err(|error| {
            Error::with_kind(
                ErrorKind::Decode,
                format!("the command does not fit fan-out `{}`: {error}", F::NAME),
            )
        })?;
        FanOut::batch(self, storage, &command, after, limit)
    }
}

const RECORD: &str = "id, name, status, made, error, created_at, updated_at";

pub(super) fn insert(sql: &Sql, name: &str, command: &str, now: i64) -> Result<i64> {
    sql.exec(
        "INSERT INTO outbox_fan_outs (name, command, status, created_at, updated_at)
         VALUES (?1, ?2, 'running', ?3, ?3) RETURNING id",
        (name, command, now),
    )?
    .one()
}

pub(super) fn list(sql: &Sql, limit: usize) -> Result<Vec<FanOutRecord>> {
    sql.exec(
        &format!("SELECT {RECORD} FROM outbox_fan_outs ORDER BY id DESC LIMIT ?1"),
        (rows(limit),),
    )?
    .to_array()
}

/// Ends one that runs, or that has failed and is kept until somebody decides.
pub(super) fn cancel(sql: &Sql, id: i64, now: i64) -> Result<FanOutRecord, OutboxError> {
    sql.exec(
        "UPDATE outbox_fan_outs SET status = 'canceled', updated_at = ?2
         WHERE id = ?1 AND status IN ('running', 'failed')",
        (id, now),
    )?;
    get(sql, id)
}

/// Lets one that failed or was canceled go on where it was.
pub(super) fn resume(sql: &Sql, id: i64, now: i64) -> Result<FanOutRecord, OutboxError> {
    sql.exec(
        "UPDATE outbox_fan_outs SET status = 'running', error = NULL, updated_at = ?2
         WHERE id = ?1 AND status IN ('failed', 'canceled')",
        (id, now),
    )?;
    get(sql, id)
}

fn get(sql: &Sql, id: i64) -> Result<FanOutRecord, OutboxError> {
    sql.exec(
        &format!("SELECT {RECORD} FROM outbox_fan_outs WHERE id = ?1"),
        (id,),
    )?
    .optional()?
    .ok_or(OutboxError::NotFound { id })
}
