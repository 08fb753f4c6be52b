//! A shard's state, in one row.

use serde::Deserialize;

use super::limits;
use abide_component::numbers::millis;

/// The single row of `queue_meta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Meta {
    /// Messages that wait, or that a consumer has.
    pub(super) messages: i64,
    /// Bytes of the bodies of messages and dead letters.
    pub(super) bytes: i64,
    pub(super) dead: i64,
    /// Dedup keys.
    pub(super) keys: i64,
    /// Messages that were consumed, ever.
    pub(super) consumed: i64,
    /// Claims so far: the number of the newest.
    pub(super) claims: i64,
    /// The time of about the newest claim.
    pub(super) last_seen: i64,
    /// Consecutive batches that failed as a whole.
    pub(super) failures: u32,
    /// Until when the consumer is paused for that.
    pub(super) rest_until: i64,
    pub(super) paused: bool,
}

impl Meta {
    /// By how much the wall clock was set back since the last-seen time, if it was.
    pub(super) fn clock_went_back(seen: i64, now: i64) -> Option<i64> {
        let by = seen.saturating_sub(now);
        (by > millis(limits::CLOCK_TOLERANCE)).then_some(by)
    }
}
