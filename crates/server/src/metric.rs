//! The server's own metrics, and those of the store and the node at the time of a scrape.

use std::{sync::OnceLock, time::Duration};

use abide_storage::WaitReason;
use http::{Method, StatusCode};
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

const REQUESTS: &str = "abide_http_requests_total";
const REQUEST_SECONDS: &str = "abide_http_request_seconds";
const IN_FLIGHT: &str = "abide_http_requests_in_flight";
const OUTBOUND: &str = "abide_outbound_requests_total";
const OUTBOUND_SECONDS: &str = "abide_outbound_request_seconds";
const OUTBOUND_IN_FLIGHT: &str = "abide_outbound_requests_in_flight";
const CONNECTIONS: &str = "abide_http_connections_open";
const CONNECTION_LIMIT: &str = "abide_http_connections_limit";
const CONNECTIONS_REFUSED: &str = "abide_http_connections_refused_total";
const OBJECTS_REFUSED: &str = "abide_new_objects_refused_total";
const GIVEN_UP: &str = "abide_http_given_up_total";
const COMMIT_WAITS: &str = "abide_commit_waits_total";
const COMMIT_WAIT_SECONDS: &str = "abide_commit_wait_spent_seconds";
const SILENT_SOCKETS: &str = "abide_websocket_keep_alive_timeouts_total";

/// Metrics that the node publishes itself; their descriptions are set here.
const NODE_COUNTERS: &[(&str, &str)] = &[
    (
        "abide_memory_refused_total",
        "Work rejected because the memory budget was used up, by use.",
    ),
    ("abide_events_total", "Events that objects began to handle."),
    (
        "abide_event_errors_total",
        "Events whose handler returned an error.",
    ),
    (
        "abide_overloaded_total",
        "Events rejected because of overload.",
    ),
    (
        "abide_objects_started_total",
        "Objects activated in memory.",
    ),
    (
        "abide_objects_evicted_total",
        "Objects evicted after being idle.",
    ),
    (
        "abide_object_resets_total",
        "Objects reset by a panic, an abort, a time limit or a failed commit.",
    ),
    (
        "abide_panics_total",
        "Panics in objects' code, and in HTTP clients, wakers and destructors.",
    ),
    (
        "abide_background_timeouts_total",
        "Background work dropped because it took too long.",
    ),
    (
        "abide_websocket_messages_received_total",
        "Messages received on WebSockets.",
    ),
    (
        "abide_websocket_messages_sent_total",
        "Messages written to WebSockets.",
    ),
    (
        "abide_websocket_received_bytes_total",
        "Bytes of the messages received on WebSockets.",
    ),
    (
        "abide_websocket_sent_bytes_total",
        "Bytes of the messages written to WebSockets.",
    ),
    (
        "abide_websocket_slow_readers_total",
        "Messages that did not fit a WebSocket's send buffer.",
    ),
    ("abide_alarms_fired_total", "Attempts to handle an alarm."),
    (
        "abide_alarms_retried_total",
        "Attempts to handle an alarm after the first.",
    ),
    (
        "abide_alarms_given_up_total",
        "Alarms that were given up after their last retry.",
    ),
    (
        "abide_alarms_cut_off_total",
        "Attempts to handle an alarm that were cut off by the end of an earlier process.",
    ),
    (
        "abide_alarms_crashed_total",
        "The part of abide_alarms_cut_off_total that ran with no other suspect.",
    ),
];

const NODE_GAUGES: &[(&str, &str)] = &[
    (
        "abide_memory_budget_bytes",
        "The memory budget, beyond which new work is rejected.",
    ),
    (
        "abide_memory_bytes",
        "Bytes charged to the memory budget, by use.",
    ),
    ("abide_objects_resident", "Objects in memory."),
    ("abide_timers", "Timers for the workers' checks of objects."),
    ("abide_websockets_open", "Open WebSockets of objects."),
    (
        "abide_events_outstanding",
        "Unanswered events sent to objects.",
    ),
    (
        "abide_messages_held",
        "Messages that wait at an output gate for the log.",
    ),
    (
        "abide_workers_stuck",
        "Workers blocked by a handler that does not await.",
    ),
    (
        "abide_alarms_pending",
        "Pending alarms, including those firing now.",
    ),
    (
        "abide_alarms_failed",
        "Alarms that were given up and wait for a rerun.",
    ),
    (
        "abide_alarms_failing",
        "Alarms whose last attempt failed and that will be retried, by class.",
    ),
    (
        "abide_alarms_suspect",
        "Alarms that were firing when an earlier process ended and wait to run in isolation.",
    ),
];

