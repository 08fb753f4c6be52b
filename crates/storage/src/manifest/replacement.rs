//! Replacements: whole new states of objects in files beside the log.

use super::archive::RunMeta;
use crate::ident::{CommitNo, ObjectKey};
use serde::{Deserialize, Serialize};

/// A new state of an object that is written before its commit, as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replacement {
    /// The object.
    pub(crate) object: String,
    /// The number of the commit.
    pub(crate) commit: u32,
    /// The epoch in which it is made.
    pub(crate) epoch: u32,
    /// The commit is after this position of the log.
    pub(crate) after: u64,
    /// Where the archive has it; `None` until that is complete, and if the archive is off.
    pub(crate) run: Option<RunMeta>,
}

impl Replacement {
    /// Returns whether it is of this commit.
    pub(crate) fn is_of(&self, key: ObjectKey, commit: CommitNo) -> bool {
        self.commit == commit.0 && ObjectKey::parse(&self.object) == Some(key)
    }

    /// The commit number that a replacement has in its files: the one before its commit's.
    pub(crate) fn before(commit: CommitNo) -> CommitNo {
        CommitNo(commit.0.wrapping_sub(1))
    }
}
