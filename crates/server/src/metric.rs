//! The edge's own metrics, and those of the store and the node at the moment of a scrape.

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

/// What the node publishes by itself, which the recorder is told here.
const NODE_COUNTERS: &[(&str, &str)] = &[
    (
        "abide_memory_refused_total",
        "What was refused because the memory budget was used up, by what it would have used memory for.",
    ),
    ("abide_events_total", "Events that objects began to handle."),
    (
        "abide_event_errors_total",
        "Events whose handler returned an error.",
    ),
    (
        "abide_overloaded_total",
        "Events refused because too much waited.",
    ),
    ("abide_objects_started_total", "Objects that came to life."),
    (
        "abide_objects_evicted_total",
        "Objects that left memory after being idle.",
    ),
    (
        "abide_object_resets_total",
        "Objects reset by a panic, an abort, a time limit or a failed commit.",
    ),
    (
        "abide_panics_total",
        "Panics in objects' code, and in clients, wakers and destructors of what they sent.",
    ),
    (
        "abide_background_timeouts_total",
        "Background work dropped because it took too long.",
    ),
    (
        "abide_websocket_messages_received_total",
        "Messages that came on WebSockets.",
    ),
    (
        "abide_websocket_messages_sent_total",
        "Messages written to WebSockets.",
    ),
    (
        "abide_websocket_received_bytes_total",
        "Bytes of the messages that came on WebSockets.",
    ),
    (
        "abide_websocket_sent_bytes_total",
        "Bytes of the messages written to WebSockets.",
    ),
    (
        "abide_websocket_slow_readers_total",
        "Messages for which a WebSocket's send buffer had no room.",
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
        "Attempts to handle an alarm that were found to have ended with an earlier process.",
    ),
    (
        "abide_alarms_crashed_total",
        "Those of abide_alarms_cut_off_total that ran with no other suspect beside them.",
    ),
];

const NODE_GAUGES: &[(&str, &str)] = &[
    (
        "abide_memory_budget_bytes",
        "The memory budget: beyond it new work is refused.",
    ),
    (
        "abide_memory_bytes",
        "Bytes taken of the memory budget, by what they are used for.",
    ),
    ("abide_objects_resident", "Objects in memory."),
    (
        "abide_timers",
        "Timers by which workers look after objects.",
    ),
    ("abide_websockets_open", "Open WebSockets of objects."),
    (
        "abide_events_outstanding",
        "Events sent to objects and not answered yet.",
    ),
    (
        "abide_messages_held",
        "Messages that wait at an output gate for the log.",
    ),
    (
        "abide_workers_stuck",
        "Workers blocked by a handler that does not yield.",
    ),
    (
        "abide_alarms_pending",
        "Alarms that will go off, or are going off now.",
    ),
    (
        "abide_alarms_failed",
        "Alarms that were given up and wait to be run again.",
    ),
    (
        "abide_alarms_failing",
        "Alarms whose last attempt failed and that are tried again, by class.",
    ),
    (
        "abide_alarms_suspect",
        "Alarms that were going off when an earlier process ended and wait to be run apart.",
    ),
];

/// Tells the recorder what each metric means (its HELP text).
pub(crate) fn describe() {
    describe_counter!(
        REQUESTS,
        "Requests answered, by method and by class of status."
    );
    describe_histogram!(
        REQUEST_SECONDS,
        Unit::Seconds,
        "Time from a request's head to its response's head."
    );
    describe_histogram!(
        "abide_alarm_lateness_seconds",
        Unit::Seconds,
        "Time from an alarm's time to its first handler."
    );
    describe_gauge!(IN_FLIGHT, "Requests that wait for their response's head.");
    describe_counter!(
        OUTBOUND,
        "Requests that objects sent out, by how they ended."
    );
    describe_histogram!(
        OUTBOUND_SECONDS,
        Unit::Seconds,
        "Time from an outgoing request's leaving to its response's head, or its end."
    );
    describe_gauge!(
        OUTBOUND_IN_FLIGHT,
        "Outgoing requests that wait for their response's head."
    );
    describe_gauge!(CONNECTIONS, "Open connections of clients.");
    describe_gauge!(
        CONNECTION_LIMIT,
        "Connections of clients that may be open at once: server.max_connections."
    );
    describe_counter!(
        CONNECTIONS_REFUSED,
        "Connections closed at once because their client had as many as it may."
    );
    describe_counter!(
        OBJECTS_REFUSED,
        "Objects that were not made because their client or token had made as many as it may."
    );
    describe_counter!(
        GIVEN_UP,
        "What was ended because its client did nothing for too long, by what it was."
    );
    describe_counter!(
        SILENT_SOCKETS,
        "WebSockets ended because their peer did not answer a ping in time."
    );
    for (name, help) in NODE_COUNTERS {
        describe_counter!(*name, *help);
    }
    for (name, help) in NODE_GAUGES {
        describe_gauge!(*name, *help);
    }
    describe_counter!(
        COMMIT_WAITS,
        "Commits that had to wait for room, by what they waited for."
    );
    describe_gauge!(
        COMMIT_WAIT_SECONDS,
        Unit::Seconds,
        "Time that commits have waited for room, by what they waited for."
    );
    for figure in STORE_FIGURES {
        match figure.read {
            Read::Counter(_) => describe_counter!(figure.name, figure.help),
            Read::Gauge(_) => describe_gauge!(figure.name, figure.help),
        }
    }
}

