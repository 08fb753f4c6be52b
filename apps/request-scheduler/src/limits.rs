//! Every bound of the program, in one place, with the source of its number.

/// Characters of a request's id: it fits a path, a log line and an object's name.
pub const MAX_ID: usize = 64;

/// Bytes of the body that a scheduled request sends. Larger content belongs in storage, with its address in the body.
pub const MAX_BODY_BYTES: usize = 64 << 10;

/// Retries that a request may list itself.
pub const MAX_RETRIES: usize = 20;

/// The longest wait before a retry, in seconds: a week.
pub const MAX_RETRY_SECONDS: u64 = 7 * 24 * 3_600;

/// The longest interval, in seconds: ten years.
pub const MAX_EVERY_SECONDS: u64 = 10 * 366 * 24 * 3_600;

/// The latest time, in milliseconds since 1970: the end of the year 9999, as for alarms.
pub const MAX_TIME: i64 = abide::limits::schedule::MAX_TIME;

/// Runs of one request that may wait for their delivery, beside those that are being sent. While its receiver is down for longer, further
/// runs are skipped, and counted.
pub const MAX_OPEN_RUNS: i64 = 100;

/// Failed runs that a repeated request keeps; older ones are dropped.
pub const MAX_FAILED_RUNS: usize = 100;

/// Finished runs in the history of a repeated request, about: they are kept for this many intervals, but for
/// [`MAX_HISTORY`] at most.
pub const HISTORY_RUNS: i64 = 100;

/// The longest that a finished run stays in the history: 7 days.
pub const MAX_HISTORY: i64 = 7 * 24 * 3_600 * 1_000;

/// The shortest, so that a request that runs every second can be looked at: a minute.
pub const MIN_HISTORY: i64 = 60 * 1_000;

/// How soon an object with an open run checks itself, in milliseconds, if nothing else wakes it: a process may have
/// been killed between the end of a run and its consequences.
pub const TEND_AFTER: i64 = 30 * 1_000;

/// Objects that hold the index. Each takes several thousand changes a second, and a page of the list asks all of them.
pub const INDEX_SHARDS: u32 = 16;

/// Rows in one page of a list.
pub const MAX_PAGE: usize = 200;

/// Rows in a page, unless the client says otherwise.
pub const PAGE: usize = 50;

/// Scheduled requests, unless the program is told otherwise.
pub const MAX_REQUESTS: i64 = 1_000_000;

/// How long the count of scheduled requests is used before the index is asked again.
pub const COUNT_FRESH: std::time::Duration = std::time::Duration::from_secs(1);
