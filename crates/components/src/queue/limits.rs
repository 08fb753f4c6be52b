//! Every bound of queues, in one place, with the source of its number.

use std::time::Duration;

/// Bytes of a queue's name.
pub const MAX_NAME_BYTES: usize = 64;

/// Shards of a queue: more than a node has workers.
pub const MAX_SHARDS: u32 = 1_024;

/// Bytes of a body, as JSON. Larger things belong in storage with their address in the message.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// Bytes of a key or a dedup key (the runtime's bound of idempotency keys).
pub const MAX_KEY_BYTES: usize = 255;

/// Messages that one shard takes in one transaction.
pub const MAX_SEND: usize = 1_000;

/// Bytes of the bodies that one shard takes in one transaction: half of what a call may carry.
pub const MAX_SEND_BYTES: usize = 16 << 20;

/// Messages of a batch.
pub const MAX_BATCH: usize = 1_000;

/// Bytes of the bodies of a batch: half of what a call may carry.
pub const MAX_BATCH_BYTES: usize = 16 << 20;

/// The longest time that a batch may be gathered.
pub const MAX_WAIT: Duration = Duration::from_mins(1);

/// The longest delay of a message: a year, which nobody waits for.
pub const MAX_DELAY: Duration = Duration::from_hours(366 * 24);

/// The longest time that a consumer may have a batch.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(15);

/// Batches of one shard on their way at a time.
pub const MAX_CONCURRENCY: u32 = 256;

/// Dedup keys that a shard remembers; the oldest go first.
pub const MAX_KEYS: i64 = 100_000;

/// Dedup keys that one send forgets at most; the next goes on.
pub const MAX_FORGOTTEN: usize = 2 * MAX_SEND;

/// Bytes of an error that are kept; the rest is cut.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// Dead letters in one page of a list.
pub const MAX_PAGE: usize = 1_000;

/// Dead letters that one redrive or discard takes in one transaction; the handle goes on until none is left.
pub const MAX_SWEPT: usize = 500;

/// Dead letters that go to another queue at a time.
pub const MAX_FORWARDED: usize = 100;

/// How long dead letters wait that the other queue did not take.
pub const FORWARD_PAUSE: Duration = Duration::from_secs(10);

/// A batch is taken back so much later than its consumer's time is over, so that the outcome is written first.
pub const LEASE_GRACE: Duration = Duration::from_secs(5);

/// The first rest of a consumer that failed a whole batch; it doubles with each in a row.
pub const REST: Duration = Duration::from_millis(500);

/// The longest such rest.
pub const MAX_REST: Duration = Duration::from_secs(30);

/// The longest pause that a consumer can ask for: a day, which a person notices.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// The time that is remembered as seen is at most so much older than that of the newest batch.
pub const CLOCK_STEP: Duration = Duration::from_secs(1);

/// A clock that goes back by more than this has been set.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// Waits up to this are waited in memory, longer ones by the object's alarm.
pub const SHORT_WAIT: Duration = Duration::from_secs(1);

/// How long one background task works before another takes over. A class's `background_timeout` has to be longer.
pub const PUMP_LIFE: Duration = Duration::from_mins(1);

/// How soon a shard looks again whether the program knows its queue.
pub const UNKNOWN_PAUSE: Duration = Duration::from_mins(1);

const _: () = {
    assert!(CLOCK_STEP.as_secs() < CLOCK_TOLERANCE.as_secs());
    assert!(SHORT_WAIT.as_secs() < PUMP_LIFE.as_secs());
    assert!(MAX_BODY_BYTES <= MAX_SEND_BYTES && MAX_BODY_BYTES <= MAX_BATCH_BYTES);
};
