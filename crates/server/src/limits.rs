//! Every limit of the server that is not a setting, and the limits of the settings themselves.

use std::{ops::RangeInclusive, time::Duration};

/// Time for a WebSocket's peer to confirm a close, and to receive what is left.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time to connect to a server, including the handshake, when an object opens a WebSocket.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes read from a WebSocket's connection at a time, into a buffer shared by all connections of a thread.
pub(crate) const SOCKET_READ_BYTES: usize = 64 << 10;

/// Largest allowed `websocket.max_message_bytes`.
pub(crate) const MAX_MESSAGE_BYTES_CEILING: u64 = 256 << 20;
/// Allowed `websocket.send_buffer_bytes`.
pub(crate) const SEND_BUFFER_BYTES: RangeInclusive<u64> = (1 << 10)..=(1 << 30);
/// Largest allowed `websocket.max_in_flight`.
pub(crate) const MAX_IN_FLIGHT_CEILING: usize = 4_096;

/// Streams one HTTP/2 connection may have open. Hyper's own default.
pub(crate) const MAX_HTTP2_STREAMS: u32 = 200;

/// How often an HTTP/2 connection is pinged, and how long the client has to answer.
pub(crate) const HTTP2_PING: Duration = Duration::from_secs(20);

/// How long a client that has closed its half of the connection waits for the next part of its response. It looks like a
/// client that has closed both, whose requests and streams are kept as long.
pub(crate) const HALF_CLOSED: Duration = Duration::from_secs(10);

/// How long what a client still sends is read after the response to a request whose body was not read.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// How long the reader of a body waits after the connection's end before the body counts as incomplete: time to read what
/// has already arrived.
pub(crate) const BODY_MOMENT: Duration = Duration::from_millis(20);

/// Frames without content, such as pings, that are read from a connection per second, and in a burst: common libraries send
/// far fewer.
pub(crate) const IDLE_FRAMES: u32 = 200;
pub(crate) const IDLE_FRAMES_BURST: u32 = 2_000;
/// Longest time for which a connection that sent too many is not read.
pub(crate) const IDLE_FRAMES_PAUSE: Duration = Duration::from_secs(2);
/// Each further frame is earned by this many bytes sent: clients confirm half a window or more of a response at once.
pub(crate) const BYTES_PER_IDLE_FRAME: u32 = 1024;

/// Longest piece of a response given to an HTTP/2 stream before its client has received the previous one.
pub(crate) const HTTP2_PIECE: usize = 32 << 10;

/// A remote client may use one part in this many of `server.max_connections`, unless a setting overrides it.
pub(crate) const CLIENT_SHARE: usize = 10;

/// The burst after inactivity: the number of seconds whose requests, and of minutes whose new objects, are allowed at
/// once.
pub(crate) const BURST: u32 = 10;

/// Clients whose request rate is tracked; further ones share one bucket. An entry takes about 64 bytes.
pub(crate) const RATED_CLIENTS: usize = 1 << 16;

/// How often a full table of clients is searched for entries that are no longer needed.
pub(crate) const RATE_SWEEP: Duration = Duration::from_secs(1);

/// Longest PROXY protocol header that is read, including what proxies add to the addresses: certificate names and the
/// like.
pub(crate) const PROXY_HEADER: usize = 4 << 10;

/// Pause after the listener failed to accept (out of descriptors), so that it does not spin.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How often the log reports that connections are not accepted, or rejected, while that lasts.
pub(crate) const ACCEPT_LOG: Duration = Duration::from_secs(10);

/// Time for responses in progress when the log has failed and the process must stop.
pub(crate) const FAILED_LOG_GRACE: Duration = Duration::from_secs(1);

/// A request body of known length up to this size is sent in one piece and can be resent after a redirect.
pub(crate) const REPEATABLE_BODY: u64 = 1 << 20;

/// How often a request is sent again because its server said that it has not processed it.
pub(crate) const OUTBOUND_REPEATS: u32 = 2;

/// How long an address may take to accept a connection before the host's next address is tried as well (RFC 8305,
/// section 8).
pub(crate) const CONNECT_STAGGER: Duration = Duration::from_millis(250);
/// Addresses of a host that are tried. Its name's owner chooses how many there are.
pub(crate) const CONNECT_ADDRESSES: usize = 16;
/// How often the kernel asks whether the machine at the other end of an idle outgoing connection is still there.
pub(crate) const TCP_PROBE: Duration = Duration::from_secs(15);
/// How many of these questions may remain unanswered.
pub(crate) const TCP_PROBES: u32 = 3;

/// How long an idle outgoing connection is kept for the next request (the HTTP client's own default).
pub(crate) const OUTBOUND_IDLE: Duration = Duration::from_secs(90);

/// Idle outgoing connections kept for each host.
pub(crate) const OUTBOUND_IDLE_PER_HOST: usize = 32;

