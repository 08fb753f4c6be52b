//! Applies the result of an attempt: the occurrence has finished, is retried at a time, or has failed and waits for an
//! operator.

use std::time::Duration;

use abide::Result;

use super::{
    Failure,
    inner::Inner,
    limits,
    runs::{Claim, Taken},
    timers::Set,
};
use crate::broken::{Variant, broken};
use abide_component::jittered;
use abide_component::numbers::millis;
use abide_component::texts::cut;

impl Inner {
    /// The attempt has succeeded.
    pub(super) fn done(&self, claim: &Claim, now: i64) -> Result<()> {
        if broken(Variant::EndForgotten) && claim.attempts == 1 {
            return Ok(());
        }
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
        let error = cut(failure.error.clone(), limits::MAX_ERROR_BYTES);
        let due = Some(claim.due_at);
        let wait = self.wait(&set, claim).filter(|_| !failure.permanent);
        if let Some((wait, most)) = wait {
            let wait = self.jittered(millis(wait), most, &set, claim);
            let at = now.saturating_add(wait).min(limits::MAX_TIME);
            self.rows.retry_at(claim, at, &error, now)?;
            return self.rows.note(&set.name, "retried", due, Some(&error), now);
        }
        tracing::error!(
            timer = set.name,
            error,
            "a timer has failed and waits for an operator"
        );
        if broken(Variant::FailedForgotten) {
            self.rows.end(claim.id)?;
        } else {
            self.rows.fail(claim, &error, now)?;
        }
        self.rows
            .note(&set.name, "failed", due, Some(&error), now)?;
        self.rows.rest(set.id, now)
    }

    /// The wait until the next attempt, if there is to be one, and the share by which it may be longer.
    fn wait(&self, set: &Set, claim: &Claim) -> Option<(Duration, f64)> {
        let policy = set.spec.0.retry.as_ref().unwrap_or(&self.options.retry);
        if broken(Variant::RetriedForEver) {
            return policy.wait(1);
        }
        policy.wait(claim.attempts)
    }

    /// A wait, longer by chance. The same for the same attempt.
    fn jittered(&self, wait: i64, most: f64, set: &Set, claim: &Claim) -> i64 {
        if broken(Variant::RetriedAtOnce) {
            return 0;
        }
        if !self.options.jitter {
            return wait;
        }
        let key = self.key(claim.id, &set.name, claim.due_at);
        let parts = [key.as_bytes(), &claim.attempts.to_le_bytes()];
        jittered(wait, most, &parts)
    }

    /// Settles claimed runs whose claimer has stopped. A started attempt counts as failed.
    pub(super) fn recover(&self, now: i64) -> Result<()> {
        if broken(Variant::CutOffForgotten) {
            return Ok(());
        }
        let failure = Failure::again("it was interrupted: its object or the process stopped");
        let claimed = self.rows.taken(Taken::Claimed)?;
        // They are handled in this order, and finished ones are removed: only the first can have started.
        for waiting in claimed.iter().skip(1) {
            self.rows.give_back(waiting, now)?;
        }
        let running = self.rows.taken(Taken::Running)?;
        for begun in claimed.iter().take(1).chain(&running) {
            self.failed(begun, &failure, now)?;
        }
        Ok(())
    }
}
