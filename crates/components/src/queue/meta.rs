//! A shard's state, in one row.

use std::time::Duration;

use serde::Deserialize;

use super::limits;
use abide_component::{doubled, numbers::millis, throttle};

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
    /// The sum of the steps back of the wall clock with which the times are stored.
    pub(super) set_back: i64,
    /// Consecutive batches that failed as a whole.
    pub(super) failures: u32,
    /// Until when the consumer is paused for that.
    pub(super) rest_until: i64,
    /// True if the consumer has asked for that pause.
    pub(super) throttled: bool,
    pub(super) paused: bool,
}

impl Meta {
    /// A batch has failed as a whole: the consumer is paused.
    pub(super) fn batch_failed(&mut self, now: i64) {
        let rest = doubled(limits::REST, limits::MAX_REST, self.count_failure(now));
        self.rest(rest, now);
    }

    /// The consumer has asked for patience, for this long if it said so.
    pub(super) fn batch_throttled(&mut self, asked: Option<Duration>, now: i64) {
        let rest = throttle::pause(asked, self.count_failure(now));
        self.rest(rest, now);
        self.throttled = true;
    }

    /// The consumer has consumed. A pause that it has asked for continues: the batch was in flight with the one that
    /// was throttled.
    pub(super) fn batch_consumed(&mut self, now: i64) {
        if !self.throttled || self.rest_until <= now {
            self.end_rest();
        }
    }

    /// The consumer is no longer paused.
    pub(super) fn end_rest(&mut self) {
        (self.failures, self.rest_until, self.throttled) = (0, 0, false);
    }

    /// The number of failures in a row before this one. Batches that were in flight together count once.
    fn count_failure(&mut self, now: i64) -> u32 {
        if self.failures == 0 || self.rest_until <= now {
            self.failures = self.failures.saturating_add(1);
        }
        self.failures - 1
    }

    fn rest(&mut self, rest: Duration, now: i64) {
        self.rest_until = self.rest_until.max(now.saturating_add(millis(rest)));
    }
}
