//! What there is to copy.

use std::{path::PathBuf, time::SystemTime};

/// A run to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Names one content forever: a run that is no longer there does not come back, and its number is not used again.
    pub number: u64,
    /// The file. It may vanish, and does not change.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// The history of one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Everything that was acknowledged before this time is in it, by this machine's clock.
    pub time: SystemTime,
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
}
