//! What there is to copy.

use std::{io, path::PathBuf, time::SystemTime};

use bytes::Bytes;

use crate::{Sleep, StoredRun};

/// A run to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Names one content forever: a run that is no longer there does not come back, and its number is not used again.
    pub number: u64,
    /// The file. It may vanish, and does not change.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// What the store has of a run that was restored from it and left there: it has no file.
    pub stored: Option<StoredRun>,
}

/// A part of the log: bytes that this crate does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The position of its first byte.
    pub first: u64,
    /// The position after its last byte.
    pub end: u64,
    /// What it has, and what is to be known to read that.
    pub bytes: Bytes,
}

/// The history of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Everything that was acknowledged before this time is in it, by this machine's clock.
    pub time: SystemTime,
    /// The position up to which the log is in the runs.
    pub end: u64,
    /// What a restore needs to know of the runs. Bytes that this crate does not read.
    pub content: Vec<u8>,
    /// All runs of that moment, each number once. They and what `content` says must be durable on this machine: a machine that
    /// loses its power must not write another run under a number that is in the store.
    pub runs: Vec<Run>,
}

/// Whose history is copied.
pub trait Source: Send + Sync + 'static {
    /// Changes when there may be something new. Called often, so it has to be cheap.
    fn version(&self) -> u64;

    /// What there is to copy now, or `None` if that cannot be said at this moment. May read and wait: it is called on a thread for
    /// that.
    fn snapshot(&self) -> Option<Snapshot>;

    /// The store has what [`Self::snapshot`] said when this was the version, or later: parts of the log that are only of use with
    /// it may be shipped from now on. It has these runs, and keeps each as long as snapshots have it. Called for each version that is
    /// copied.
    fn history_copied(&self, _version: u64, _runs: &[StoredRun]) {}

    /// Parts of the log are held back until the present version is copied. Called often, so it has to be cheap.
    fn is_awaited(&self) -> bool {
        false
    }

    /// The position up to which the log is durable on this machine. Called often.
    fn end(&self) -> u64;

    /// What the log has from a position on, or from the oldest that it keeps: at most about `most` bytes, and at least one record;
    /// `None` if there is nothing durable. It begins later if the log no longer has that position. May read and wait.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn part(&self, from: Option<u64>, most: usize) -> io::Result<Option<Part>>;

    /// Ends once the log is durable beyond a position, or after about a second.
    fn beyond(&self, position: u64) -> Sleep;

    /// Everything before this position is in the store, and can be restored.
    fn copied(&self, position: u64);
}