/// Sets the description of each metric (its HELP text).
pub(crate) fn describe() {
    describe_counter!(REQUESTS, "Requests answered, by method and status class.");
    describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "Time from a request's head to its response's head."
    );
    describe_histogram!(
        "abide_alarm_lateness_seconds",
        Unit::Seconds,
        "Time from an alarm's due time to its first handler."
    );
    describe_gauge!(
        IN_FLIGHT,
        "Requests whose response's head has not been sent."
    );
    describe_counter!(OUTBOUND, "Outgoing requests of objects, by outcome.");
    describe_histogram!(
        OUTBOUND_SECONDS,
        Unit::Seconds,
        "Time from sending an outgoing request to its response's head or failure."
    );
    describe_gauge!(
        OUTBOUND_IN_FLIGHT,
        "Outgoing requests waiting for their response's head."
    );
    describe_gauge!(CONNECTIONS, "Open client connections.");
    describe_gauge!(
        CONNECTION_LIMIT,
        "Maximum number of open client connections: server.max_connections."
    );
    describe_counter!(
        CONNECTIONS_REFUSED,
        "Connections closed immediately because their client had reached its limit."
    );
    describe_counter!(
        OBJECTS_REFUSED,
        "Objects not created because their client or token had reached its limit."
    );
    describe_counter!(
        GIVEN_UP,
        "Connections and requests ended because their client was inactive for too long, by kind."
    );
    describe_counter!(
        SILENT_SOCKETS,
        "WebSockets closed because their peer did not answer a ping in time."
    );
    for (name, help) in NODE_COUNTERS {
        describe_counter!(*name, *help);
    }
    for (name, help) in NODE_GAUGES {
        describe_gauge!(*name, *help);
    }
    describe_counter!(COMMIT_WAITS, "Commits that had to wait, by reason.");
    describe_gauge!(
        COMMIT_WAIT_SECONDS,
        Unit::Seconds,
        "Time that commits have waited, by reason."
    );
    for metric in STORE_METRICS {
        match metric.read {
            Read::Counter(_) => describe_counter!(metric.name, metric.help),
            Read::Gauge(_) => describe_gauge!(metric.name, metric.help),
        }
    }
}

/// Status classes.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Methods as label values. Nonstandard ones come from clients and would be unbounded as labels.
const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other",
];

/// Metrics of requests. Each is looked up by name once, not for each request.
pub(crate) struct Requests {
    in_flight: Gauge,
    answered: [[OnceLock<Counter>; CLASSES.len()]; METHODS.len()],
    seconds: [OnceLock<Histogram>; METHODS.len()],
}

impl Requests {
    /// Uses the recorder that the process currently has.
    pub(crate) fn new() -> Self {
        Self {
            in_flight: gauge!(IN_FLIGHT),
            answered: Default::default(),
            seconds: Default::default(),
        }
    }

    /// Counts a request as in flight while the guard exists.
    pub(crate) fn enter(&self) -> InFlight<'_> {
        self.in_flight.increment(1.0);
        InFlight(self)
    }

    /// Records an answered request.
    pub(crate) fn answered(&self, method: &Method, status: StatusCode, took: Duration) {
        let method = METHODS
            .iter()
            .position(|known| *known == method.as_str())
            .unwrap_or(METHODS.len() - 1);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        let (name, status) = (METHODS[method], CLASSES[class]);
        self.answered[method][class]
            .get_or_init(|| counter!(REQUESTS, "method" => name, "status" => status))
            .increment(1);
        self.seconds[method]
            .get_or_init(|| histogram!(REQUEST_SECONDS, "method" => name))
            .record(took);
    }
}

/// A request in flight.
pub(crate) struct InFlight<'a>(&'a Requests);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.decrement(1.0);
    }
}

/// Records that a WebSocket's peer did not answer a ping in time.
pub(crate) fn silent_socket() {
    counter!(SILENT_SOCKETS).increment(1);
}

/// Records that a connection was closed immediately because its client had reached its limit.
pub(crate) fn refused_connection() {
    counter!(CONNECTIONS_REFUSED).increment(1);
}

/// Records that an object was not created because its client or token had reached its limit.
pub(crate) fn refused_object() {
    counter!(OBJECTS_REFUSED).increment(1);
}

/// Sets the maximum number of open connections.
pub(crate) fn connection_limit(most: usize) {
    gauge!(CONNECTION_LIMIT).set(most as f64);
}

/// Records that something was ended because its client was inactive for too long.
pub(crate) fn gave_up(what: &'static str) {
    counter!(GIVEN_UP, "what" => what).increment(1);
}

