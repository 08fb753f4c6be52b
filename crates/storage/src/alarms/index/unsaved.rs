//! Changes to the index that the next checkpoint saves.

use super::AlarmIndex;
use crate::alarm_entry::{AlarmChange, AlarmEntry};
use crate::ident::{Lsn, ObjectKey};
use crate::sync::atomic::Ordering;

/// The changes since the last run. If dropped without [`Self::saved`], they return to the index for the next run.
pub(crate) struct Unsaved<'a> {
    index: &'a AlarmIndex,
    pub(super) keys: Vec<ObjectKey>,
    /// The position up to which the changes reach: the log must be durable up to here before they are saved.
    pub(crate) newest: Lsn,
}

impl<'a> Unsaved<'a> {
    /// An empty set of changes.
    pub(super) fn none(index: &'a AlarmIndex) -> Self {
        Self {
            index,
            keys: Vec::new(),
            newest: Lsn::ZERO,
        }
    }

    /// The number of changes.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if the run must hold the whole index.
    pub(crate) fn is_whole(&self) -> bool {
        self.index.whole.load(Ordering::Acquire)
    }

    /// The changes, by key, and the position up to which they reach.
    pub(crate) fn changes(&mut self) -> Vec<(ObjectKey, AlarmChange)> {
        let layout = self.index.layout();
        let newest = &mut self.newest;
        let change = |key: &ObjectKey| {
            let shard = layout.shard(key);
            *newest = (*newest).max(shard.newest);
            (*key, shard.change_of(key))
        };
        sorted(self.keys.iter().map(change).collect())
    }

    /// The whole index, by key, and the position up to which it reaches.
    pub(crate) fn everything(&mut self) -> Vec<(ObjectKey, AlarmChange)> {
        let layout = self.index.layout();
        let mut all = Vec::new();
        for shard in layout.each() {
            self.newest = self.newest.max(shard.newest);
            let set = |(key, entry): (&ObjectKey, &AlarmEntry)| (*key, AlarmChange::Set(*entry));
            all.extend(shard.entries.iter().map(set));
        }
        sorted(all)
    }

    /// Marks the changes as saved: they are in a run that the manifest lists.
    pub(crate) fn saved(mut self) {
        self.keys.clear();
        self.index.whole.store(false, Ordering::Release);
    }
}

fn sorted(mut list: Vec<(ObjectKey, AlarmChange)>) -> Vec<(ObjectKey, AlarmChange)> {
    list.sort_unstable_by_key(|(key, _)| *key);
    list
}

impl Drop for Unsaved<'_> {
    fn drop(&mut self) {
        let layout = self.index.layout();
        for key in self.keys.drain(..) {
            layout.shard(&key).changed.insert(key);
        }
    }
}
