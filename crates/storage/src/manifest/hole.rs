//! Holes: parts of the history that were dropped for lack of disk space.
//!
//! The manifest lists them, and a request for a state inside a hole is rejected with the reason.

use super::archive::ArchiveState;
use crate::ident::Lsn;
use crate::limits::MAX_ARCHIVE_HOLES;
use crate::timing::time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of the history that was dropped. Individual commits in it cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveHole {
    /// The range of the log.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The commits were made after this time, in milliseconds since 1970; 0 means since the beginning.
    pub after_millis: u64,
    /// The commits were made at or before this time.
    pub until_millis: u64,
    /// When the history was dropped.
    pub given_up_millis: u64,
    /// Why there was no space.
    pub reason: String,
}

impl fmt::Display for ArchiveHole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the history between {} and {} was dropped at {} for lack of disk space: {}",
            time(self.after_millis),
            time(self.until_millis),
            time(self.given_up_millis),
            self.reason
        )
    }
}

impl ArchiveHole {
    /// Returns whether the hole overlaps the range between two positions.
    pub(crate) fn is_between(&self, from: Lsn, to: Lsn) -> bool {
        self.from < to.0 && self.to > from.0
    }
}

impl ArchiveState {
    /// Records a hole. It is joined to the newest one if they are adjacent.
    pub(crate) fn add_hole(&mut self, hole: ArchiveHole) {
        match self.holes.last_mut() {
            Some(last) if last.to >= hole.from => {
                last.from = last.from.min(hole.from);
                last.to = last.to.max(hole.to);
                last.after_millis = last.after_millis.min(hole.after_millis);
                last.until_millis = last.until_millis.max(hole.until_millis);
                last.given_up_millis = hole.given_up_millis;
                last.reason = hole.reason;
            }
            _ => self.holes.push(hole),
        }
        if self.holes.len() > MAX_ARCHIVE_HOLES {
            self.holes.remove(0);
        }
    }

    /// Forgets the holes that are older than any possible history.
    pub(crate) fn forget_holes(&mut self, horizon: u64) {
        self.holes.retain(|hole| hole.until_millis > horizon);
    }
}
