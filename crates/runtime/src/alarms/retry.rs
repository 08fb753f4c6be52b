//! When a failed alarm is retried, and when it is given up.

use std::time::Duration;

use abide_macros::Setters;

use crate::{limits, random::Randomness};

/// How failed alarms of a class are retried. The wait before retry *n*, counted from 0, is `base · 2ⁿ`, at most
/// `max_backoff`, plus up to `jitter` times that.
#[derive(Clone, Debug, PartialEq, Setters)]
#[non_exhaustive]
pub struct AlarmRetry {
    /// The wait before the first retry. Default 2 s.
    pub base: Duration,
    /// The longest wait before a retry. Default 1 hour.
    pub max_backoff: Duration,
    /// The largest extension of a wait, as a fraction from 0 to 1, so that alarms that failed together are not retried
    /// together. Default 0.25.
    pub jitter: f64,
    /// Retries before the alarm is given up. Default `None`: it is retried until it succeeds. Attempts that the process
    /// did not survive do not count.
    #[setters(into)]
    pub max_retries: Option<u32>,
}

impl Default for AlarmRetry {
    fn default() -> Self {
        Self {
            base: limits::ALARM_BACKOFF,
            max_backoff: limits::ALARM_MAX_BACKOFF,
            jitter: limits::ALARM_JITTER,
            max_retries: None,
        }
    }
}

impl AlarmRetry {
    /// Gives an alarm up after this many retries.
    pub fn at_most(retries: u32) -> Self {
        Self {
            max_retries: Some(retries),
            ..Self::default()
        }
    }

    /// Retries forever, at most `max_backoff` apart.
    pub fn for_ever(max_backoff: Duration) -> Self {
        Self {
            max_backoff,
            max_retries: None,
            ..Self::default()
        }
    }

    /// Returns whether there is no further attempt after this many failed ones.
    pub(crate) fn is_over(&self, attempts: u32) -> bool {
        self.max_retries.is_some_and(|retries| attempts > retries)
    }

    /// The wait between this many attempts and the next, in milliseconds.
    pub(crate) fn backoff_millis(&self, attempts: u32, randomness: &dyn Randomness) -> i64 {
        let doublings = attempts.saturating_sub(1).min(63);
        let wait = (self.base.as_millis() << doublings).min(self.max_backoff.as_millis());
        let wait = u64::try_from(wait).unwrap_or(u64::MAX) as f64;
        let mut bytes = [0; 4];
        randomness.fill(&mut bytes);
        let share = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
        // The conversion saturates; this far in the future it makes no difference.
        (wait * (1.0 + self.jitter * share)).min(limits::FOR_EVER.as_millis() as f64) as i64
    }

    /// The wait after this many consecutive attempts that the process did not survive, in milliseconds. The class's own
    /// waits do not shorten it: crashing the process costs all objects time.
    pub(crate) fn crash_backoff_millis(&self, attempts: u32, randomness: &dyn Randomness) -> i64 {
        let retry = Self {
            jitter: self.jitter,
            ..Self::for_ever(limits::ALARM_CRASH_MAX_BACKOFF)
        };
        retry.backoff_millis(attempts, randomness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandomness;

    #[test]
    fn waits_double_from_two_seconds_and_are_up_to_a_quarter_longer() {
        let retry = AlarmRetry::default();
        for seed in 0..50 {
            let randomness = SeededRandomness::new(seed);
            for attempts in 1..=6 {
                let plain = 1_000 << attempts;
                let wait = retry.backoff_millis(attempts, &randomness);
                assert!(
                    (plain..=plain * 5 / 4).contains(&wait),
                    "{attempts}: {wait}"
                );
            }
        }
        let waits: std::collections::BTreeSet<_> = (0..20)
            .map(|seed| retry.backoff_millis(3, &SeededRandomness::new(seed)))
            .collect();
        assert!(waits.len() > 10, "{waits:?}");
    }

    #[test]
    fn an_alarm_is_tried_until_it_succeeds_unless_its_class_says_otherwise() {
        assert!(!AlarmRetry::default().is_over(u32::MAX));
        assert!(!AlarmRetry::for_ever(Duration::ZERO).is_over(u32::MAX));
        let retry = AlarmRetry::at_most(6);
        assert!(!retry.is_over(6) && retry.is_over(7));
    }

    #[test]
    fn the_wait_after_crashes_grows_to_hours() {
        let retry = AlarmRetry::for_ever(Duration::from_secs(10));
        let randomness = SeededRandomness::new(1);
        let wait = |crashes| retry.crash_backoff_millis(crashes, &randomness);
        assert!((2_000..=2_500).contains(&wait(1)));
        let longest = limits::ALARM_CRASH_MAX_BACKOFF.as_millis() as i64;
        assert!((longest..=longest * 5 / 4).contains(&wait(u32::MAX)));
    }

    #[test]
    fn waits_stop_growing_at_their_cap() {
        let retry = AlarmRetry {
            jitter: 0.0,
            ..AlarmRetry::for_ever(Duration::from_mins(1))
        };
        let randomness = SeededRandomness::new(1);
        assert_eq!(retry.backoff_millis(5, &randomness), 32_000);
        assert_eq!(retry.backoff_millis(6, &randomness), 60_000);
        assert_eq!(retry.backoff_millis(u32::MAX, &randomness), 60_000);
        let endless = AlarmRetry::for_ever(Duration::MAX);
        assert!(endless.backoff_millis(u32::MAX, &randomness) > 0);
    }
}
