//! The back-off of retries.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Failure, FailureKind,
    limits::{JITTER, MAX_RETRY_AFTER, PATIENCE, SCHEDULE_JITTER},
    numbers::millis,
    throttle,
};

/// When failed attempts are retried, and when they are given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPolicy {
    /// Waits that double.
    Exponential {
        /// The wait before the second attempt.
        base: Duration,
        /// The longest wait.
        max: Duration,
        /// Attempts in all.
        max_attempts: u32,
    },
    /// The wait before each attempt except the first; after the last one no more attempts are made.
    Schedule(Vec<Duration>),
}

/// What was tried when an attempt failed.
#[derive(Clone, Copy, Debug)]
pub struct Tried<'a> {
    /// Attempts that count, with this one.
    pub attempts: u32,
    /// Attempts before this one that do not count.
    pub throttled: u32,
    /// Since when each attempt was throttled, if this one was, in milliseconds since 1970.
    pub throttled_since: i64,
    /// True if nothing else was in flight.
    pub alone: bool,
    /// What names the attempt: with it, waits have jitter.
    pub parts: Option<&'a [&'a [u8]]>,
}

/// What follows a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Another attempt.
    Again {
        /// The wait before it, in milliseconds.
        wait: i64,
        /// True if the failed attempt counts.
        counts: bool,
        /// True if nothing else is to be in flight with it: it may end the process.
        alone: bool,
    },
    /// No attempt. The text says why.
    GiveUp(String),
}

impl Default for RetryPolicy {
    /// 12 attempts, the second 2 s after the first, doubling up to an hour: at least 68 minutes in all.
    fn default() -> Self {
        Self::Exponential {
            base: Duration::from_secs(2),
            max: Duration::from_hours(1),
            max_attempts: 12,
        }
    }
}

impl RetryPolicy {
    /// [Svix's schedule](https://docs.svix.com/retries): 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h. Standard Webhooks
    /// recommends such growing waits, over days and with jitter.
    pub fn webhooks() -> Self {
        const MINUTE: u64 = 60;
        const HOUR: u64 = 60 * MINUTE;
        let waits = [
            5,
            5 * MINUTE,
            30 * MINUTE,
            2 * HOUR,
            5 * HOUR,
            10 * HOUR,
            10 * HOUR,
        ];
        Self::Schedule(waits.map(Duration::from_secs).to_vec())
    }

    /// Attempts in all.
    pub fn max_attempts(&self) -> u32 {
        match self {
            Self::Exponential { max_attempts, .. } => *max_attempts,
            Self::Schedule(waits) => u32::try_from(waits.len())
                .unwrap_or(u32::MAX)
                .saturating_add(1),
        }
    }

    /// The last of the waits, and its jitter as a share of it. `None` if there is only one attempt.
    pub fn last_wait(&self) -> Option<(Duration, f64)> {
        self.wait(self.max_attempts().saturating_sub(1).max(1))
    }

    /// The wait after this many attempts, and its jitter as a share of it. `None` after the last attempt.
    pub fn wait(&self, attempts: u32) -> Option<(Duration, f64)> {
        let done = attempts.max(1);
        match self {
            Self::Schedule(waits) => waits
                .get(done as usize - 1)
                .map(|wait| (*wait, SCHEDULE_JITTER)),
            Self::Exponential {
                base,
                max,
                max_attempts,
            } => (done < *max_attempts).then(|| (doubled(*base, *max, done - 1), JITTER)),
        }
    }

    /// What follows a failure, by the rules of delivery. An attempt that was [cut off](FailureKind::CutOff) may have ended
    /// the process: the last one is made alone, and only work that was alone is given up for it. Work that was throttled
    /// for [`PATIENCE`] is given up.
    pub fn decide(&self, failure: &Failure, tried: Tried<'_>, now: i64) -> Decision {
        let Tried {
            attempts, parts, ..
        } = tried;
        let error = failure.message();
        if failure.kind().is_no_attempt() {
            if let Some(over) = throttle::why_over(PATIENCE, tried.throttled_since, now, error) {
                return Decision::GiveUp(over);
            }
            let pause = millis(throttle::pause(failure.after(), tried.throttled));
            return Decision::Again {
                wait: parts.map_or(pause, |parts| jittered(pause, JITTER, parts)),
                counts: false,
                alone: false,
            };
        }
        if !failure.kind().is_retried() {
            return Decision::GiveUp(error.to_owned());
        }
        let is_suspect = failure.kind() == FailureKind::CutOff;
        let wait_after = |attempts| self.next(attempts, failure.after(), parts);
        let (wait, alone) = match wait_after(attempts) {
            Some(wait) => (wait, wait_after(attempts.saturating_add(1)).is_none()),
            None if is_suspect && !tried.alone => {
                let last = wait_after(self.max_attempts().saturating_sub(1));
                (last.unwrap_or_default(), true)
            }
            None => {
                return Decision::GiveUp(format!("{error}; attempt {attempts} was the last"));
            }
        };
        Decision::Again {
            wait,
            counts: true,
            alone: alone && is_suspect,
        }
    }