/// Classes of status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Methods as label values. Those beyond the standard ones come from clients; as labels they would have no bound.
const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other",
];

/// Metrics of requests. Each is looked up by its name once, not for each request.
pub(crate) struct Requests {
    in_flight: Gauge,
    answered: [[OnceLock<Counter>; CLASSES.len()]; METHODS.len()],
    seconds: [OnceLock<Histogram>; METHODS.len()],
}

impl Requests {
    /// Counts with the recorder that the process has now.
    pub(crate) fn new() -> Self {
        Self {
            in_flight: gauge!(IN_FLIGHT),
            answered: Default::default(),
            seconds: Default::default(),
        }
    }

    /// Counts a request as in flight for as long as the answer lives.
    pub(crate) fn enter(&self) -> InFlight<'_> {
        self.in_flight.increment(1.0);
        InFlight(self)
    }

    /// One request was answered.
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

/// A WebSocket's peer did not answer a ping in time.
pub(crate) fn silent_socket() {
    counter!(SILENT_SOCKETS).increment(1);
}

/// A connection was closed at once because its client had as many as it may.
pub(crate) fn refused_connection() {
    counter!(CONNECTIONS_REFUSED).increment(1);
}

/// An object was not made because its client or token had made as many as it may.
pub(crate) fn refused_object() {
    counter!(OBJECTS_REFUSED).increment(1);
}

/// How many connections may be open at once.
pub(crate) fn connection_limit(most: usize) {
    gauge!(CONNECTION_LIMIT).set(most as f64);
}

/// Something was ended because its client did nothing for too long.
pub(crate) fn gave_up(what: &'static str) {
    counter!(GIVEN_UP, "what" => what).increment(1);
}

/// An outgoing request ended.
pub(crate) fn outbound(outcome: &'static str, took: Duration) {
    counter!(OUTBOUND, "outcome" => outcome).increment(1);
    histogram!(OUTBOUND_SECONDS, "outcome" => outcome).record(took);
}

/// Counts an outgoing request as in flight for as long as it lives.
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

/// Counts a connection as open for as long as it lives.
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

struct Figure {
    name: &'static str,
    help: &'static str,
    read: Read,
}

enum Read {
    Counter(fn(&abide_storage::StoreStats) -> u64),
    Gauge(fn(&abide_storage::StoreStats) -> f64),
}

