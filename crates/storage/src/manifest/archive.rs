//! The archive's part of the manifest: how far the log is archived, and in which runs.

use super::hole::ArchiveHole;
use super::replacement::Replacement;
use crate::limits::MAX_ARCHIVE_HOLES;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The archive's part of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArchiveState {
    /// Everything before this position of the log is archived; `None` while the archive is off.
    pub(crate) archived: Option<u64>,
    /// Every commit that was acknowledged before this time, in milliseconds since 1970, is before `archived`.
    pub(crate) archived_millis: u64,
    /// The highest number that a run ever had: a copy elsewhere knows a run by its number.
    pub(crate) newest: u64,
    /// The runs, oldest first; their ranges of the log do not overlap.
    pub(crate) runs: Vec<RunMeta>,
    /// The numbers of damaged runs: they are not merged.
    pub(crate) damaged: BTreeSet<u64>,
    /// The runs that are not on the disk, by their numbers, each with what its store needs to find it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) remote: BTreeMap<u64, String>,
    /// In a store that shares runs, the first and the last place that each has in the list.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) places: BTreeMap<u64, (u64, u64)>,
    /// History before this position has a hole: an object whose newest archived commit is before it gets a snapshot
    /// with its next commit. 0 after a sweep.
    pub(crate) rebase: u64,
    /// Commits before this position may be missing: the archive was off, or lost them. 0 after a sweep.
    pub(crate) gap: u64,
    /// How often objects may have lost their complete state in the runs.
    pub(crate) lapses: u64,
    /// The number of lapses before the last sweep that found, or made, a complete state of every object.
    pub(crate) swept: u64,
    /// Parts of the history that were dropped, oldest first.
    pub(crate) holes: Vec<ArchiveHole>,
    /// New states of objects whose commits may not be archived yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) replacements: Vec<Replacement>,
}

impl ArchiveState {
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    /// The bytes of the runs that are on the disk.
    pub(crate) fn bytes_here(&self) -> u64 {
        let here = self.runs.iter().filter(|run| self.is_here(run));
        here.map(|run| run.bytes).sum()
    }

    /// Returns whether a run is on the disk.
    pub(crate) fn is_here(&self, run: &RunMeta) -> bool {
        !self.remote.contains_key(&run.number)
    }

    /// Records the numbers of the runs as used.
    pub(crate) fn note_numbers(&mut self) {
        let new_states = self.replacements.iter().filter_map(|of| of.run.as_ref());
        let numbers = self.runs.iter().chain(new_states).map(|run| run.number);
        self.newest = numbers.fold(self.newest, u64::max);
    }

    /// Returns whether the runs have a complete state of every stored object, as of the end of the archived log.
    pub(crate) fn is_complete(&self) -> bool {
        self.archived.is_some() && self.swept == self.lapses
    }

    /// Records that an object may have no complete state in the runs: a sweep must look.
    pub(crate) fn lapse(&mut self) {
        self.lapses += 1;
    }

    /// Records that a sweep has found, or made, a complete state of every object. It began after this many lapses.
    pub(crate) fn note_sweep(&mut self, lapses: u64) {
        self.swept = self.swept.max(lapses);
        if self.is_complete() {
            // What was missing is replaced.
            self.gap = 0;
            self.rebase = 0;
        }
    }

    /// Records that commits before `end` may be missing.
    pub(crate) fn miss_commits(&mut self, end: u64) {
        self.gap = self.gap.max(end);
        self.lapse();
    }

    /// Records that a part of the history is gone.
    pub(crate) fn lose_history(&mut self) {
        let newest = self.runs.iter().map(|run| run.to).max();
        self.rebase = self.rebase.max(newest.unwrap_or(0));
        self.miss_commits(self.rebase);
    }

    /// Records a hole. It is joined to the newest one if they are adjacent.
    pub(crate) fn add_hole(&mut self, hole: ArchiveHole) {
        self.miss_commits(hole.to);
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

    /// The time of the oldest commit of the history; `None` if there is none.
    pub(crate) fn horizon(&self) -> Option<u64> {
        let history = self.runs.iter().filter(|run| !run.base);
        history.map(|run| run.first_millis).min()
    }
}

/// A run's entry in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunMeta {
    /// The number in its file name.
    pub(crate) number: u64,
    /// How many merges it took to produce it; a run written directly from the log has level 0.
    pub(crate) level: u32,
    /// True if it holds one snapshot of each object and no commits.
    pub(crate) base: bool,
    /// The range of the log that it covers.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The times of its commits, milliseconds since 1970.
    pub(crate) first_millis: u64,
    pub(crate) last_millis: u64,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl RunMeta {
    /// A run that is written directly from a range of the log.
    pub(crate) fn of_log(number: u64, from: u64, to: u64) -> Self {
        Self {
            number,
            level: 0,
            base: false,
            from,
            to,
            first_millis: u64::MAX,
            last_millis: 0,
            objects: 0,
            bytes: 0,
        }
    }

    /// The file's name in the archive's directory.
    pub(crate) fn file_name(number: u64) -> String {
        format!("{number:016x}.run")
    }
}