/// Records the outcome of an outgoing request.
pub(crate) fn outbound(outcome: &'static str, took: Duration) {
    counter!(OUTBOUND, "outcome" => outcome).increment(1);
    histogram!(OUTBOUND_SECONDS, "outcome" => outcome).record(took);
}

/// Counts an outgoing request as in flight while the guard exists.
pub(crate) struct OutboundInFlight(());

impl OutboundInFlight {
    pub(crate) fn enter() -> Self {
        gauge!(OUTBOUND_IN_FLIGHT).increment(1.0);
        Self(())
    }
}

impl Drop for OutboundInFlight {
    fn drop(&mut self) {
        gauge!(OUTBOUND_IN_FLIGHT).decrement(1.0);
    }
}

/// Counts a connection as open while the guard exists.
pub(crate) struct OpenConnection(());

impl OpenConnection {
    pub(crate) fn new() -> Self {
        gauge!(CONNECTIONS).increment(1.0);
        Self(())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        gauge!(CONNECTIONS).decrement(1.0);
    }
}

struct StoreMetric {
    name: &'static str,
    help: &'static str,
    read: Read,
}

enum Read {
    Counter(fn(&abide_storage::StoreStats) -> u64),
    Gauge(fn(&abide_storage::StoreStats) -> f64),
}

