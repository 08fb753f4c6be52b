//! The limits of a schedule.

use std::time::Duration;

/// Timers of a schedule that may still go off, or have failed. Each is some hundred bytes.
pub const MAX_TIMERS: i64 = 100_000;

/// Bytes of a timer's name (the runtime's bound of idempotency keys).
pub const MAX_NAME_BYTES: usize = 255;

/// Bytes of a timer's kind.
pub const MAX_KIND_BYTES: usize = 64;

/// Bytes of a timer's metadata, which are read with each attempt; store larger data elsewhere.
pub const MAX_METADATA_BYTES: usize = 64 << 10;

/// Bytes of a cron expression.
pub const MAX_CRON_BYTES: usize = 255;

/// Bytes of a time zone's name; the longest of the time zone database has 30.
pub const MAX_ZONE_BYTES: usize = 64;

/// The latest time, in milliseconds since 1970: the end of the year 9999, as for alarms.
pub const MAX_TIME: i64 = abide_component::limits::MAX_TIME;

/// The shortest interval.
pub const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// How long until the unknown next time of a timer is computed again; then twice as long each time.
pub(crate) const PLAN_WAIT: Duration = Duration::from_mins(1);

/// The longest of these waits: a missing time zone comes with an update of the machine.
pub const MAX_PLAN_WAIT: Duration = Duration::from_hours(1);

/// The longest interval: a hundred years.
pub const MAX_INTERVAL: Duration = Duration::from_hours(100 * 366 * 24);

/// Attempts that may be made of one occurrence, whatever its policy says.
pub const MAX_ATTEMPTS: u32 = 1_000;

/// The longest wait before another attempt: a year.
pub const MAX_WAIT: Duration = Duration::from_hours(366 * 24);

/// Waits in a list of a policy.
pub const MAX_WAITS: usize = 100;

/// The longest time that an attempt may take.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// Attempts in flight.
pub const MAX_CONCURRENCY: usize = 256;

/// Occurrences that one pass claims; the next follows at once.
pub const MAX_CLAIMS: usize = 64;

/// One claim of this many is kept for timers that catch up, if there are any; the others are for occurrences that are
/// due for the first time.
pub(crate) const CATCH_UP_SHARE: usize = 4;

/// Failed occurrences that are kept per timer; the oldest are moved to the history.
pub const MAX_FAILED: i64 = 100;

/// Finished timers that are kept, so setting one of them again changes nothing; the oldest are dropped.
pub const MAX_ENDED: i64 = 10_000;

/// Timers that one pass removes.
pub const MAX_SWEPT: i64 = 200;

/// The longest history, in rows.
pub const MAX_HISTORY: i64 = 100_000;

/// Rows in one page of a list.
pub const MAX_PAGE: usize = 1_000;

/// Bytes of a stored error; the rest is truncated.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// A clock that was set back by more than this was wrong before: repeating timers follow the new time at once. After a
/// smaller step they wait, so no time goes off twice. Vixie's cron has the same bound.
pub(crate) const CLOCK_CORRECTION: Duration = Duration::from_hours(3);

/// How long one call of the alarm claims occurrences; then the alarm continues.
pub(crate) const TURN: Duration = Duration::from_secs(20);

const _: () = {
    assert!(MAX_CLAIMS <= MAX_CONCURRENCY);
};

/// How soon the object is woken again if it was reset during its alarm.
pub(crate) const AFTER_RESET: Duration = Duration::from_secs(2);

/// How soon the object is woken again if the claimer was interrupted.
pub const AGAIN: Duration = Duration::from_secs(30);
