//! Figures: counted by each worker for itself, summed and published on demand.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writing thread most of the time.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) events: Counter,
    pub(crate) errors: Counter,
    pub(crate) overloaded: Counter,
    pub(crate) started: Counter,
    pub(crate) evicted: Counter,
    pub(crate) resets: Counter,
    pub(crate) panics: Counter,
    pub(crate) background_timeouts: Counter,
    pub(crate) resident: Counter,
}

/// A node's figures at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Events that began to run.
    pub events: u64,
    /// Events whose handler answered with an error.
    pub errors: u64,
    /// Events refused because too much waited.
    pub overloaded: u64,
    /// Objects that came to life.
    pub started: u64,
    /// Objects that left memory after being idle.
    pub evicted: u64,
    /// Objects reset by a panic, an abort, a time limit, a failed constructor or a failed commit.
    pub resets: u64,
    /// Panics in objects' code.
    pub panics: u64,
    /// Background work that was dropped because it took too long.
    pub background_timeouts: u64,
    /// Objects in memory.
    pub resident: u64,
    /// Events sent to a worker and not answered yet.
    pub outstanding: u64,
    /// Messages that wait at an output gate for the log.
    pub held: u64,
    /// Workers that are blocked by a handler which does not await.
    pub stuck_workers: u64,
}

impl NodeStats {
    pub(crate) fn add(&mut self, counters: &Counters) {
        self.events += counters.events.get();
        self.errors += counters.errors.get();
        self.overloaded += counters.overloaded.get();
        self.started += counters.started.get();
        self.evicted += counters.evicted.get();
        self.resets += counters.resets.get();
        self.panics += counters.panics.get();
        self.background_timeouts += counters.background_timeouts.get();
        self.resident += counters.resident.get();
    }

    /// Hands the figures to the program's `metrics` recorder.
    pub(crate) fn publish(&self) {
        for (name, value) in [
            ("abide_events_total", self.events),
            ("abide_event_errors_total", self.errors),
            ("abide_overloaded_total", self.overloaded),
            ("abide_objects_started_total", self.started),
            ("abide_objects_evicted_total", self.evicted),
            ("abide_object_resets_total", self.resets),
            ("abide_panics_total", self.panics),
            ("abide_background_timeouts_total", self.background_timeouts),
        ] {
            metrics::counter!(name).absolute(value);
        }
        for (name, value) in [
            ("abide_objects_resident", self.resident),
            ("abide_events_outstanding", self.outstanding),
            ("abide_messages_held", self.held),
            ("abide_workers_stuck", self.stuck_workers),
        ] {
            metrics::gauge!(name).set(value as f64);
        }
    }
}