/// How long a list of failing alarms waits for their objects' reports. After that the list omits them: a blocked worker
/// does not answer, and is one of the problems that such a list should reveal.
pub(crate) const ALARM_TROUBLES_LIMIT: Duration = Duration::from_secs(5);

/// How often collected histogram samples are put into their buckets between scrapes.
pub(crate) const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// Upper bounds of the buckets of every histogram, in seconds: 100 µs to 10 s.
pub(crate) const SECONDS_BUCKETS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Largest allowed `server.max_body_bytes`.
pub(crate) const MAX_BODY_BYTES_CEILING: u64 = 1 << 30;
/// Largest allowed `server.max_connections`: the most descriptors a Linux process may have by default settings.
pub(crate) const MAX_CONNECTIONS_CEILING: usize = 1 << 20;
/// Largest allowed `server.requests_per_client`, and of the other rates of clients and tokens.
pub(crate) const RATE_CEILING: usize = 1_000_000;
/// Largest allowed `objects.workers`.
pub(crate) const MAX_WORKERS: usize = 1_024;
/// Largest allowed `objects.max_queued`.
pub(crate) const MAX_QUEUED_CEILING: usize = 1 << 20;
/// Largest allowed `outbound.max_in_flight` and `outbound.max_queued`.
pub(crate) const MAX_OUTBOUND_CEILING: usize = 1 << 20;
/// Largest allowed `outbound.max_redirects`: the limit of the Fetch standard.
pub(crate) const MAX_REDIRECTS_CEILING: usize = 20;
/// Allowed `memory.budget`. With less than the minimum, a few large messages would block everything.
pub(crate) const MEMORY_BUDGET: RangeInclusive<u64> = (64 << 20)..=(1 << 50);
/// The memory budget is one part in this many of the available memory. The rest is for uncounted uses: objects' own
/// fields, code, allocator overhead, the page cache.
pub(crate) const MEMORY_SHARE: u64 = 2;
/// The memory size that is assumed if it cannot be determined.
pub(crate) const ASSUMED_MEMORY: u64 = 2 << 30;
/// One part in this many of the budget is set aside for uncounted memory: allocator overhead, and buffers of the engine
/// for the log and the archive.
pub(crate) const UNCOUNTED_SHARE: u64 = 3;
/// Also set aside, for the process's own code and threads; at most one part in [`UNCOUNTED_BASE_SHARE`] of a small
/// budget.
pub(crate) const UNCOUNTED_BASE: u64 = 32 << 20;
pub(crate) const UNCOUNTED_BASE_SHARE: u64 = 8;
/// The memory charge of a connection besides the bodies on it: its task, and the buffers of both directions.
pub(crate) const CONNECTION_BYTES: u64 = 16 << 10;
/// The part of it for the beginning of a request's head; the rest of a longer head is charged as it arrives.
pub(crate) const FREE_HEAD: usize = 8 << 10;
/// The size of the read buffer of an HTTP/1.1 connection, and so the longest head of a request. It is charged for an
/// arriving body in addition to its content.
pub(crate) const READ_BUFFER_BYTES: usize = 128 << 10;
/// Allowed `storage.segment_bytes`.
pub(crate) const SEGMENT_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 30);
/// Allowed `storage.checkpoint_bytes`.
pub(crate) const CHECKPOINT_BYTES: RangeInclusive<u64> = (1 << 20)..=(64 << 30);
/// Allowed `archive.retention`: from test values to ten years.
pub(crate) const RETENTION: RangeInclusive<Duration> =
    Duration::from_mins(1)..=Duration::from_hours(24 * 3_650);
