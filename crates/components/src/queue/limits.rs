//! The limits of queues, each with the source of its number.

use std::time::Duration;

/// Bytes of a queue's name.
pub const MAX_NAME_BYTES: usize = 64;

/// Shards of a queue: more than a node has workers.
pub const MAX_SHARDS: u32 = 1_024;

/// Bytes of a body, as JSON. Store larger data elsewhere and put its address into the message.
pub const MAX_BODY_BYTES: usize = 1 << 20;

/// Bytes of a key or a dedup key (the runtime's bound of idempotency keys).
pub const MAX_KEY_BYTES: usize = 255;

/// Messages that one shard accepts in one transaction.
pub const MAX_SEND: usize = 1_000;

/// Bytes of the bodies that one shard accepts in one transaction: half the limit of a call.
pub const MAX_SEND_BYTES: usize = 16 << 20;

/// Messages of a batch.
pub const MAX_BATCH: usize = 1_000;

/// Bytes of the bodies of a batch: half the limit of a call.
pub const MAX_BATCH_BYTES: usize = 16 << 20;

/// The longest time to collect a batch.
pub const MAX_WAIT: Duration = Duration::from_mins(1);

/// The longest delay of a message: a year.
pub const MAX_DELAY: Duration = Duration::from_hours(366 * 24);

/// The longest time that a consumer may have a batch.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(15);

/// Batches of one shard in flight.
pub const MAX_CONCURRENCY: u32 = 256;

/// Dedup keys that a shard remembers; the oldest go first.
pub const MAX_KEYS: i64 = 100_000;

/// Dedup keys that one send removes at most; the next one continues.
pub const MAX_FORGOTTEN: usize = 2 * MAX_SEND;

/// Bytes of a stored error; the rest is truncated.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// Dead letters in one page of a list.
pub const MAX_PAGE: usize = 1_000;

/// Dead letters that one redrive or discard processes in one transaction; the handle continues until none is left.
pub const MAX_SWEPT: usize = 500;

/// Dead letters that are sent to another queue at a time.
pub const MAX_FORWARDED: usize = 100;

/// How long dead letters wait that the other queue refused.
pub(crate) const FORWARD_PAUSE: Duration = Duration::from_secs(10);

/// A claim expires this much later than its consumer's timeout, so the result is written first.
pub(crate) const LEASE_GRACE: Duration = Duration::from_secs(5);

/// The first pause of a consumer that failed a whole batch; it doubles with each consecutive failure.
pub const REST: Duration = Duration::from_millis(500);

/// The longest such pause.
pub const MAX_REST: Duration = Duration::from_secs(30);

/// How soon a shard checks again whether the program knows its queue.
pub(crate) const UNKNOWN_PAUSE: Duration = Duration::from_mins(1);

const _: () = {
    assert!(MAX_BODY_BYTES <= MAX_SEND_BYTES && MAX_BODY_BYTES <= MAX_BATCH_BYTES);
};
