//! A timer's next time. If it cannot be computed, the timer has failed: this is reported, and the computation is
//! retried.

use abide::Result;

use super::{
    inner::Inner,
    limits,
    runs::Claim,
    timers::{Plan, Set},
};
use abide_component::texts::cut;
use abide_component::{doubled, numbers::millis};

impl Inner {
    /// Plans a timer's next occurrence after one.
    pub(super) fn plan_after(&self, set: &Set, occurrence: i64, now: i64) -> Result<()> {
        let problem = match set.spec.0.timing.after(set.anchor, occurrence) {
            Ok(next) => return self.rows.plan(set.id, Plan::at(next, now)),
            Err(problem) => cut(problem, limits::MAX_ERROR_BYTES),
        };
        self.rows.plan(set.id, Plan::at(None, now))?;
        warn(set, &problem);
        let at = now.saturating_add(wait(0));
        self.rows.stick(set, occurrence, at, &problem, now)?;
        self.rows
            .note(&set.name, "failed", Some(occurrence), Some(&problem), now)
    }

    /// Retries the computation of unknown next occurrences.
    pub(super) fn go_on_all(&self, now: i64) -> Result<()> {
        for stuck in self.rows.stuck_until(now, limits::MAX_CLAIMS)? {
            match self.current(&stuck)? {
                Some(set) => drop(self.go_on(&set, &stuck, now)?),
                None => self.rows.end(stuck.id)?,
            }
        }
        Ok(())
    }

    /// Retries the computation of a timer's next occurrence. Returns true if it is known now, otherwise the error.
    pub(super) fn go_on(&self, set: &Set, stuck: &Claim, now: i64) -> Result<Result<bool, String>> {
        let problem = match set.spec.0.timing.after(set.anchor, stuck.due_at) {
            Ok(next) => {
                self.rows.end(stuck.id)?;
                self.rows.plan(set.id, Plan::at(next, now))?;
                self.rows.rest(set.id, now)?;
                return Ok(Ok(true));
            }
            Err(problem) => cut(problem, limits::MAX_ERROR_BYTES),
        };
        warn(set, &problem);
        let at = now.saturating_add(wait(stuck.attempts));
        self.rows.stick_until(stuck, at, &problem, now)?;
        Ok(Err(problem))
    }
}

/// How long until an unknown next time is computed again, after this many failures.
fn wait(attempts: u32) -> i64 {
    millis(doubled(limits::PLAN_WAIT, limits::MAX_PLAN_WAIT, attempts))
}

fn warn(set: &Set, problem: &str) {
    tracing::error!(
        timer = set.name,
        error = problem,
        "a timer has failed: its next time is unknown"
    );
}
