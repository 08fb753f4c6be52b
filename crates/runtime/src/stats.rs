//! Metrics: counted by each worker separately, summed and published on demand.

use std::sync::atomic::{AtomicU64, Ordering};

use abide_storage::MemoryBudget;

/// A counter that mostly has a single writing thread.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_many(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
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
    pub(crate) timers: Counter,
    pub(crate) sockets_open: Counter,
    pub(crate) socket_messages_in: Counter,
    pub(crate) socket_messages_out: Counter,
    pub(crate) socket_bytes_in: Counter,
    pub(crate) socket_bytes_out: Counter,
    pub(crate) slow_readers: Counter,
    pub(crate) alarms_fired: Counter,
    pub(crate) alarms_retried: Counter,
    pub(crate) alarms_given_up: Counter,
    pub(crate) alarms_cut_off: Counter,
    pub(crate) alarms_crashed: Counter,
}

/// A node's metrics at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Events that began to run.
    pub events: u64,
    /// Events whose handler returned an error.
    pub errors: u64,
    /// Events rejected because of overload.
    pub overloaded: u64,
    /// Objects activated in memory.
    pub started: u64,
    /// Objects evicted after being idle.
    pub evicted: u64,
    /// Objects reset by a panic, an abort, a time limit, a failed constructor or a failed commit.
    pub resets: u64,
    /// Panics in objects' code, and in code of the program that runs for departures: HTTP clients, wakers, destructors.
    pub panics: u64,
    /// Background work that was dropped because it took too long.
    pub background_timeouts: u64,
    /// Objects in memory.
    pub resident: u64,
    /// Timers for the workers' checks of objects: at most two for each object.
    pub timers: u64,
    /// WebSockets that a gateway serves.
    pub sockets_open: u64,
    /// Messages received on WebSockets.
    pub socket_messages_in: u64,
    /// Messages written to WebSockets.
    pub socket_messages_out: u64,
    /// Bytes of the messages received on WebSockets.
    pub socket_bytes_in: u64,
    /// Bytes of the messages written to WebSockets.
    pub socket_bytes_out: u64,
    /// Messages that did not fit a WebSocket's send buffer.
    pub slow_readers: u64,
    /// Unanswered events sent to a worker.
    pub outstanding: u64,
    /// Messages that wait at an output gate for the log.
    pub held: u64,
    /// Workers that are blocked by a handler that does not await.
    pub stuck_workers: u64,
    /// Alarms that will go off, or are going off now.
    pub alarms_pending: u64,
    /// Alarms that were given up and wait to be run again.
    pub alarms_failed: u64,
    /// Attempts to handle an alarm.
    pub alarms_fired: u64,
    /// Attempts after the first.
    pub alarms_retried: u64,
    /// Alarms that were given up after their last retry.
    pub alarms_given_up: u64,
    /// Pending alarms whose last attempt failed, or ended with its process.
    pub alarms_failing: u64,
    /// Alarms that must run in isolation, because an earlier process ended while they ran.
    pub alarms_suspect: u64,
    /// Attempts found to have been cut off by the end of an earlier process.
    pub alarms_cut_off: u64,
    /// Cut-off attempts that ran with no other suspect.
    pub alarms_crashed: u64,
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
        self.timers += counters.timers.get();
        self.sockets_open += counters.sockets_open.get();
        self.socket_messages_in += counters.socket_messages_in.get();
        self.socket_messages_out += counters.socket_messages_out.get();
        self.socket_bytes_in += counters.socket_bytes_in.get();
        self.socket_bytes_out += counters.socket_bytes_out.get();
        self.slow_readers += counters.slow_readers.get();
        self.alarms_fired += counters.alarms_fired.get();
        self.alarms_retried += counters.alarms_retried.get();
        self.alarms_given_up += counters.alarms_given_up.get();
        self.alarms_cut_off += counters.alarms_cut_off.get();
        self.alarms_crashed += counters.alarms_crashed.get();
    }

    /// Publishes the metrics to the program's `metrics` recorder.
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
            (
                "abide_websocket_messages_received_total",
                self.socket_messages_in,
            ),
            (
                "abide_websocket_messages_sent_total",
                self.socket_messages_out,
            ),
            ("abide_websocket_received_bytes_total", self.socket_bytes_in),
            ("abide_websocket_sent_bytes_total", self.socket_bytes_out),
            ("abide_websocket_slow_readers_total", self.slow_readers),
            ("abide_alarms_fired_total", self.alarms_fired),
            ("abide_alarms_retried_total", self.alarms_retried),
            ("abide_alarms_given_up_total", self.alarms_given_up),
            ("abide_alarms_cut_off_total", self.alarms_cut_off),
            ("abide_alarms_crashed_total", self.alarms_crashed),
        ] {
            metrics::counter!(name).absolute(value);
        }
        for (name, value) in [
            ("abide_objects_resident", self.resident),
            ("abide_timers", self.timers),
            ("abide_websockets_open", self.sockets_open),
            ("abide_events_outstanding", self.outstanding),
            ("abide_messages_held", self.held),
            ("abide_workers_stuck", self.stuck_workers),
            ("abide_alarms_pending", self.alarms_pending),
            ("abide_alarms_failed", self.alarms_failed),
            ("abide_alarms_suspect", self.alarms_suspect),
        ] {
            metrics::gauge!(name).set(value as f64);
        }
    }
}

/// Publishes the usage of the memory budget to the program's `metrics` recorder.
pub(crate) fn publish_memory(budget: &MemoryBudget) {
    metrics::gauge!("abide_memory_budget_bytes").set(budget.limit() as f64);
    for usage in budget.usage() {
        let used_for = usage.used_for.name();
        metrics::gauge!("abide_memory_bytes", "use" => used_for).set(usage.bytes as f64);
        metrics::counter!("abide_memory_refused_total", "use" => used_for).absolute(usage.refused);
    }
}
