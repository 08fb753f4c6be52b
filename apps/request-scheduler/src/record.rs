//! The public record of a scheduled request. Times are milliseconds since 1970.

use std::fmt;

use abide::outbox::{Change, Record, Status};
use serde::{Deserialize, Serialize};

use crate::Definition;

/// Where a scheduled request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for its next run.
    Scheduled,
    /// Its last run is being delivered, or retried.
    Running,
    /// Waits to be resumed.
    Paused,
    /// Its last run has failed, and there is no other.
    Failed,
}

impl Phase {
    /// All.
    pub const ALL: [Self; 4] = [Self::Scheduled, Self::Running, Self::Paused, Self::Failed];

    /// The name in JSON and in the index.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a run went, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Where its delivery is.
    pub status: Status,
    /// When that was.
    pub at: i64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A request in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its id.
    pub id: String,
    /// Where it is.
    pub state: Phase,
    /// What it sends.
    pub method: String,
    /// Where to, without the query, which may be secret.
    pub url: String,
    /// Its interval or its cron expression, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rhythm: Option<String>,
    /// When it runs next.
    pub next_at: Option<i64>,
    /// How its last run went.
    pub last: Option<Outcome>,
    /// When it was made.
    pub created_at: i64,
}

/// All that is known of a request, but for its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// As in a list.
    #[serde(flatten)]
    pub entry: Entry,
    /// How it was described; values of headers that may be secrets are hidden.
    pub definition: Definition,
    /// When it was last replaced, paused or resumed.
    pub updated_at: i64,
    /// Runs that are being delivered, or retried.
    pub open_runs: i64,
    /// Runs that have failed and are kept.
    pub failed_runs: i64,
    /// Runs that were left out because too many others were open.
    pub skipped_runs: u64,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its number among the runs of its request; numbers rise.
    pub id: i64,
    /// When it was due.
    pub due_at: i64,
    /// Where its delivery is.
    pub status: Status,
    /// Attempts that were begun.
    pub attempts: u32,
    /// When the next attempt is due.
    pub next_attempt_at: Option<i64>,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// What went wrong last.
    pub error: Option<String>,
    /// What every attempt carries.
    pub idempotency_key: String,
    /// What happened, oldest first.
    pub events: Vec<Change>,
}

impl Run {
    pub(crate) fn new(record: Record, events: Vec<Change>) -> Self {
        Self {
            id: record.id,
            due_at: record.not_before.unwrap_or(record.created_at),
            status: record.status,
            attempts: record.attempts,
            next_attempt_at: record.next_at,
            ended_at: record.finished_at,
            error: record.last_error,
            idempotency_key: record.idempotency_key,
            events,
        }
    }
}

/// A page of a request's runs, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// The runs.
    pub runs: Vec<Run>,
    /// The value of `before` for the next page, if there is one.
    pub next: Option<i64>,
}
