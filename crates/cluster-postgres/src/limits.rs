//! How long a session waits for its server, and how much it sends at once.

use std::time::Duration;

/// Time to connect to each host of an address, unless the address has a `connect_timeout`.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection whose peer acknowledges nothing for this long is broken (`TCP_USER_TIMEOUT`).
pub const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);

/// A silent connection is probed after this time. Three probes without an answer, two seconds apart, break it.
pub const KEEPALIVE: Duration = Duration::from_secs(5);

/// A statement without an answer for this long is given up, with its connection. The server may execute it later.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The same for a renewal: others follow before the lease has run out.
pub const RENEW_TIMEOUT: Duration = Duration::from_millis(1_500);

/// An append has a second more for each of these.
pub const LEAST_BYTES_PER_SECOND: u64 = 1024 * 1024;

/// Time that a statement waits for a lock, each time. A fence then ends the connections of the session that is fenced.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes in one table of a log after which the other is filled, if that is empty.
pub const HALF_BYTES: u64 = 64 * 1024 * 1024;