const STORE_FIGURES: &[Figure] = &[
    Figure {
        name: "abide_log_commits_total",
        help: "Transactions appended to the commit log since the process started.",
        read: Read::Counter(|s| s.commits),
    },
    Figure {
        name: "abide_log_groups_total",
        help: "Groups of transactions made durable with one sync each.",
        read: Read::Counter(|s| s.groups),
    },
    Figure {
        name: "abide_log_appended_bytes_total",
        help: "Bytes appended to the commit log.",
        read: Read::Counter(|s| s.log_bytes),
    },
    Figure {
        name: "abide_checkpoints_total",
        help: "Checkpoints finished: object files brought up to date and log recycled.",
        read: Read::Counter(|s| s.checkpoints),
    },
    Figure {
        name: "abide_log_sync_spent_seconds",
        help: "Time spent in syncs of the commit log; divided by abide_log_groups_total, the mean of one.",
        read: Read::Gauge(|s| s.sync_seconds),
    },
    Figure {
        name: "abide_log_last_sync_seconds",
        help: "Time that the newest sync of the commit log took.",
        read: Read::Gauge(|s| s.last_sync_us as f64 / 1e6),
    },
    Figure {
        name: "abide_log_durable_lsn",
        help: "Log position up to which everything is durable.",
        read: Read::Gauge(|s| s.durable_lsn as f64),
    },
    Figure {
        name: "abide_log_appended_lsn",
        help: "Log position up to which transactions were appended; minus abide_log_durable_lsn, what waits for a sync.",
        read: Read::Gauge(|s| s.appended_lsn as f64),
    },
    Figure {
        name: "abide_log_unsynced_bytes",
        help: "Bytes of the log that wait for a sync.",
        read: Read::Gauge(|s| s.unsynced_bytes as f64),
    },
    Figure {
        name: "abide_log_tail_bytes",
        help: "Log since the last checkpoint: what a restart would replay.",
        read: Read::Gauge(|s| s.log_tail_bytes as f64),
    },
    Figure {
        name: "abide_overlay_bytes",
        help: "Changed pages held in memory until a checkpoint writes them to object files.",
        read: Read::Gauge(|s| s.overlay_bytes as f64),
    },
    Figure {
        name: "abide_objects_live",
        help: "Objects that are open or whose files lack pages that are in memory.",
        read: Read::Gauge(|s| s.live_objects as f64),
    },
    Figure {
        name: "abide_archive_bytes",
        help: "Bytes of the archive.",
        read: Read::Gauge(|s| s.archive_bytes as f64),
    },
    Figure {
        name: "abide_archive_runs",
        help: "Files of the archive.",
        read: Read::Gauge(|s| s.archive_runs as f64),
    },
    Figure {
        name: "abide_archive_lag_bytes",
        help: "Durable log that is not archived yet.",
        read: Read::Gauge(|s| s.archive_lag_bytes as f64),
    },
    Figure {
        name: "abide_archive_horizon_seconds",
        help: "Time since which every commit can be restored, in seconds since 1970; 0 if none can.",
        read: Read::Gauge(|s| s.archive_horizon_ms as f64 / 1e3),
    },
    Figure {
        name: "abide_archive_failing",
        help: "1 while the log cannot be archived, otherwise 0; history may be given up for commits.",
        read: Read::Gauge(|s| f64::from(u8::from(s.archive_failing))),
    },
    Figure {
        name: "abide_commits_waiting",
        help: "Commits that wait for room now; the log and abide_commit_waits_total say for what.",
        read: Read::Gauge(|s| s.commits_waiting as f64),
    },
    Figure {
        name: "abide_log_sync_wait_seconds",
        help: "How long the group of commits that is being written and synced has taken so far; 0 if there is none.",
        read: Read::Gauge(|s| s.sync_wait_seconds),
    },
    Figure {
        name: "abide_archive_history_losses_total",
        help: "Times that history was given up, since the process started, because there was no room for it.",
        read: Read::Counter(|s| s.history_losses),
    },
    Figure {
        name: "abide_archive_holes",
        help: "Holes in the history within the retention: what was given up because there was no room for it.",
        read: Read::Gauge(|s| s.archive_holes as f64),
    },
    Figure {
        name: "abide_objects_quarantined",
        help: "Objects that are refused until they are repaired; `abide quarantined` lists them.",
        read: Read::Gauge(|s| s.quarantined_objects as f64),
    },
    Figure {
        name: "abide_temporary_bytes",
        help: "Bytes of temporary files: what sorts and the like of running statements have on the disk.",
        read: Read::Gauge(|s| s.temporary_bytes as f64),
    },
    Figure {
        name: "abide_temporary_written_bytes_total",
        help: "Bytes written to temporary files; much of it asks for an index.",
        read: Read::Counter(|s| s.temporary_written_bytes),
    },
    Figure {
        name: "abide_stored_bytes",
        help: "Bytes of the databases of all objects; 0 without storage.max_bytes, as they are not counted then.",
        read: Read::Gauge(|s| s.stored_bytes.unwrap_or(0) as f64),
    },
    Figure {
        name: "abide_full_objects_refusals_total",
        help: "Writes refused because of storage.max_object_bytes.",
        read: Read::Counter(|s| s.full_refusals[0]),
    },
    Figure {
        name: "abide_full_storage_refusals_total",
        help: "Writes refused because of storage.max_bytes.",
        read: Read::Counter(|s| s.full_refusals[1]),
    },
    Figure {
        name: "abide_storage_no_space",
        help: "1 while commits are refused because the disk is full, otherwise 0.",
        read: Read::Gauge(|s| f64::from(u8::from(s.no_space))),
    },
];

/// Publishes the store's metrics for the next scrape.
pub(crate) fn take_store(stats: &abide_storage::StoreStats) {
    for (reason, waits) in WaitReason::ALL.iter().zip(&stats.commit_waits) {
        counter!(COMMIT_WAITS, "reason" => reason.as_str()).absolute(waits.count);
        gauge!(COMMIT_WAIT_SECONDS, "reason" => reason.as_str()).set(waits.seconds);
    }
    for figure in STORE_FIGURES {
        match figure.read {
            Read::Counter(read) => counter!(figure.name).absolute(read(stats)),
            Read::Gauge(read) => gauge!(figure.name).set(read(stats)),
        }
    }
}
