//! Token buckets.
//!
//! The generic cell rate algorithm (ITU-T I.371): a bucket's state is the time at which it will be full, so a single
//! stored number preserves it. Times are microseconds since 1970.

use super::Rate;
use abide_component::numbers::micros;

/// A bucket at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    rate: Option<Rate>,
    full_at: i64,
}

impl Bucket {
    /// A stored bucket. If it would fill later than an empty one, it was stored under another clock or rate: it is
    /// empty.
    pub(super) fn new(rate: Option<Rate>, full_at: i64, now_millis: i64) -> Self {
        let capacity = rate.map_or(0, capacity);
        let now = now_millis.saturating_mul(1_000);
        Self {
            rate,
            full_at: full_at.clamp(now, now.saturating_add(capacity)),
        }
    }

    /// Tokens in it.
    pub(super) fn tokens(self, now_millis: i64) -> u32 {
        let Some(rate) = self.rate else {
            return u32::MAX;
        };
        let room = now_millis
            .saturating_mul(1_000)
            .saturating_add(capacity(rate))
            .saturating_sub(self.full_at);
        u32::try_from(room / interval(rate))
            .unwrap_or(0)
            .min(rate.burst.max(1))
    }

    /// Takes tokens.
    #[must_use]
    pub(super) fn take(self, tokens: u32) -> Self {
        let spent = self
            .rate
            .map_or(0, interval)
            .saturating_mul(i64::from(tokens));
        Self {
            full_at: self.full_at.saturating_add(spent),
            ..self
        }
    }

    /// When there is a token, in milliseconds.
    pub(super) fn next_token(self) -> i64 {
        let Some(rate) = self.rate else {
            return 0;
        };
        let micros = self.full_at.saturating_add(interval(rate)) - capacity(rate);
        micros.saturating_add(999).div_euclid(1_000)
    }

    /// The number to store.
    pub(super) fn full_at(self) -> i64 {
        self.full_at
    }
}

/// Whether a stored bucket is full. A token that was taken before has come back by then, so it is not returned again.
pub(super) fn is_full(full_at: i64, now_millis: i64) -> bool {
    full_at <= now_millis.saturating_mul(1_000)
}

fn interval(rate: Rate) -> i64 {
    micros(rate.interval).max(1)
}

fn capacity(rate: Rate) -> i64 {
    interval(rate).saturating_mul(i64::from(rate.burst.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_767_225_600_000;

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_token_each_interval() {
        let rate = Some(Rate::per_second(2, 3));
        let bucket = Bucket::new(rate, 0, NOW);
        assert_eq!(bucket.tokens(NOW), 3);
        let bucket = bucket.take(3);
        assert_eq!(bucket.tokens(NOW), 0);
        assert_eq!(bucket.next_token(), NOW + 500);
        assert_eq!(bucket.tokens(NOW + 499), 0);
        assert_eq!(bucket.tokens(NOW + 500), 1);
        let kept = Bucket::new(rate, bucket.full_at(), NOW + 1_000);
        assert_eq!(kept.tokens(NOW + 1_000), 2);
        assert_eq!(kept.tokens(NOW + 60_000), 3);
    }

    #[test]
    fn a_clock_that_went_back_leaves_an_empty_bucket_and_not_a_blocked_one() {
        let rate = Some(Rate::per_second(2, 3));
        let kept = Bucket::new(rate, NOW * 1_000, NOW - 86_400_000);
        assert_eq!(kept.tokens(NOW - 86_400_000), 0);
        assert_eq!(kept.tokens(NOW - 86_400_000 + 500), 1);
    }

    #[test]
    fn no_rate_is_no_limit() {
        let bucket = Bucket::new(None, 0, NOW).take(1_000_000);
        assert_eq!(bucket.tokens(NOW), u32::MAX);
    }
}
