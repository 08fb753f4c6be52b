//! The adaptive rate of a throttling destination: additive increase, multiplicative decrease.
//!
//! Contract: pure. A destination that throttles is paused for as long as it asks; then one attempt probes it. If it has
//! refused more than a small share of its recent attempts, attempts are spaced from then on, and the rate grows
//! linearly until the destination throttles again or the configured rate is reached. So few attempts are refused,
//! whatever the capacity is. A destination that refuses a small share of all attempts is not slowed down: it may refuse
//! at random, and then no rate is low enough. (Adaptive throttling by the share of accepted requests: Beyer et al.,
//! "Site Reliability Engineering", chapter 21.)

use std::time::Duration;

use super::{Rate, limits};
use abide_component::numbers::{micros, millis};

/// The last attempts at a destination, and how many of them it has throttled. Attempts are counted by a number that grows
/// with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refusals {
    /// The number of the attempt with which counting began.
    pub(super) since: i64,
    pub(super) refused: i64,
}

impl Refusals {
    /// Records a throttled attempt, after this many attempts.
    pub(super) fn count(&mut self, attempts: i64) {
        self.refused = self.refused.saturating_add(1);
        let counted = attempts.wrapping_sub(self.since);
        if counted < self.refused {
            // The numbering started again.
            self.since = attempts.wrapping_sub(self.refused);
        } else if counted >= limits::COUNTED_ATTEMPTS {
            self.since = attempts.wrapping_sub(counted / 2);
            self.refused /= 2;
        }
    }

    /// Whether this many were refused that the rate must be reduced.
    pub(super) fn are_many(self, attempts: i64) -> bool {
        let counted = attempts
            .wrapping_sub(self.since)
            .saturating_add(limits::FORGIVEN_ATTEMPTS);
        self.refused.saturating_mul(limits::REFUSED_IN) > counted
    }
}

/// The spacing of attempts at a destination that has throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttle {
    /// Microseconds between two attempts when the rate began to grow.
    pub(super) spacing: i64,
    /// When that was, in milliseconds since 1970.
    pub(super) since: i64,
    /// The unit of growth: the longest of the pause, the spacing and a second, in milliseconds.
    pub(super) unit: i64,
}

impl Throttle {
    /// The destination has throttled at this rate, or at its configured one, and pauses for this many milliseconds.
    pub(super) fn hit(before: Option<Self>, own: Option<Rate>, pause: i64, now: i64) -> Self {
        let spacing = match before {
            // The rate was far too high if it could not be held for a while.
            Some(held) if held.is_settled(now) => held.spacing(now).saturating_mul(8) / 7,
            // This many would have been accepted in the same time without a pause, but not less than half.
            Some(held) => {
                let age = held.age(now).max(pause).max(1);
                let spacing = i128::from(held.spacing(now));
                let slower = spacing * i128::from(age.saturating_add(pause)) / i128::from(age);
                i64::try_from(slower).unwrap_or(i64::MAX)
            }
            None => configured(own).saturating_mul(2),
        };
        let spacing = spacing.clamp(1, micros(limits::MAX_SPACING));
        let unit = pause.max(spacing / 1_000).clamp(
            millis(Duration::from_secs(1)),
            millis(limits::MAX_RAMP_UNIT),
        );
        Self {
            spacing,
            since: now.saturating_add(pause),
            unit,
        }
    }

    /// Microseconds between two attempts now.
    pub(super) fn spacing(self, now: i64) -> i64 {
        let doubling = self.unit.saturating_mul(limits::DOUBLING_UNITS).max(1);
        let grown = i128::from(self.spacing) * i128::from(doubling)
            / (i128::from(doubling) + i128::from(self.age(now)));
        i64::try_from(grown).unwrap_or(i64::MAX).max(1)
    }

    /// The rate that it allows now; `None` once that is no less than the configured one.
    pub(super) fn rate(self, own: Option<Rate>, now: i64) -> Option<Rate> {
        let spacing = self.spacing(now);
        (spacing > configured(own)).then(|| Rate {
            interval: Duration::from_micros(spacing.unsigned_abs()),
            burst: 1,
        })
    }

    /// True if its rate was held for a while, so that it was near the capacity.
    pub(super) fn is_settled(self, now: i64) -> bool {
        self.age(now) >= self.unit.saturating_mul(limits::SETTLED_UNITS)
    }

