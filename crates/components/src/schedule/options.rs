//! How a schedule runs its timers.

use std::time::Duration;

use abide_macros::Setters;

use abide::{Error, ErrorKind, Result};

use super::{RetryPolicy, limits};

/// How a schedule runs its timers.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct ScheduleOptions {
    /// When a failed attempt is retried, unless the timer overrides it. Default: 12 attempts, the second after 2 s,
    /// doubling up to an hour.
    pub retry: RetryPolicy,
    /// Whether waits have random jitter, so occurrences that failed together are not retried together: up to 25 % if
    /// they double, 10 % if they are of a list. Default true.
    pub jitter: bool,
    /// An occurrence that is later than this was missed, and [`Misfire`](super::Misfire) applies. Default 1 min.
    pub grace: Duration,
    /// How long an attempt in the background may take. Default 30 s, at most 10 min.
    pub timeout: Duration,
    /// Attempts in the background at a time. Default 16, at most 256.
    pub concurrency: usize,
    /// How long a finished timer is kept; until then setting it to the same spec changes nothing. Default 7 days. At
    /// most 10,000 are kept. Failed occurrences are kept until an operator decides.
    pub keep_ended: Duration,
    /// Rows of the history; the oldest are dropped. Default 1,000, at most 100,000.
    pub history: i64,
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            jitter: true,
            grace: Duration::from_mins(1),
            timeout: Duration::from_secs(30),
            concurrency: 16,
            keep_ended: Duration::from_hours(7 * 24),
            history: 1_000,
        }
    }
}

impl ScheduleOptions {
    /// Refuses invalid options.
    pub(super) fn check(&self) -> Result<()> {
        let wrong = if self.timeout.is_zero() || self.timeout > limits::MAX_TIMEOUT {
            "the timeout of an attempt is more than 0 s and at most 10 min".to_owned()
        } else if !(1..=limits::MAX_CONCURRENCY).contains(&self.concurrency) {
            format!(
                "1 to {} attempts are made at a time",
                limits::MAX_CONCURRENCY
            )
        } else if !(0..=limits::MAX_HISTORY).contains(&self.history) {
            format!("the history has 0 to {} rows", limits::MAX_HISTORY)
        } else if let Err(wrong) = check_retry(&self.retry) {
            wrong
        } else {
            return Ok(());
        };
        Err(Error::with_kind(
            ErrorKind::Input,
            format!("invalid options of a schedule: {wrong}"),
        ))
    }
}

/// Refuses a policy beyond the limits.
pub(super) fn check_retry(policy: &RetryPolicy) -> Result<(), String> {
    let waits = match policy {
        RetryPolicy::Schedule(waits) => waits.as_slice(),
        RetryPolicy::Exponential {
            base,
            max,
            max_attempts,
        } => {
            if !(1..=limits::MAX_ATTEMPTS).contains(max_attempts) {
                return Err(format!(
                    "1 to {} attempts can be made",
                    limits::MAX_ATTEMPTS
                ));
            }
            &[*base, *max]
        }
    };
    if waits.len() > limits::MAX_WAITS || waits.iter().any(|wait| *wait > limits::MAX_WAIT) {
        return Err(format!(
            "a retry policy has at most {} waits, of at most a year",
            limits::MAX_WAITS
        ));
    }
    Ok(())
}
