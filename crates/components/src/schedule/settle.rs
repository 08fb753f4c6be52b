//! Applies the result of an attempt: the occurrence has finished, is retried at a time, or has failed and waits for an
//! operator.

use abide::Result;

use super::{
    Failure, RetryPolicy,
    inner::{Inner, key},
    limits,
    runs::{Claim, Retry, Taken},
    timers::Set,
};
use abide_component::{Decision, Tried, texts::cut};

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

    /// The attempt has failed, or was cut off.
    pub(super) fn failed(&self, claim: &Claim, failure: &Failure, now: i64) -> Result<()> {
        let Some(set) = self.current(claim)? else {
            return self.drop_stale(claim, now);
        };
        let key = key(&set, claim);
        let parts: [&[u8]; 2] = [key.as_bytes(), &claim.attempts.to_le_bytes()];
        let tried = Tried {
            attempts: claim.counted(),
            throttled: claim.throttled,
            throttled_since: claim.throttled_since.unwrap_or(now),
            alone: claim.alone,
            parts: self.options.jitter.then_some(&parts[..]),
        };
        match self.policy(&set).decide(failure, tried, now) {
            Decision::Again {
                wait,
                counts,
                alone,
            } => {
                let retry = Retry {
                    at: now.saturating_add(wait).min(limits::MAX_TIME),
                    error: &cut(failure.message().to_owned(), limits::MAX_ERROR_BYTES),
                    alone,
                    throttled: !counts,
                };
                self.try_again(&set, claim, &retry, now)
            }
            Decision::GiveUp(error) => self.give_up(&set, claim, &error, now),
        }
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
            self.failed(begun, &Failure::cut_off(), now)?;
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
