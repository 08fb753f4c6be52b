//! Holes: parts of the history that were dropped for lack of disk space.
//!
//! The manifest lists them, and a request for a state inside a hole is rejected with the reason.

use crate::ident::Position;
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
    /// Why.
    pub reason: String,
}

impl fmt::Display for ArchiveHole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the history between {} and {} was dropped at {}: {}",
            time(self.after_millis),
            time(self.until_millis),
            time(self.given_up_millis),
            self.reason
        )
    }
}

impl ArchiveHole {
    /// Returns whether the hole overlaps the range between two positions.
    pub(crate) fn is_between(&self, from: Position, to: Position) -> bool {
        self.from < to.lsn.0 && self.to > from.lsn.0
    }
}
