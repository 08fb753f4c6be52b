//! Applies the result of an attempt: the occurrence has finished, is retried at a time, or has failed and waits for an
//! operator.

use std::time::Duration;

use abide::Result;

use super::{
    Failure, RetryPolicy,
    inner::{Inner, key},
    limits,
    runs::{Claim, Retry, Taken},
    timers::Set,
};
use abide_component::{
    jittered,
    limits::{JITTER, PATIENCE},
    numbers::millis,
    texts::cut,
    throttle,
};

impl Inner {
    /// The attempt has succeeded.
    pub(super) fn done(&self, claim: &Claim, now: i64) -> Result<()> {
        self.rows.end(claim.id)?;
        let Some(set) = self.rows.with_id(claim.timer)? else {
            return Ok(());
        };
        let detail = (claim.attempts > 1).then(|| format!("attempt {}", claim.attempts));
        self.rows.note(
            &set.name,
            "done",
            Some(claim.due_at),
            detail.as_deref(),
            now,
        )?;
        self.rows.rest(claim.timer, now)
    }

    /// The attempt has failed.
    pub(super) fn failed(&self, claim: &Claim, failure: &Failure, now: i64) -> Result<()> {
        let Some(set) = self.current(claim)? else {
            return self.drop_stale(claim, now);
        };
        let mut error = failure.message().to_owned();
        let wait = match failure.kind() {
            kind if kind.is_no_attempt() => {
                match throttle::why_over(PATIENCE, claim.created_at, now, &error) {
                    Some(over) => {
                        error = over;
                        None
                    }
                    None => Some(self.pause(&set, claim, failure.after())),
                }
            }
            kind if kind.is_retried() => self.wait(&set, claim, claim.counted(), failure.after()),
            _ => None,
        };
        let throttled = failure.kind().is_no_attempt();
        match wait {
            Some(wait) => {
                let retry = Retry {
                    at: now.saturating_add(wait).min(limits::MAX_TIME),
                    error: &cut(error, limits::MAX_ERROR_BYTES),
                    alone: false,
                    throttled,
                };
                self.try_again(&set, claim, &retry, now)
            }
            None => self.give_up(&set, claim, &error, now),
        }
    }

    /// The attempt was cut off: it may have ended the process, and counts. The last attempt is made alone, and only a run
    /// that was alone has failed because of a crash.
    fn cut_off(&self, claim: &Claim, now: i64) -> Result<()> {
        let Some(set) = self.current(claim)? else {
            return self.drop_stale(claim, now);
        };
        let error = "it was interrupted: its object or the process stopped";
        let wait = self.wait(&set, claim, claim.counted(), None);
        if wait.is_none() && claim.alone {
            return self.give_up(&set, claim, error, now);
        }
        let last = || self.wait(&set, claim, self.policy(&set).max_attempts() - 1, None);
        let wait = wait.or_else(last).unwrap_or_default();
        let next = claim.counted().saturating_add(1);
        let retry = Retry {
            at: now.saturating_add(wait).min(limits::MAX_TIME),
            error,
            alone: self.wait(&set, claim, next, None).is_none(),
            throttled: false,
        };
        self.try_again(&set, claim, &retry, now)
    }

    fn try_again(&self, set: &Set, claim: &Claim, retry: &Retry<'_>, now: i64) -> Result<()> {
        self.rows.retry(claim, retry, now)?;
        let (due, error) = (Some(claim.due_at), Some(retry.error));
        self.rows.note(&set.name, "retried", due, error, now)
    }

    fn give_up(&self, set: &Set, claim: &Claim, error: &str, now: i64) -> Result<()> {
        let error = cut(error.to_owned(), limits::MAX_ERROR_BYTES);
        tracing::error!(
            timer = set.name,
            error,
            "a timer has failed and waits for an operator"
        );
        self.rows.fail(claim, &error, now)?;
        self.rows
            .note(&set.name, "failed", Some(claim.due_at), Some(&error), now)?;
        self.rows.rest(set.id, now)
    }

    fn policy<'a>(&'a self, set: &'a Set) -> &'a RetryPolicy {
        set.spec.0.retry.as_ref().unwrap_or(&self.options.retry)
    }

    /// The time until the attempt after this many, in milliseconds, if there is one: not less than was asked for.
    fn wait(
        &self,
        set: &Set,
        claim: &Claim,
        attempts: u32,
        asked: Option<Duration>,
    ) -> Option<i64> {
        let key = key(set, claim);
        let parts: [&[u8]; 2] = [key.as_bytes(), &claim.attempts.to_le_bytes()];
        let parts = self.options.jitter.then_some(&parts[..]);
        self.policy(set).next(attempts, asked, parts)
    }

    /// The pause of an occurrence that was throttled, in milliseconds.
    fn pause(&self, set: &Set, claim: &Claim, asked: Option<Duration>) -> i64 {
        let pause = millis(throttle::pause(asked, claim.throttled));
        if !self.options.jitter {
            return pause;
        }
        let key = key(set, claim);
        jittered(
            pause,
            JITTER,
            &[key.as_bytes(), &claim.attempts.to_le_bytes()],
        )
    }

    /// Settles claimed runs whose claimer has stopped. A started attempt counts as failed.
    pub(super) fn recover(&self, now: i64) -> Result<()> {
        self.mind_clock(now)?;
        let claimed = self.rows.taken(Taken::Claimed)?;
        // They are handled in this order, and finished ones are removed: the first has started. Others have as well if the
        // ends of those before them are not on disk. So each of them is a suspect.
        for waiting in claimed.iter().skip(1) {
            self.rows.give_back(waiting, true, now)?;
        }
        let running = self.rows.taken(Taken::Running)?;
        for begun in claimed.iter().take(1).chain(&running) {
            self.cut_off(begun, now)?;
        }
        Ok(())
    }

    /// Releases what an alarm has claimed and has not started.
    pub(super) fn give_back_the_rest(&self, claims: &[Claim], now: i64) -> Result<()> {
        for claim in claims {
            self.rows.give_back(claim, false, now)?;
        }
        Ok(())
    }
}
