//! Every bound of the patterns, in one place.

use std::time::Duration;

/// Keys that one rate limiter counts at a time; those that have used nothing lately do not count.
pub const MAX_LIMITER_KEYS: usize = 100;

/// Bytes of a rate limiter's key.
pub const MAX_LIMITER_KEY_BYTES: usize = 255;

/// The longest window, and the longest time in which a bucket fills up.
pub const MAX_WINDOW: Duration = Duration::from_hours(366 * 24);

/// Parts of a sliding window. What was admitted counts until its part has left the window: at most a 256th of the
/// window longer than it must.
pub const WINDOW_SLOTS: i64 = 256;

/// Parts that are kept of a window, also if the window of a key changes all the time; then the oldest count together.
pub const MAX_WINDOW_SLOTS: usize = 4 * WINDOW_SLOTS as usize;

/// The longest time until a rate limiter saves what it has admitted.
pub const MAX_SAVE_AFTER: Duration = Duration::from_mins(1);

/// The shortest lease of a lock.
pub const MIN_LEASE: Duration = Duration::from_millis(100);

/// The longest lease of a lock. A holder that needs it for longer renews it.
pub const MAX_LEASE: Duration = Duration::from_hours(24);

/// The longest time for which a call waits for a lock: less than the time limit of a handler.
pub const MAX_LOCK_WAIT: Duration = Duration::from_mins(2);

/// Calls that wait for one lock at a time.
pub const MAX_LOCK_WAITERS: usize = 1_000;

/// Bytes of the name of a lock's holder.
pub const MAX_HOLDER_BYTES: usize = 255;

/// How long a free lock remembers its last token. Tokens grow nevertheless: they are at least the time.
pub const FORGET_LOCK_AFTER: Duration = Duration::from_hours(24);

/// Bytes of the name of a resource behind a fence.
pub const MAX_RESOURCE_BYTES: usize = 255;

/// Sessions that one object may hold, whatever its options say.
pub const MAX_SESSIONS: u32 = 100_000;

/// Bytes of the subject of a session.
pub const MAX_SUBJECT_BYTES: usize = 255;

/// Bytes of the data of a session, as JSON. They are read with each request; larger things belong in storage.
pub const MAX_SESSION_BYTES: usize = 64 << 10;

/// The longest life of a session.
pub const MAX_SESSION_LIFETIME: Duration = Duration::from_hours(366 * 24);

/// Random bytes of a session's id: 160 bits, more than can be guessed.
pub(crate) const SESSION_ID_BYTES: usize = 20;

/// Sessions that one pass of the alarm deletes; the next follows at once.
pub const MAX_SESSIONS_SWEPT: i64 = 1_000;

/// Shards of one sharded namespace.
pub const MAX_SHARDS: u32 = 100_000;

/// Bytes of the name of a sharded namespace.
pub const MAX_SHARDED_NAME_BYTES: usize = 255;

/// Shards that are asked at the same time when all are asked.
pub(crate) const SHARDS_AT_A_TIME: usize = 64;

/// Figures of one shard.
pub const MAX_FIGURES: usize = 100;

/// Different figures of all shards of one sharded namespace: totals of more are refused, not shortened.
pub const MAX_TOTALS: usize = 6_400;

/// Bytes of the name of a figure.
pub const MAX_FIGURE_BYTES: usize = 64;

/// The longest time until a shard reports a figure that has changed.
pub const MAX_REPORT_AFTER: Duration = Duration::from_hours(24);

/// Players of a leaderboard, whatever its options say: a rank is found by counting those before it.
pub const MAX_PLAYERS: u32 = 1_000_000;

/// Bytes of a player's name.
pub const MAX_PLAYER_BYTES: usize = 255;

/// Places in one page of a leaderboard.
pub const MAX_PLACES: u32 = 1_000;

/// The longest time without a heartbeat after which a visitor counts as present.
pub const MAX_PRESENCE_TIMEOUT: Duration = Duration::from_hours(1);

/// The shortest.
pub const MIN_PRESENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Most visitors present at a time, whatever the options say.
pub const MAX_PRESENT: u32 = 100_000;

/// Bytes of the name of a visitor. With the tag's beginning it is not longer than a tag may be.
pub const MAX_WHO_BYTES: usize = 240;

/// Heartbeats are stored once in this share of the timeout; one that comes sooner changes nothing on disk. A visitor
/// may count as present for this much longer.
pub(crate) const BEATS_IN_A_TIMEOUT: i64 = 4;

/// Attempts of one call that is retried.
pub const MAX_CALL_ATTEMPTS: u32 = 100;

/// The longest time for which a call is retried.
pub const MAX_CALL_PATIENCE: Duration = Duration::from_mins(15);

/// The longest time for which an unused object is kept.
pub const MAX_KEPT_UNUSED: Duration = Duration::from_hours(10 * 366 * 24);

/// The shortest.
pub const MIN_KEPT_UNUSED: Duration = Duration::from_secs(1);

/// A use is stored once in this share of the time for which an object is kept: an object is deleted at most this much
/// earlier than its last use would allow.
pub(crate) const USES_IN_A_LIFE: i64 = 16;
