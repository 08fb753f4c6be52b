//! What throttling has taught of a destination's capacity: additive increase, multiplicative decrease.
//!
//! Contract: pure. A destination that throttles is left alone for as long as it asks; then one attempt probes it. Once that is
//! answered, attempts are spaced, and the rate grows by the same amount in the same time until the destination throttles again
//! or the configured rate is reached. So an attempt in some dozens is refused, whatever the capacity is.

use std::time::Duration;

use super::{Rate, limits};
use crate::numbers::{micros, millis};

/// The spacing of attempts at a destination that has throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttle {
    /// Microseconds between two attempts when the rate began to grow.
    pub(super) spacing: i64,
    /// When that was, in milliseconds since 1970.
    pub(super) since: i64,
    /// The time by which growth is measured: the longest of the pause, the spacing and a second, in milliseconds.
    pub(super) unit: i64,
}

impl Throttle {
    /// The destination has throttled: it was asked at this rate, or at its own that is configured, and pauses for so many
    /// milliseconds.
    pub(super) fn hit(before: Option<Self>, own: Option<Rate>, pause: i64, now: i64) -> Self {
        let spacing = match before {
            // It was far too fast if it could not be held for a while.
            Some(held) if held.age(now) >= held.unit.saturating_mul(limits::SETTLED_UNITS) => {
                held.spacing(now).saturating_mul(8) / 7
            }
            Some(held) => held.spacing(now).saturating_mul(2),
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

    fn age(self, now: i64) -> i64 {
        now.saturating_sub(self.since).max(0)
    }
}

/// How long a destination that throttles is left alone, in milliseconds: as long as it asks. If it asks for less
/// than a second, or for nothing, and `in_a_row` probes were throttled, it is asked more rarely.
pub(super) fn pause(asked: Option<Duration>, in_a_row: i64) -> i64 {
    let shortest = match asked {
        Some(asked) if asked >= limits::DEFAULT_THROTTLE_PAUSE => {
            return millis(asked.min(limits::MAX_RETRY_AFTER));
        }
        Some(_) => limits::MIN_THROTTLE_PAUSE,
        None => limits::DEFAULT_THROTTLE_PAUSE,
    };
    let doublings = u32::try_from(in_a_row).unwrap_or(0).min(16);
    let grown = shortest
        .saturating_mul(1 << doublings)
        .min(limits::MAX_THROTTLE_PAUSE);
    millis(asked.unwrap_or_default().max(grown))
}

/// Microseconds between two attempts at the configured rate.
fn configured(own: Option<Rate>) -> i64 {
    let interval = own.map_or(Duration::ZERO, |rate| rate.interval);
    micros(interval.max(limits::MIN_SPACING))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that takes so many in each window of so many milliseconds, and for the rest asks to wait for `pause`.
    struct Receiver {
        window: i64,
        most: u32,
        pause: i64,
        current: (i64, u32),
        taken: u32,
        refused: u32,
    }

    impl Receiver {
        fn takes(&mut self, now: i64) -> bool {
            if self.current.0 != now / self.window {
                self.current = (now / self.window, 0);
            }
            let takes = self.current.1 < self.most;
            if takes {
                self.current.1 += 1;
                self.taken += 1;
            } else {
                self.refused += 1;
            }
            takes
        }

        /// Sends to it for so many windows, as passes do.
        fn send(&mut self, windows: i64, own: Option<Rate>) {
            let (mut now, mut learned, mut in_a_row) = (0, None, 0);
            while now < windows * self.window {
                if self.takes(now) {
                    if let Some(throttle) = &mut learned
                        && in_a_row > 0
                    {
                        *throttle = Throttle {
                            since: now,
                            ..*throttle
                        };
                    }
                    in_a_row = 0;
                    let spacing = match learned {
                        Some(throttle) => throttle.spacing(now).max(configured(own)),
                        None => configured(own),
                    };
                    now += (spacing / 1_000).max(1);
                } else {
                    let asked = Duration::from_millis(self.pause.unsigned_abs());
                    let wait = pause(Some(asked), in_a_row);
                    if in_a_row == 0 {
                        learned = Some(Throttle::hit(learned, own, wait, now));
                    }
                    in_a_row += 1;
                    now += wait;
                }
            }
        }
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
                let mut receiver = Receiver {
                    window,
                    most,
                    pause,
                    current: (-1, 0),
                    taken: 0,
                    refused: 0,
                };
                receiver.send(2_000, own);
                let own_most = own.map_or(u32::MAX, |rate| {
                    u32::try_from(window / millis(rate.interval)).unwrap()
                });
                let possible = 2_000 * most.min(own_most);
                let (taken, refused) = (receiver.taken, receiver.refused);
                assert!(
                    u64::from(taken) * 4 >= u64::from(possible) * 3,
                    "{most} in {window} ms: {taken} of {possible} were taken, {refused} refused"
                );
                assert!(
                    refused <= 2_000 / 8 + 20,
                    "{most} in {window} ms: {refused} were refused, {taken} taken"
                );
            }
        }
    }

    #[test]
    fn a_destination_that_asks_for_too_little_is_asked_more_rarely() {
        let none = Some(Duration::ZERO);
        assert_eq!(pause(none, 0), 100);
        assert_eq!(pause(none, 3), 800);
        assert_eq!(pause(none, 60), 30_000);
        assert_eq!(pause(Some(Duration::from_mins(5)), 60), 300_000);
        assert_eq!(pause(Some(Duration::from_hours(48)), 0), 86_400_000);
        assert_eq!(pause(None, 0), 1_000);
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
