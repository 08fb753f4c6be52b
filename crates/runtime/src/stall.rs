//! Commits that have waited too long, and why.

use std::{fmt, time::Duration};

use abide_storage::{Store, WaitReason};

use crate::limits::COMMIT_STALL;

/// Commits of a node that have waited longer than [`COMMIT_STALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitStall {
    /// What they wait for.
    pub cause: StallCause,
    /// How long the first of them has waited, at least.
    pub lasted: Duration,
}

/// What stalled commits wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// The disk is writing and syncing a group of the log. Nothing is acknowledged in the meantime.
    Sync,
    /// A listener of the log does not return. Everything is durable, but waiting answers are not released.
    Listener,
    /// Log or disk space. The commit blocks its worker.
    Room(WaitReason),
}

impl StallCause {
    /// Its name in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Listener => "listener",
            Self::Room(reason) => reason.as_str(),
        }
    }
}

impl fmt::Display for StallCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sync | Self::Room(WaitReason::UnsyncedBytes) => {
                "the disk, which has not finished a write or sync of the log"
            }
            Self::Listener => {
                "a listener of the log that does not return, so answers wait although their writes are durable"
            }
            Self::Room(WaitReason::Segment) => "a segment of the log, which is being prepared",
            Self::Room(WaitReason::LogBound) => {
                "a checkpoint or the archive: the log has reached its size limit"
            }
            Self::Room(WaitReason::OverlayBound) => {
                "a checkpoint: the pages not yet in object files have reached their limit"
            }
            Self::Room(WaitReason::DiskSpace) => "space on the disk",
            // The enum may grow.
            Self::Room(other) => other.as_str(),
        })
    }
}

impl CommitStall {
    /// The stall of a store's commits, if there is one. If the disk is stalled, commits that wait for space wait for
    /// the disk, too: the disk is then reported as the cause.
    pub(crate) fn of(store: &Store) -> Option<Self> {
        let is_long = |lasted: &Duration| *lasted >= COMMIT_STALL;
        if let Some(lasted) = store.sync_wait().filter(is_long) {
            let cause = StallCause::Sync;
            return Some(Self { cause, lasted });
        }
        if let Some(lasted) = store.listener_wait().filter(is_long) {
            let cause = StallCause::Listener;
            return Some(Self { cause, lasted });
        }
        let wait = store.commit_wait().filter(|wait| is_long(&wait.lasted))?;
        Some(Self {
            cause: StallCause::Room(wait.reason),
            lasted: wait.lasted,
        })
    }
}
