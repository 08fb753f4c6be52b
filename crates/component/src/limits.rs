//! The limits that components share, each with the source of its number.

use std::time::Duration;

/// The latest time, in milliseconds since 1970: the end of the year 9999, as for alarms.
pub const MAX_TIME: i64 = 253_402_300_799_999;

/// Random jitter of a wait that doubles, as a share of it: operations that failed together are not retried together.
pub const JITTER: f64 = 0.25;

/// The same for a wait of an explicit schedule, which is more exact.
pub const SCHEDULE_JITTER: f64 = 0.1;

/// Bytes of a URL: what servers commonly take.
pub const MAX_URL_BYTES: usize = 8 << 10;

/// Bytes of a response that are read; then its connection is closed.
pub const MAX_ANSWER_BYTES: usize = 64 << 10;

/// How long a response body may take after its head; then its connection is closed. The head counts all the same.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a response body that errors quote.
pub const MAX_QUOTED_BYTES: usize = 300;
