//! How long a session waits for its server, and how much it sends at once.

use std::time::Duration;

/// Time to open a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection whose peer acknowledges nothing for this long is broken (`TCP_USER_TIMEOUT`).
pub const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);

/// A statement without an answer for this long is given up, with its connection. The server may execute it later.
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a fence waits for a commit of the session that is fenced, before it ends that session's connection. A trim waits as long
/// for readers of a log.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes of a row of a log. A larger group has several.
pub const ROW_BYTES: usize = 8 * 1024 * 1024;

/// Bytes in one table of a log after which the other is filled, if that is empty.
pub const HALF_BYTES: u64 = 64 * 1024 * 1024;
