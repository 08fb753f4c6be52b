//! Every bound of the edge that is not a setting, and the bounds of the settings themselves.

use std::{ops::RangeInclusive, time::Duration};

/// Time that a WebSocket's peer has to confirm a close, and to take what is left.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time to connect to a server and shake hands with it, when an object opens a WebSocket.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What is read from a WebSocket's connection at once, into a buffer that all connections of a thread share.
pub(crate) const SOCKET_READ_BYTES: usize = 64 << 10;

/// Largest allowed `websocket.max_message_bytes`.
pub(crate) const MAX_MESSAGE_BYTES_CEILING: u64 = 256 << 20;
/// Allowed `websocket.send_buffer_bytes`.
pub(crate) const SEND_BUFFER_BYTES: RangeInclusive<u64> = (1 << 10)..=(1 << 30);
/// Largest allowed `websocket.max_in_flight`.
pub(crate) const MAX_IN_FLIGHT_CEILING: usize = 4_096;

/// Streams one HTTP/2 connection may have open. Hyper's own default.
pub(crate) const MAX_HTTP2_STREAMS: u32 = 200;

/// How often an HTTP/2 connection is asked whether its client is still there, and how long the client has to answer.
pub(crate) const HTTP2_PING: Duration = Duration::from_secs(20);

/// Longest piece of a response that an HTTP/2 stream is given before its client has taken what came before.
pub(crate) const HTTP2_PIECE: usize = 32 << 10;

/// Of `server.max_connections` a client that is not this machine may have one part of so many, unless a setting says otherwise.
pub(crate) const CLIENT_SHARE: usize = 10;

/// Whoever has been silent may send at once what is allowed in so many seconds, and make at once what objects are allowed in
/// so many minutes.
pub(crate) const BURST: u32 = 10;

/// Clients whose rate of requests is remembered; those beyond share one. An entry takes some 64 bytes.
pub(crate) const RATED_CLIENTS: usize = 1 << 16;

/// Longest header of the PROXY protocol that is read, with what proxies add to the addresses: certificates' names and the like.
pub(crate) const PROXY_HEADER: usize = 4 << 10;

/// Pause after the listener failed to accept (out of descriptors), so that the failure does not spin.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How often the log says that connections are not accepted, or refused, while that lasts.
pub(crate) const ACCEPT_LOG: Duration = Duration::from_secs(10);

/// Time that answers already on their way get when the log has failed and the process must stop.
pub(crate) const FAILED_LOG_GRACE: Duration = Duration::from_secs(1);

/// A request's body of known length up to this size goes out in one piece and can be sent again after a redirect.
pub(crate) const REPEATABLE_BODY: u64 = 1 << 20;

/// How long an outgoing connection is kept for the next request (the HTTP client's own default).
pub(crate) const OUTBOUND_IDLE: Duration = Duration::from_secs(90);

/// Unused outgoing connections kept for each host.
pub(crate) const OUTBOUND_IDLE_PER_HOST: usize = 32;

/// How long a list of failing alarms waits for what their objects say. Beyond it the list comes without: a worker that is
/// blocked does not answer, and is one of the things that such a list is asked for.
pub(crate) const ALARM_TROUBLES_LIMIT: Duration = Duration::from_secs(5);

/// How often gathered histogram samples are put into their buckets between scrapes.
pub(crate) const METRICS_UPKEEP: Duration = Duration::from_secs(5);

