//! The state of timers, and what a handler receives. Times are milliseconds since 1970.

use std::fmt;

use abide::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Spec;

/// The result of setting a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Upserted {
    /// There was none of this name.
    Created,
    /// There was another of this name.
    Replaced,
    /// There was one with the same spec: nothing changed.
    Unchanged,
}

/// The state of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Waits for its next time.
    Waiting,
    /// Goes off: an attempt is running, or about to run.
    Running,
    /// An attempt has failed, and another follows.
    Retrying,
    /// All attempts at an occurrence have failed, and an operator has to decide. A repeating timer continues all the
    /// same.
    Failed,
    /// Will not go off any more.
    Ended,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Ended => "ended",
        })
    }
}

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Timer {
    /// Its name in its schedule.
    pub name: String,
    /// How it was set.
    pub spec: Spec,
    /// Where it is.
    pub phase: Phase,
    /// Its next time. `None` if it has none.
    pub due_at: Option<i64>,
    /// The occurrence that has not finished, or has failed; the newest if there are several.
    pub run: Option<Run>,
    /// When it was first set.
    pub created_at: i64,
    /// When it was last set.
    pub updated_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
}

/// An occurrence of a timer that has not finished, or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// Its id in its schedule. Ids rise.
    pub id: i64,
    /// The timer's name.
    pub timer: String,
    /// For when it was planned.
    pub due_at: i64,
    /// Where it is: `Running`, `Retrying` or `Failed`.
    pub phase: Phase,
    /// When the next attempt is due, if one is.
    pub fire_at: Option<i64>,
    /// Attempts begun.
    pub attempts: u32,
    /// The last error.
    pub last_error: Option<String>,
}

/// An event of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// Its id. Ids rise.
    pub id: i64,
    /// The time.
    pub at: i64,
    /// The timer's name.
    pub timer: String,
    /// What: `created`, `replaced`, `canceled`, `done`, `retried` (an attempt has failed, and another follows),
    /// `failed`, `skipped` (the previous one had not finished), `missed`, `asked` (to go off at once), `redriven`,
    /// `discarded`, `dropped` (its timer was replaced or canceled meanwhile).
    pub event: String,
    /// The planned time of the occurrence.
    pub due_at: Option<i64>,
    /// Details, for people.
    pub detail: Option<String>,
}

/// An occurrence that goes off, as its handler receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Firing {
    /// The timer's name.
    pub timer: String,
    /// What the timer is for.
    pub kind: String,
    /// The timer's metadata: a JSON text.
    pub metadata: String,
    /// For when it was planned. It may be later.
    pub due_at: i64,
    /// The number of this attempt, from 1; those that were throttled have numbers, too.
    pub attempt: u32,
    /// The same for all attempts at this occurrence, and unique to it: an idempotency key.
    pub key: String,
}

impl Firing {
    /// The timer's metadata as a value.
    pub fn metadata<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.metadata).map_err(|error| {
            Error::with_kind(
                ErrorKind::Decode,
                format!("the metadata of timer `{}`: {error}", self.timer),
            )
        })
    }
}