    fn age(self, now: i64) -> i64 {
        now.saturating_sub(self.since).max(0)
    }
}

/// The pause of a throttling destination, in milliseconds, after this many throttled probes in a row.
pub(super) fn pause(asked: Option<Duration>, in_a_row: i64) -> i64 {
    let in_a_row = u32::try_from(in_a_row).unwrap_or(0);
    millis(abide_component::throttle::pause(asked, in_a_row))
}

/// Microseconds between two attempts at the configured rate.
fn configured(own: Option<Rate>) -> i64 {
    let interval = own.map_or(Duration::ZERO, |rate| rate.interval);
    micros(interval.max(limits::MIN_SPACING))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Breaker, Failure, destination::Row},
        *,
    };

    /// A simulated receiver.
    trait Receiver {
        /// Whether it accepts one at this time, in milliseconds.
        fn takes(&mut self, now: i64) -> bool;
    }

    impl<F: FnMut(i64) -> bool> Receiver for F {
        fn takes(&mut self, now: i64) -> bool {
            self(now)
        }
    }

    /// A receiver that accepts this many in each window of this many milliseconds.
    fn windows(window: i64, most: u32) -> impl Receiver {
        let mut current = (-1, 0);
        move |now: i64| {
            if current.0 != now / window {
                current = (now / window, 0);
            }
            current.1 += 1;
            current.1 <= most
        }
    }

    /// Sends to a receiver, one attempt at a time, as passes do. Returns how many were accepted, and how many refused.
    fn send(mut receiver: impl Receiver, pause: i64, own: Option<Rate>, time: i64) -> (u32, u32) {
        let mut row = Row::default();
        let breaker = Breaker::default();
        let refusal = Failure::throttled("", Some(Duration::from_millis(pause.unsigned_abs())));
        let (mut now, mut taken, mut refused) = (0, 0, 0);
        while now < time {
            if let Some(until) = row.rests_until(now) {
                now = until;
                continue;
            }
            let bucket = row.bucket(own, now);
            if bucket.tokens(now) == 0 {
                now = bucket.next_token().max(now + 1);
                continue;
            }
            row.served += 1;
            row.set_bucket(bucket.take(1));
            if receiver.takes(now) {
                taken += 1;
                row.answered(now);
            } else {
                refused += 1;
                row.failed(&refusal, &breaker, own, now);
            }
            now += 1;
        }
        (taken, refused)
    }

    #[test]
    fn any_capacity_is_found_and_kept() {
        for (window, most, pause) in [
            (1_000, 2, 1_000),
            (5_000, 1, 5_000),
            (1_000, 50, 1_000),
            (60_000, 30, 60_000),
            (600_000, 1, 600_000),
            (1_000, 300, 100),
        ] {
            for own in [None, Some(Rate::per_second(100, 100))] {
                let (taken, refused) = send(windows(window, most), pause, own, 2_000 * window);
                let own_most = own.map_or(u32::MAX, |rate| {
                    u32::try_from(window / millis(rate.interval)).unwrap()
                });
                let possible = 2_000 * most.min(own_most);
                assert!(
                    u64::from(taken) * 4 >= u64::from(possible) * 3,
                    "{most} in {window} ms: {taken} of {possible} were taken, {refused} refused"
                );
                assert!(
                    refused * 4 <= taken + 80,
                    "{most} in {window} ms: {refused} were refused, {taken} taken"
                );
            }
        }
    }

    #[test]
    fn a_destination_that_throttles_at_random_is_not_slowed_down() {
        for (asked, least) in [(0, 30), (1_000, 4)] {
            let mut random = abide::random::SplitMix64::new(1);
            let eighth = move |_: i64| random.below(8) != 0;
            let (taken, refused) = send(eighth, asked, None, 1_000_000);
            assert!(
                taken >= least * 1_000,
                "{taken} were taken in 1,000 s, {refused} refused, with pauses of {asked} ms"
            );
        }
    }

    #[test]
    fn a_rate_that_has_grown_to_the_configured_one_is_forgotten() {
        let own = Some(Rate::per_second(100, 100));
        let throttle = Throttle::hit(None, own, 1_000, 0);
        assert_eq!(throttle.spacing, 20_000);
        assert!(throttle.rate(own, 1_000).is_some());
        assert_eq!(throttle.rate(own, 1_000 + 128_000), None);
    }
}
