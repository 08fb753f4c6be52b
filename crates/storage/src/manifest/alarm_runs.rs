//! Where the alarm index is saved.

use crate::limits::MAX_ALARM_RUNS;
use serde::{Deserialize, Serialize};

/// The runs of a data directory, as the manifest lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs {
    /// The number of the newest run that was ever listed.
    pub(crate) newest: u64,
    /// The whole index, then its changes.
    pub(crate) list: Vec<RunRef>,
    /// The index was not saved: the next start reads it from the archive and the objects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unsaved: bool,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRef {
    pub(crate) number: u64,
    pub(crate) entries: u64,
}

impl Runs {
    /// Returns whether this many changes are better written together with everything else as a new first run.
    pub(crate) fn merges(&self, changes: usize) -> bool {
        let Some((base, later)) = self.list.split_first() else {
            return true;
        };
        let changes = later.iter().map(|run| run.entries).sum::<u64>() + changes as u64;
        self.list.len() >= MAX_ALARM_RUNS || changes > base.entries / 2
    }
}
