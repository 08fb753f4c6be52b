//! Applies the result of an attempt: the occurrence has finished, is retried at a time, or has failed and waits for an
//! operator.

use abide::Result;

use super::{
    Failure,
    inner::Inner,
    limits,
    runs::{Claim, Taken},
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
        let policy = set.spec.0.retry.as_ref().unwrap_or(&self.options.retry);
        let attempts = if broken(Variant::RetriedForEver) {
            1
        } else {
            claim.attempts
        };
        let wait = policy.wait(attempts).filter(|_| !failure.permanent);
        let due = Some(claim.due_at);
        if let Some((wait, most)) = wait {
            let mut wait = millis(wait);
            if self.options.jitter {
                let key = self.key(claim.id, &set.name, claim.due_at);
                let parts = [key.as_bytes(), &claim.attempts.to_le_bytes()];
                wait = jittered(wait, most, &parts);
            }
            if broken(Variant::RetriedAtOnce) {
                wait = 0;
            }
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
