//! The retry policy of steps.

use std::time::Duration;

use super::limits;

/// When a failed step is retried, how often, and how long an attempt may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts before the step has failed; at least 1. An attempt that the process did not survive counts.
    pub max_attempts: u32,
    /// The wait before the second attempt; it doubles each time, plus up to 25 % of random jitter.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
    /// The timeout of an attempt, at most [`limits::MAX_TIMEOUT`]; then it is dropped, and has failed.
    pub timeout: Duration,
}

impl Default for RetryPolicy {
    /// 10 attempts, the second 1 s after the first, doubling up to 5 min: about 9 minutes in all. An attempt has 30 s.
    fn default() -> Self {
        Self {
            max_attempts: 10,
            base: Duration::from_secs(1),
            max: Duration::from_mins(5),
            timeout: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// One attempt. If the process crashes during it, the step has failed and may have had its effect.
    pub fn once() -> Self {
        Self::default().attempts(1)
    }

    /// Attempts until one succeeds or fails permanently.
    pub fn for_ever() -> Self {
        Self::default().attempts(u32::MAX)
    }

    /// Sets the number of attempts.
    #[must_use]
    pub fn attempts(mut self, max: u32) -> Self {
        self.max_attempts = max;
        self
    }

    /// Sets the waits: the first, and the longest.
    #[must_use]
    pub fn backoff(mut self, base: Duration, max: Duration) -> Self {
        self.base = base;
        self.max = max;
        self
    }

    /// Sets the timeout of an attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same as a policy of all components.
    pub(super) fn rule(&self) -> abide_component::RetryPolicy {
        abide_component::RetryPolicy::Exponential {
            base: self.base,
            max: self.max.min(limits::MAX_WAIT),
            max_attempts: self.max_attempts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_end_with_the_last_attempt() {
        let policy = RetryPolicy::default()
            .attempts(5)
            .backoff(Duration::from_secs(1), Duration::from_secs(3));
        let wait = |policy: &RetryPolicy, attempts| policy.rule().next(attempts, None, None);
        for (attempts, expected) in [(1, 1_000), (2, 2_000), (3, 3_000), (4, 3_000)] {
            assert_eq!(wait(&policy, attempts), Some(expected));
        }
        assert_eq!(wait(&policy, 5), None);
        assert!(wait(&RetryPolicy::for_ever(), 1_000_000).is_some());
        assert_eq!(wait(&RetryPolicy::once(), 1), None);
    }
}
