//! Fan-out: one command that becomes many messages, one batch at a time.
//!
//! Contract: a batch of messages and the position of the next batch are one transaction, so an interrupted fan-out
//! continues where it stopped and creates each message once. Only one batch is in memory.

use abide::{Error, ErrorKind, Result, Storage};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{OutboxError, OutboxMessage, sql::Sql};
use abide_component::numbers::rows;

/// Turns one command into many messages.
pub trait FanOut: Send + Sync + 'static {
    /// The command, such as the text that goes to all and the last subscriber. Stored as JSON.
    type Command: Serialize + DeserializeOwned + 'static;

    /// The name in the command's row.
    const NAME: &'static str;

    /// The next messages, at most `limit`, after the position where the last batch ended. Synchronous: it reads the
    /// object's own storage, in the transaction that enqueues its result. An error or a panic makes the fan-out fail;
    /// [`Outbox::resume_fan_out`](super::Outbox::resume_fan_out) continues it.
    fn batch(
        &self,
        storage: &Storage,
        command: &Self::Command,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch>;
}

/// A batch of a fan-out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The messages, enqueued in this order.
    pub messages: Vec<OutboxMessage>,
    /// The position of the next batch, in the fan-out's own format; `None` if this is the last.
    pub next: Option<String>,
}

/// The progress of a fan-out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FanOutRecord {
    /// Its id in its outbox.
    pub id: i64,
    /// Its [`FanOut::NAME`].
    pub name: String,
    /// Its status.
    pub status: FanOutStatus,
    /// Messages created so far.
    pub made: i64,
    /// Why it failed.
    pub error: Option<String>,
    /// When it was started, in milliseconds since 1970.
    pub created_at: i64,
    /// When its last batch was created.
    pub updated_at: i64,
}

/// The status of a fan-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FanOutStatus {
    /// More messages remain.
    Running,
    /// All messages are created.
    Done,
    /// Its code returned an error or panicked.
    Failed,
    /// It was canceled.
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
                format!("the command does not match fan-out `{}`: {error}", F::NAME),
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
    .all()
}

/// Cancels one that is running, or that has failed and waits for an operator.
pub(super) fn cancel(sql: &Sql, id: i64, now: i64) -> Result<FanOutRecord, OutboxError> {
    sql.exec(
        "UPDATE outbox_fan_outs SET status = 'canceled', updated_at = ?2
         WHERE id = ?1 AND status IN ('running', 'failed')",
        (id, now),
    )?;
    get(sql, id)
}

/// Continues a failed or canceled one where it stopped.
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