/// Allowed `archive.max_bytes`.
pub(crate) const ARCHIVE_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 50);
/// Allowed `archive.hydration_rate`.
pub(crate) const HYDRATION_RATE: RangeInclusive<u64> = (64 << 10)..=(1 << 40);
/// Allowed `archive.local_bytes`.
pub(crate) const LOCAL_BYTES: RangeInclusive<u64> = 0..=(1 << 50);
/// Allowed `archive.upload_interval`.
pub(crate) const UPLOAD_INTERVAL: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_hours(24);
/// Allowed `archive.ship_interval`.
pub(crate) const SHIP_INTERVAL: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_hours(1);
/// Threads that read and write files for copies.
#[cfg(feature = "history")]
pub(crate) const COPY_THREADS: usize = 8;
/// The longest time that a thread waits for the log to grow.
#[cfg(feature = "history")]
pub(crate) const LOG_WAIT: Duration = Duration::from_millis(250);
/// Allowed `archive.prove`.
pub(crate) const PROVE_INTERVAL: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_hours(24 * 30);
/// Into how many slices everything is divided that is compared with its copy, one after each `archive.prove`.
#[cfg(feature = "history")]
pub(crate) const PROOF_SLICES: u32 = 30;
/// The pause after each object that is compared.
#[cfg(feature = "history")]
pub(crate) const PROOF_PAUSE: Duration = Duration::from_millis(2);
/// Objects whose newest commits are not copied yet, and the pages of them, that wait at once to be compared.
#[cfg(feature = "history")]
pub(crate) const PENDING_PROOFS: usize = 64;
#[cfg(feature = "history")]
pub(crate) const PENDING_PAGES: u64 = 1 << 20;
/// How long they wait for a copy.
#[cfg(feature = "history")]
pub(crate) const COPY_PATIENCE: Duration = Duration::from_hours(1);
/// For how long a copy that was read back is used: the store keeps what later copies no longer list for longer
/// ([`KEEP_UPLOADS`]).
#[cfg(feature = "history")]
pub(crate) const COPY_FRESH: Duration = Duration::from_mins(5);
/// How often it is looked whether there is one, which asks nothing of the store.
#[cfg(feature = "history")]
pub(crate) const STATUS_POLL: Duration = Duration::from_millis(100);
/// Differences of the copy that are kept.
#[cfg(feature = "history")]
pub(crate) const MAX_DIFFERENCES: usize = 100;
/// The least time for the last copy of the archive when a node stops.
pub(crate) const LAST_COPY: Duration = Duration::from_secs(5);
/// Allowed `archive.keep_uploads`.
pub(crate) const KEEP_UPLOADS: RangeInclusive<Duration> =
    Duration::from_mins(10)..=Duration::from_hours(24 * 365);
/// Allowed `storage.max_object_bytes`.
pub(crate) const OBJECT_BYTES: RangeInclusive<u64> =
    (256 << 10)..=abide_storage::limits::MAX_OBJECT_BYTES;
/// Allowed `storage.max_bytes`.
pub(crate) const STORED_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 50);
/// Allowed `storage.max_parameters`.
pub(crate) const SQL_PARAMETERS: RangeInclusive<usize> =
    abide_storage::limits::MAX_BOUND_PARAMETERS..=abide_storage::limits::MOST_BOUND_PARAMETERS;
/// Allowed `storage.max_columns`.
pub(crate) const SQL_COLUMNS: RangeInclusive<usize> =
    abide_storage::limits::MAX_COLUMNS..=abide_storage::limits::MOST_COLUMNS;
/// Allowed `storage.max_value_bytes`.
pub(crate) const SQL_VALUE_BYTES: RangeInclusive<u64> =
    abide_storage::limits::MAX_VALUE_BYTES as u64..=abide_storage::limits::MOST_VALUE_BYTES as u64;
/// Allowed `storage.cache_bytes`.
pub(crate) const CACHE_BYTES: RangeInclusive<u64> = (64 << 10)..=(1 << 30);

/// Largest size of a file with a secret, in bytes.
pub(crate) const MAX_SECRET_FILE: u64 = 64 << 10;
/// How long it may take until a changed certificate is reloaded.
pub(crate) const TLS_RELOAD: Duration = Duration::from_secs(10);
/// Longest domain name, and longest part of one between two dots (RFC 1035, section 2.3.4), in bytes.
pub(crate) const MAX_HOST_NAME: usize = 253;
pub(crate) const MAX_HOST_LABEL: usize = 63;
/// Longest request id that is accepted from a client, in bytes.
pub(crate) const MAX_REQUEST_ID: usize = 128;
/// How long it may take until a node notices a new or revoked token.
pub(crate) const TOKENS_REFRESH: Duration = Duration::from_millis(500);
/// Time for the peer of a WebSocket to learn that its token is no longer valid.
pub(crate) const ENDED_TOKEN_GRACE: Duration = Duration::from_secs(1);
/// How long a process waits for another one that writes `access.db`.
pub(crate) const ACCESS_DB_PATIENCE: Duration = Duration::from_secs(5);
/// Rows of the audit log; each further row replaces the oldest.
pub(crate) const MAX_AUDIT_ROWS: i64 = 1_000_000;
/// Longest body of a request to the admin listener: a message of an outbox with some margin.
pub(crate) const ADMIN_BODY_BYTES: usize = 2 << 20;
/// Bytes of an import that are passed on at a time.
pub(crate) const IMPORT_PIECE: usize = 256 << 10;
/// Imports at once; further ones wait. Each may take the memory of a restore, 64 MiB.
pub(crate) const IMPORTS_AT_ONCE: usize = 2;
/// Longest request body that the audit log records, and longest object and detail of a row.
pub(crate) const MAX_AUDIT_DETAIL: usize = 4 << 10;
/// Invalid tokens that a client may send per minute, all of them at once if it likes.
pub(crate) const FAILED_LOGINS: usize = 20;
/// Time for requests on the Unix socket to finish when the host stops.
pub(crate) const ADMIN_SOCKET_GRACE: Duration = Duration::from_secs(1);