/// Upper bounds of the buckets of every histogram in seconds: 100 µs to 10 s.
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
/// Allowed `memory.budget`. With less than the least a few large messages would stop everything.
pub(crate) const MEMORY_BUDGET: RangeInclusive<u64> = (64 << 20)..=(1 << 50);
/// The memory budget is one part of so many of the memory that there is. The rest is for what nobody counts: objects' own
/// fields, code, the allocator's gaps, the system's cache of files.
pub(crate) const MEMORY_SHARE: u64 = 2;
/// The memory that is assumed where nothing tells how much there is.
pub(crate) const ASSUMED_MEMORY: u64 = 2 << 30;
/// Of the budget, one part of so many is set aside for what cannot be counted: gaps of the allocator, and what the engine
/// gathers for the log and the archive.
pub(crate) const UNCOUNTED_SHARE: u64 = 3;
/// And so much for the process's own code and threads; of a small budget one part of [`UNCOUNTED_BASE_SHARE`] at most.
pub(crate) const UNCOUNTED_BASE: u64 = 32 << 20;
pub(crate) const UNCOUNTED_BASE_SHARE: u64 = 8;
/// What a connection takes of the memory budget besides the bodies on it: its task, and the buffers of both directions.
pub(crate) const CONNECTION_BYTES: u64 = 16 << 10;
/// What is read of an HTTP/1.1 connection before it is taken, and so the longest head of a request. It is what counts for a
/// body that arrives besides its content.
pub(crate) const READ_BUFFER_BYTES: usize = 128 << 10;
/// Allowed `storage.segment_bytes`.
pub(crate) const SEGMENT_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 30);
/// Allowed `storage.checkpoint_bytes`.
pub(crate) const CHECKPOINT_BYTES: RangeInclusive<u64> = (1 << 20)..=(64 << 30);
/// Allowed `archive.retention`: from what a test needs to ten years.
pub(crate) const RETENTION: RangeInclusive<Duration> =
    Duration::from_mins(1)..=Duration::from_hours(24 * 3_650);
/// Allowed `archive.max_bytes`.
pub(crate) const ARCHIVE_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 50);
/// Allowed `storage.max_object_bytes`.
pub(crate) const OBJECT_BYTES: RangeInclusive<u64> =
    (256 << 10)..=abide_storage::limits::MAX_OBJECT_BYTES;
/// Allowed `storage.max_bytes`.
pub(crate) const STORED_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 50);
/// Allowed `storage.cache_bytes`.
pub(crate) const CACHE_BYTES: RangeInclusive<u64> = (64 << 10)..=(1 << 30);

/// Largest file with a secret, in bytes.
pub(crate) const MAX_SECRET_FILE: u64 = 64 << 10;
/// How long a changed certificate may stay unread.
pub(crate) const TLS_RELOAD: Duration = Duration::from_secs(10);
/// Longest id of a request that is taken from its client, in bytes.
pub(crate) const MAX_REQUEST_ID: usize = 128;
/// How long a node may not know of a new or revoked token.
pub(crate) const TOKENS_REFRESH: Duration = Duration::from_millis(500);
/// Time that the peer of a WebSocket has to hear that the token has ended with which it was opened.
pub(crate) const ENDED_TOKEN_GRACE: Duration = Duration::from_secs(1);
/// How long a process waits for another that writes `access.db`.
pub(crate) const ACCESS_DB_PATIENCE: Duration = Duration::from_secs(5);
/// Rows of the audit log; the oldest is dropped for each one more.
pub(crate) const MAX_AUDIT_ROWS: i64 = 1_000_000;
/// Longest body of a request to the admin listener: a message of an outbox with room to spare.
pub(crate) const ADMIN_BODY_BYTES: usize = 2 << 20;
/// Longest request body that the audit log takes, and longest object and detail of a row.
pub(crate) const MAX_AUDIT_DETAIL: usize = 4 << 10;
/// Wrong tokens after which a client is refused for the rest of [`FAILED_LOGIN_WINDOW`].
pub(crate) const MAX_FAILED_LOGINS: u32 = 20;
/// The time in which wrong tokens are counted.
pub(crate) const FAILED_LOGIN_WINDOW: Duration = Duration::from_mins(1);
/// Clients whose wrong tokens are counted at once.
pub(crate) const MAX_FAILED_CLIENTS: usize = 10_000;
/// Time that requests on the Unix socket for commands get when the host ends.
pub(crate) const ADMIN_SOCKET_GRACE: Duration = Duration::from_secs(1);
