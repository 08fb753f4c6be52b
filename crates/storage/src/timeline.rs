//! Timelines: what a restore or a fork begins.
//!
//! A restore rewinds an object, so its commit numbers, counters and sequences repeat. A timeline tells the repetitions
//! apart: positions of one object compare as `(timeline, sequence)`.
//!
//! A commit cannot contain its own position, which is assigned when its record is appended. A timeline is therefore
//! named by the state that was *left* when it began, which is known before; the first timeline of an object, also of a fork,
//! is named by the end of the log when it was created. These bookmarks rise along an object's life, also when a restore undoes
//! another, when a damaged object is repaired, and when the object is deleted and another one takes its name.
//!
//! A restore of the whole directory from its archive is a restore of each object. It is recorded once, as a [`Mark`] of the
//! node.

use crate::bookmark::{Bookmark, mark};
use crate::error::{Error, Result};
use crate::ident::{CommitNo, Generation, Lsn, ObjectKey, Position};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The id of a timeline: the bookmark of the state that was left when it began. Ids of one object rise along its life
/// and never repeat, as values and as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimelineId(Bookmark);

impl TimelineId {
    /// The timeline that begins with the object's creation, or with a fork, after this position.
    pub(crate) fn first(key: ObjectKey, after: Position) -> Self {
        Self(Bookmark {
            position: after,
            commit: CommitNo(0),
            object: mark(key),
        })
    }

    /// The position in the log at which it began. Each commit of an object takes at least one byte of the log, so this is
    /// above every count of commits that the object has left behind, if the count began at zero or at such a position.
    pub const fn position(&self) -> u64 {
        self.0.position.lsn.0
    }

    /// The timeline that begins with a restore.
    pub(crate) const fn leaving(state: Bookmark) -> Self {
        Self(state)
    }

    /// The position in its id, with its generation.
    pub(crate) const fn at(&self) -> Position {
        self.0.position
    }
}

impl fmt::Display for TimelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TimelineId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.parse().map(Self)
    }
}

/// How a timeline began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredCause {
    /// With the creation of the object, or of an empty object in place of a damaged one.
    Created,
    /// With a restore.
    Restored {
        /// The state that was left.
        from: Bookmark,
        /// The state that was restored.
        to: Bookmark,
    },
    /// With a fork.
    Forked {
        /// The id of the object that was copied. It may be of another namespace.
        origin: [u8; 32],
        /// The state that was copied.
        bookmark: Bookmark,
    },
    /// With the import of an exported database.
    Imported {
        /// The SHA-256 of what was imported: the listing of an export, or the database file.
        source: [u8; 32],
        /// It replaces the object that was exported, which is gone. Otherwise it is a copy, like a fork.
        replaces: bool,
    },
}

/// The present timeline of an object, as its database holds it: JSON text. Absent until the first restore or fork; until
/// then, the database has only the id, which tells the object from an earlier one of the same name that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// Its id.
    pub id: TimelineId,
    /// How it began.
    pub cause: StoredCause,
    /// When it began, in milliseconds since 1970; `None` for the first one.
    pub since: Option<u64>,
    /// The object's code has not been told of it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<Untold>,
    /// The object does nothing unasked until it is activated: its alarms do not go off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dormant: bool,
}

/// A timeline that the object's code has not been told of. The object starts for that without an event, unless it is
/// dormant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untold {
    /// Starts for that so far. They are counted before they begin: code that ends the process does not run at each start.
    pub attempts: u32,
    /// When it starts next, in steady time ([`ClockTime::steady`](crate::ClockTime::steady)).
    pub due: i64,
}

impl TimelineRow {
    /// Stands for the row of an object whose database has not been opened.
    pub fn unread(key: ObjectKey) -> Self {
        Self::first(TimelineId::first(key, Position::ZERO))
    }

    /// The row of an object that was neither restored nor forked.
    pub(crate) fn first(id: TimelineId) -> Self {
        Self {
            id,
            cause: StoredCause::Created,
            since: None,
            untold: None,
            dormant: false,
        }
    }

    /// Reads the row's text.
    pub(crate) fn read(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::damaged(format!("the object's timeline cannot be read: {error}"))
        })
    }
}

/// A restore of the whole data directory, as the manifest has it. Each object that existed is on a new timeline from
/// there on, although nothing was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The generation of the restore: above all that were lost, and below all that follow.
    pub(crate) generation: u32,
    /// Where the log continues.
    pub(crate) position: u64,
    /// When it was restored.
    pub(crate) unix_millis: u64,
}

impl Mark {
    pub(crate) const fn position(&self) -> Position {
        Position::at(Generation(self.generation), Lsn(self.position))
    }

    /// The present timeline of an object. `own` is its row, which says that it is the first one if none was stored;
    /// `commit` is its newest.
    pub(crate) fn timeline(
        &self,
        key: ObjectKey,
        commit: CommitNo,
        own: TimelineRow,
    ) -> TimelineRow {
        let at = |commit| Bookmark {
            position: self.position(),
            commit,
            object: mark(key),
        };
        // The commits that are lost had numbers that are unknown: this bookmark names none of them.
        let left = at(CommitNo(0));
        let id = TimelineId::leaving(left);
        // It began after the restore, or is that of the restore.
        if own.id >= id {
            return own;
        }
        TimelineRow {
            id,
            cause: StoredCause::Restored {
                from: left,
                to: at(commit),
            },
            since: Some(self.unix_millis),
            untold: Some(Untold::default()),
            dormant: own.dormant,
        }
    }
}

/// What ids of timelines are above positions of the log. An object that was imported has had timelines in another directory,
/// whose log may be longer than this one's: without this they would be above those that follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Raise {
    pub(crate) generations: u32,
    pub(crate) bytes: u64,
}

impl Raise {
    /// A step of [`Self::bytes`]. Commits are numbered by units of 64 bytes, modulo 2³²: after a whole step, a restored
    /// directory continues with the same numbers.
    const STEP: u64 = 64 << 32;

    /// The most that timelines are raised to: a directory that writes for centuries does not reach it.
    const MOST: Position = Position::at(Generation(1 << 30), Lsn(1 << 60));

    /// Returns whether it changes nothing.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) const fn of(self, position: Position) -> Position {
        Position::at(
            Generation(position.generation.0.saturating_add(self.generations)),
            Lsn(position.lsn.0.saturating_add(self.bytes)),
        )
    }

    /// The least that is not below this one, and raises `position` above `above`, which is of another log, in both parts.
    ///
    /// # Errors
    /// No log gets so far.
    pub(crate) fn above(self, above: Position, position: Position) -> Result<Self> {
        let most = Self::MOST;
        if above.generation > most.generation || above.lsn > most.lsn {
            return Err(Error::input(format!(
                "the object's timelines reach {above}, which no log does: the database is damaged or was changed"
            )));
        }
        let present = self.of(position);
        let generations = above.generation.0.saturating_sub(present.generation.0);
        let bytes = match (above.lsn.0 + 1).saturating_sub(present.lsn.0) {
            0 => 0,
            bytes => bytes.next_multiple_of(Self::STEP),
        };
        Ok(Self {
            generations: self.generations + generations,
            bytes: self.bytes + bytes,
        })
    }
}

/// Whether an object acts after a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It continues to act, unless the restored state is dormant.
    Act,
    /// It is dormant until it is activated.
    Dormant,
}
