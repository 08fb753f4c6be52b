//! Timelines: what a restore or a fork means to an object's code.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

use abide_storage::{Bookmark, StoredCause, TimelineId, TimelineRow};
use serde::{Deserialize, Serialize};

use crate::{ObjectId, Timestamp};

/// A stretch of an object's life without a restore.
///
/// The first timeline begins with the object's creation; each restore and each fork begins another. A restore rewinds
/// counters and sequences, so they repeat. Versions that other objects or programs remember are therefore
/// `(timeline, sequence)`: timelines of one object compare as they began, and never repeat, even if a restore undoes
/// another. As text, [`id`](Self::id) sorts in the same way.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    id: TimelineId,
    cause: TimelineCause,
    since: Option<Timestamp>,
}

/// How a timeline began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimelineCause {
    /// With the creation of the object, or of an empty object in place of a damaged one.
    Created,
    /// With a restore.
    Restored {
        /// The state that was left. A restore to it undoes this one.
        from: Bookmark,
        /// The state that was restored.
        to: Bookmark,
    },
    /// With a fork.
    Forked {
        /// The object that was copied. It may be of another class: [`Env::any_object`](crate::Env::any_object) finds it.
        origin: ObjectId,
        /// The state of it that was copied.
        bookmark: Bookmark,
    },
    /// With an import.
    Imported {
        /// The SHA-256 of what was imported: the listing of an export, or the database file.
        source: [u8; 32],
        /// It replaces the object that was exported, which is gone. Otherwise it is a copy, like a fork.
        replaces: bool,
    },
}

impl Timeline {
    pub(crate) fn new(row: &TimelineRow) -> Self {
        let cause = match row.cause {
            StoredCause::Created => TimelineCause::Created,
            StoredCause::Restored { from, to } => TimelineCause::Restored { from, to },
            StoredCause::Forked { origin, bookmark } => TimelineCause::Forked {
                origin: ObjectId::from_bytes(origin),
                bookmark,
            },
            StoredCause::Imported { source, replaces } => {
                TimelineCause::Imported { source, replaces }
            }
        };
        let since = row.since.and_then(|since| i64::try_from(since).ok());
        Self {
            id: row.id,
            cause,
            since: since.map(Timestamp::from_unix_millis),
        }
    }

    /// Its id, which can be stored and compared.
    pub fn id(&self) -> TimelineId {
        self.id
    }

    /// How it began.
    pub fn cause(&self) -> TimelineCause {
        self.cause
    }

    /// When it began; `None` for the timeline of an object that was neither restored, forked nor imported.
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// A number from which a sequence can continue without repeating a number of an earlier timeline, provided that it
    /// takes the larger of this and its next number on each new timeline, and grows by at most one per 8 bytes that the
    /// object writes.
    pub fn floor(&self) -> i64 {
        i64::try_from(self.id.position()).unwrap_or(i64::MAX)
    }

    /// Returns whether the object is a copy that has not been restored since: a fork, or the import of an object that may
    /// still exist elsewhere.
    pub fn is_fork(&self) -> bool {
        matches!(
            self.cause,
            TimelineCause::Forked { .. }
                | TimelineCause::Imported {
                    replaces: false,
                    ..
                }
        )
    }
}

impl PartialEq for Timeline {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Timeline {}

impl PartialOrd for Timeline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timeline {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }
}

impl Hash for Timeline {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// What to do with the work that a dormant object has inherited: queued messages, timers, alarms, running steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// It is dropped: the original does it. For a copy.
    #[default]
    Fresh,
    /// The object takes it over, with the same idempotency keys. For the replacement of an original that is gone, and
    /// after a restore.
    Continue,
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Continue => "continue",
        })
    }
}
