//! The limits of workflows, each with the source of its number.

use std::time::Duration;

/// Steps, sleeps, waits and children of one instance. A replay goes through each, in some microseconds; a workflow with
/// more work uses children, or continues as new.
pub const MAX_STEPS: usize = 10_000;

/// Bytes of an input, of a step's result and of an event, as JSON: a row of it fits into a transaction many times over,
/// and a replay has one at a time in memory.
pub const MAX_RESULT_BYTES: usize = 1 << 20;

/// Unconsumed events of an instance.
pub const MAX_EVENTS: i64 = 1_000;

/// Bytes of a workflow's name.
pub const MAX_NAME_BYTES: usize = 64;

/// Bytes of the name of a step, a sleep, a child or an event.
pub const MAX_STEP_NAME_BYTES: usize = 200;

/// Bytes of an instance's id. A child's id is its parent's and its own name, so there is room for some generations.
pub const MAX_ID_BYTES: usize = 1_024;

/// Bytes of a stored error; the rest is truncated.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// Attempts of one instance that run at a time; further steps of a `parallel` wait.
pub const MAX_PARALLEL: usize = 64;

/// The longest time that an attempt may take, whatever its policy says.
pub const MAX_TIMEOUT: Duration = Duration::from_hours(1);

/// The longest sleep, wait for an event, or wait between attempts: ten years.
pub const MAX_WAIT: Duration = Duration::from_hours(10 * 366 * 24);

/// The latest time, in milliseconds since 1970: the end of the year 9999, as for alarms.
pub const MAX_TIME: i64 = abide_component::limits::MAX_TIME;

/// Random jitter of a wait between attempts, as a share of it: steps that failed together are not retried together.
pub const JITTER: f64 = abide_component::limits::JITTER;

/// Results that a replay delivers in one poll; other objects run in between.
pub(crate) const REPLAY_BATCH: usize = 256;

/// Polls of a run that wakes itself, before other objects run.
pub(crate) const RESTLESS_POLLS: usize = 1_000;

/// How long a stuck instance waits until it checks whether the program was fixed.
pub(crate) const STUCK_PAUSE: Duration = Duration::from_hours(1);

/// The wait before a notice to another object is sent again; it doubles each time.
pub(crate) const TELL_BACKOFF: Duration = Duration::from_secs(1);

/// The longest such wait.
pub(crate) const TELL_MAX_BACKOFF: Duration = Duration::from_mins(1);

/// Notices that one instance sends to other objects at a time: to new children, a parent, its directory.
pub const MAX_TELLING: usize = 16;

/// Instances that a restored directory asks for their status at a time: each has to start for it.
pub const MAX_ASKING: i64 = 64;

/// Instances, or steps, in one page of a list.
pub const MAX_PAGE: usize = 1_000;

/// How long one call waits for an instance to end, at most: less than a handler's time limit.
pub const MAX_PATIENCE: Duration = Duration::from_mins(2);

const _: () = {
    assert!(MAX_RESULT_BYTES <= 1 << 20);
};