    /// Milliseconds until the attempt after this many; `None` after the last. A receiver that asks for a pause gets it,
    /// up to [`MAX_RETRY_AFTER`], and never an earlier attempt than the policy allows. With `parts`, which name the
    /// attempt, there is jitter.
    pub fn next(
        &self,
        attempts: u32,
        asked: Option<Duration>,
        parts: Option<&[&[u8]]>,
    ) -> Option<i64> {
        let (wait, share) = self.wait(attempts)?;
        let wait = match parts {
            Some(parts) => jittered(millis(wait), share, parts),
            None => millis(wait),
        };
        Some(wait.max(at_most(asked)))
    }
}

/// The pause that a receiver asks for, as far as it gets it, in milliseconds.
fn at_most(asked: Option<Duration>) -> i64 {
    millis(asked.unwrap_or_default().min(MAX_RETRY_AFTER))
}

/// A wait that has doubled this many times, up to the longest.
pub fn doubled(base: Duration, max: Duration, times: u32) -> Duration {
    base.saturating_mul(1 << times.min(30)).min(max)
}

/// A wait in milliseconds, plus jitter up to a share of it. Deterministic in its arguments, so a run can be reproduced.
pub fn jittered(wait: i64, most: f64, parts: &[&[u8]]) -> i64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let share = f64::from(hash.finalize()[0]) / f64::from(u8::MAX);
    let longer = wait as f64 * most * share;
    wait.saturating_add(longer as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_asks_for_lengthens_a_wait_and_never_shortens_it() {
        let policy = RetryPolicy::Schedule(vec![Duration::from_secs(10)]);
        let next = |asked| policy.next(1, asked, None);
        assert_eq!(next(None), Some(10_000));
        assert_eq!(next(Some(Duration::from_secs(1))), Some(10_000));
        assert_eq!(next(Some(Duration::from_mins(1))), Some(60_000));
        assert_eq!(next(Some(Duration::MAX)), Some(86_400_000));
        assert_eq!(policy.next(2, Some(Duration::from_mins(1)), None), None);
        let long = next(None).and(policy.next(1, None, Some(&[b"a"]))).unwrap();
        assert!((10_000..=11_000).contains(&long), "{long}");
    }

    #[test]
    fn a_suspect_is_given_up_only_if_it_was_alone() {
        let policy = RetryPolicy::Schedule([1, 2].map(Duration::from_secs).to_vec());
        let decide = |failure: &Failure, attempts, alone| {
            let tried = Tried {
                attempts,
                throttled: 0,
                throttled_since: 0,
                alone,
                parts: None,
            };
            policy.decide(failure, tried, 0)
        };
        let again = |seconds: i64, alone| Decision::Again {
            wait: seconds * 1_000,
            counts: true,
            alone,
        };
        let cut_off = Failure::cut_off();
        assert_eq!(decide(&cut_off, 1, false), again(1, false));
        assert_eq!(decide(&cut_off, 2, false), again(2, true));
        assert_eq!(decide(&cut_off, 3, false), again(2, true));
        let over = Decision::GiveUp(format!("{cut_off}; attempt 3 was the last"));
        assert_eq!(decide(&cut_off, 3, true), over);
        let other = Failure::temporary("no");
        assert_eq!(decide(&other, 2, false), again(2, false));
        assert!(matches!(decide(&other, 3, false), Decision::GiveUp(_)));
        let never = Failure::permanent("never");
        let over = Decision::GiveUp("never".to_owned());
        assert_eq!(decide(&never, 1, false), over);
    }

    #[test]
    fn throttled_attempts_do_not_count_until_patience_ends() {
        let policy = RetryPolicy::Schedule(Vec::new());
        let failure = Failure::throttled("429", None);
        let decide = |throttled, now| {
            let tried = Tried {
                attempts: 1,
                throttled,
                throttled_since: 0,
                alone: true,
                parts: None,
            };
            policy.decide(&failure, tried, now)
        };
        let again = |wait| Decision::Again {
            wait,
            counts: false,
            alone: false,
        };
        assert_eq!(decide(0, 0), again(1_000));
        assert_eq!(decide(2, 0), again(4_000));
        assert!(matches!(decide(2, millis(PATIENCE)), Decision::GiveUp(_)));
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let (base, max) = (Duration::from_secs(1), Duration::from_secs(30));
        let waits = [0, 1, 4, 5, u32::MAX].map(|times| doubled(base, max, times).as_secs());
        assert_eq!(waits, [1, 2, 16, 30, 30]);
    }
}