const STORE_METRICS: &[StoreMetric] = &[
    StoreMetric {
        name: "abide_log_commits_total",
        help: "Transactions appended to the commit log since the process started.",
        read: Read::Counter(|s| s.commits),
    },
    StoreMetric {
        name: "abide_log_groups_total",
        help: "Groups of transactions made durable, with one sync each.",
        read: Read::Counter(|s| s.groups),
    },
    StoreMetric {
        name: "abide_log_appended_bytes_total",
        help: "Bytes appended to the commit log.",
        read: Read::Counter(|s| s.log_bytes),
    },
    StoreMetric {
        name: "abide_checkpoints_total",
        help: "Checkpoints finished: object files brought up to date and log recycled.",
        read: Read::Counter(|s| s.checkpoints),
    },
    StoreMetric {
        name: "abide_log_sync_spent_seconds",
        help: "Time spent in syncs of the commit log; divide by abide_log_groups_total for the mean.",
        read: Read::Gauge(|s| s.sync_seconds),
    },
    StoreMetric {
        name: "abide_log_last_sync_seconds",
        help: "Duration of the latest sync of the commit log.",
        read: Read::Gauge(|s| s.last_sync_us as f64 / 1e6),
    },
    StoreMetric {
        name: "abide_log_durable_lsn",
        help: "Log position up to which everything is durable.",
        read: Read::Gauge(|s| s.durable_lsn as f64),
    },
    StoreMetric {
        name: "abide_log_appended_lsn",
        help: "Log position up to which transactions were appended; subtract abide_log_durable_lsn for the bytes waiting for a sync.",
        read: Read::Gauge(|s| s.appended_lsn as f64),
    },
    StoreMetric {
        name: "abide_log_unsynced_bytes",
        help: "Bytes of the log waiting for a sync.",
        read: Read::Gauge(|s| s.unsynced_bytes as f64),
    },
    StoreMetric {
        name: "abide_log_tail_bytes",
        help: "Bytes of log since the last checkpoint, which a restart would replay.",
        read: Read::Gauge(|s| s.log_tail_bytes as f64),
    },
    StoreMetric {
        name: "abide_overlay_bytes",
        help: "Changed pages held in memory until a checkpoint writes them to object files.",
        read: Read::Gauge(|s| s.overlay_bytes as f64),
    },
    StoreMetric {
        name: "abide_objects_live",
        help: "Objects that are open or have pages that are not in their files yet.",
        read: Read::Gauge(|s| s.live_objects as f64),
    },
    StoreMetric {
        name: "abide_archive_bytes",
        help: "Bytes of the archive.",
        read: Read::Gauge(|s| s.archive_bytes as f64),
    },
    StoreMetric {
        name: "abide_archive_runs",
        help: "Files of the archive.",
        read: Read::Gauge(|s| s.archive_runs as f64),
    },
    StoreMetric {
        name: "abide_archive_remote_bytes",
        help: "Bytes of the archive that are in the store of archive.url alone.",
        read: Read::Gauge(|s| s.archive_remote_bytes as f64),
    },
    StoreMetric {
        name: "abide_archive_lag_bytes",
        help: "Bytes of durable log that are not archived yet.",
        read: Read::Gauge(|s| s.archive_lag_bytes as f64),
    },
    StoreMetric {
        name: "abide_archive_horizon_seconds",
        help: "Time since which every commit can be restored, in seconds since 1970; 0 if none can.",
        read: Read::Gauge(|s| s.archive_horizon_ms as f64 / 1e3),
    },
    StoreMetric {
        name: "abide_archive_failing",
        help: "1 while the log cannot be archived, otherwise 0; history may be dropped in favor of commits.",
        read: Read::Gauge(|s| f64::from(u8::from(s.archive_failing))),
    },
    StoreMetric {
        name: "abide_archive_complete",
        help: "1 if the archive alone has every object; otherwise 0: the others are being added to it.",
        read: Read::Gauge(|s| f64::from(u8::from(s.archive_complete))),
    },
    StoreMetric {
        name: "abide_archive_missing_objects",
        help: "Objects known to have no complete state in the archive.",
        read: Read::Gauge(|s| s.archive_missing_objects as f64),
    },
    StoreMetric {
        name: "abide_hydration_parts_left",
        help: "How many of 256 equal parts of the objects may lack their files after a lazy restore; 0 if all have theirs.",
        read: Read::Gauge(|s| f64::from(s.hydration_parts_left)),
    },
    StoreMetric {
        name: "abide_hydrated_objects_total",
        help: "Files of objects written from the archive after a lazy restore, since the process started.",
        read: Read::Counter(|s| s.hydrated_objects),
    },
    StoreMetric {
        name: "abide_commits_waiting",
        help: "Commits that are waiting now; the log and abide_commit_waits_total show the reasons.",
        read: Read::Gauge(|s| s.commits_waiting as f64),
    },
    StoreMetric {
        name: "abide_log_sync_wait_seconds",
        help: "How long the current write and sync of a group of commits has taken so far; 0 if there is none.",
        read: Read::Gauge(|s| s.sync_wait_seconds),
    },
    StoreMetric {
        name: "abide_archive_history_losses_total",
        help: "How often history was dropped, because the disk was full or its store was lost, since the process started.",
        read: Read::Counter(|s| s.history_losses),
    },
    StoreMetric {
        name: "abide_archive_holes",
        help: "Holes in the history within the retention: parts that were dropped.",
        read: Read::Gauge(|s| s.archive_holes as f64),
    },
    StoreMetric {
        name: "abide_objects_quarantined",
        help: "Objects that are unavailable until they are repaired; `abide quarantined` lists them.",
        read: Read::Gauge(|s| s.quarantined_objects as f64),
    },
    StoreMetric {
        name: "abide_temporary_bytes",
        help: "Bytes of temporary files of running statements, for sorts and intermediate results.",
        read: Read::Gauge(|s| s.temporary_bytes as f64),
    },
    StoreMetric {
        name: "abide_temporary_written_bytes_total",
        help: "Bytes written to temporary files; a high rate suggests a missing index.",
        read: Read::Counter(|s| s.temporary_written_bytes),
    },
    StoreMetric {
        name: "abide_stored_bytes",
        help: "Bytes of the databases of all objects; 0 without storage.max_bytes, since they are not counted then.",
        read: Read::Gauge(|s| s.stored_bytes.unwrap_or(0) as f64),
    },
    StoreMetric {
        name: "abide_full_objects_refusals_total",
        help: "Writes rejected because of storage.max_object_bytes.",
        read: Read::Counter(|s| s.full_refusals[0]),
    },
    StoreMetric {
        name: "abide_full_storage_refusals_total",
        help: "Writes rejected because of storage.max_bytes.",
        read: Read::Counter(|s| s.full_refusals[1]),
    },
    StoreMetric {
        name: "abide_storage_no_space",
        help: "1 while commits are rejected because the disk is full, otherwise 0.",
        read: Read::Gauge(|s| f64::from(u8::from(s.no_space))),
    },
];

/// Publishes the store's metrics for the next scrape.
pub(crate) fn publish_store(stats: &abide_storage::StoreStats) {
    for (reason, waits) in WaitReason::ALL.iter().zip(&stats.commit_waits) {
        counter!(COMMIT_WAITS, "reason" => reason.as_str()).absolute(waits.count);
        gauge!(COMMIT_WAIT_SECONDS, "reason" => reason.as_str()).set(waits.seconds);
    }
    for metric in STORE_METRICS {
        match metric.read {
            Read::Counter(read) => counter!(metric.name).absolute(read(stats)),
            Read::Gauge(read) => gauge!(metric.name).set(read(stats)),
        }
    }
}
