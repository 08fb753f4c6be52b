//! Every bound that components share, in one place, with the source of its number.

use std::time::Duration;

/// The latest time, in milliseconds since 1970: the end of the year 9999, as for alarms.
pub const MAX_TIME: i64 = 253_402_300_799_999;

/// How much longer a wait that doubles may be, as a share of it, so that what failed together is not repeated together.
pub const JITTER: f64 = 0.25;

/// The same for a wait of a schedule, which says more exactly when.
pub const SCHEDULE_JITTER: f64 = 0.1;

/// Bytes of a URL: what servers commonly take.
pub const MAX_URL_BYTES: usize = 8 << 10;

/// Bytes of an answer that are read; then its connection is closed.
pub const MAX_ANSWER_BYTES: usize = 64 << 10;

/// How long an answer's body may take after its head; then its connection is closed. What the head says counts.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of an answer's body that errors show.
pub const MAX_QUOTED_BYTES: usize = 300;
