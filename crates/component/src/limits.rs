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

/// The longest pause that a receiver can ask for: a day, which an operator notices.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// The pause of a receiver that throttles and does not say for how long. It doubles with each attempt that is throttled.
pub const DEFAULT_THROTTLE_PAUSE: Duration = Duration::from_secs(1);

/// The same for a receiver that asks for less than a second.
pub const MIN_THROTTLE_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause that a receiver gets without asking for it.
pub const MAX_THROTTLE_PAUSE: Duration = Duration::from_secs(30);

/// How long throttled work is tried before it has failed: a week, as operators look at failures on working days.
pub const PATIENCE: Duration = Duration::from_hours(7 * 24);

/// A clock that is behind an earlier time by more than this has been set back.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);
