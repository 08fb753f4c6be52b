//! What the log has done.

use std::time::Duration;

/// Counters of the log. They use atomics of the standard library even in a model: no decision depends on them.
#[derive(Debug, Default)]
pub(crate) struct LogStats {
    pub(crate) commits: Counter,
    /// Transactions encoded. A transaction is counted again if a checkpoint forced it to be encoded again.
    pub(crate) encodings: Counter,
    pub(crate) groups: Counter,
    pub(crate) bytes: Counter,
    /// Time that the provider took for groups, and the part of it spent on syncs.
    pub(crate) provider_nanos: Counter,
    pub(crate) sync_nanos: Counter,
    pub(crate) last_group_nanos: Counter,
    /// Time that the writer spent in listeners.
    pub(crate) release_nanos: Counter,
    /// Groups whose listeners were notified while the next group was written.
    pub(crate) overlapped: Counter,
    /// For one append in [`MEASURED`](super::MEASURED): how long it waited for the lock and how long it held it.
    pub(crate) append_wait_nanos: Counter,
    pub(crate) append_held_nanos: Counter,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(std::sync::atomic::AtomicU64);

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the old value.
    pub(crate) fn add(&self, more: u64) -> u64 {
        self.0.fetch_add(more, std::sync::atomic::Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, std::sync::atomic::Ordering::Relaxed);
    }

    pub(super) fn add_time(&self, time: Duration) {
        self.add(time.as_nanos() as u64);
    }
}
