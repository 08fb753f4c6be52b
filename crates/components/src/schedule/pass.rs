//! Passes: due occurrences become runs, and runs are claimed.

use abide::Result;

use super::{
    Firing, Misfire, Overlap, Spec,
    inner::{Inner, key},
    limits, metrics,
    runs::{Claim, Taken},
    timers::{Plan, Set},
};
use abide_component::numbers::millis;
use abide_component::suspects::MayBegin;

impl Inner {
    /// Claims due runs, at most `limit`, each with one attempt more.
    ///
    /// Timers whose occurrence is due for the first time go before those that catch up, which get a share of the
    /// claims and take turns.
    pub(super) fn pass(
        &self,
        taken: Taken,
        limit: usize,
        in_flight: usize,
        now: i64,
    ) -> Result<Vec<Claim>> {
        self.rows.storage.transaction(|| {
            self.mind_clock(now)?;
            self.go_on_all(now)?;
            for set in self.rows.due(now, limits::MAX_CLAIMS)? {
                self.go_off(&set, now)?;
            }
            // What has gone off and waits is enough.
            let ready = self.rows.waiting(true, now, limits::MAX_CLAIMS)?.len();
            for set in self.rows.behind(limits::MAX_CLAIMS - ready)? {
                self.go_off(&set, now)?;
            }
            self.rows
                .sweep(now.saturating_sub(millis(self.options.keep_ended)))?;
            let runs = self.next_runs(limit, in_flight, now)?;
            self.rows.take(taken, &runs, now)
        })
    }

    /// The runs to be claimed next.
    fn next_runs(&self, limit: usize, in_flight: usize, now: i64) -> Result<Vec<i64>> {
        let suspect = self.rows.suspect(now)?;
        match self.suspects.next(suspect, in_flight == 0, now) {
            MayBegin::Suspect(run) => Ok(vec![run]),
            MayBegin::Others => self.shared(limit, now),
            MayBegin::Nothing => Ok(Vec::new()),
        }
    }

    /// Due runs: first those that are due for the first time, but for the share of those that catch up.
    fn shared(&self, limit: usize, now: i64) -> Result<Vec<i64>> {
        let mut runs = self.rows.waiting(false, now, limit)?;
        let mut behind = self.rows.waiting(true, now, limit)?;
        let claimed = self.claimed.get();
        let kept =
            claimed.wrapping_add(limit) / limits::CATCH_UP_SHARE - claimed / limits::CATCH_UP_SHARE;
        behind.truncate(kept.max(limit - runs.len()));
        runs.truncate(limit - behind.len());
        runs.append(&mut behind);
        self.claimed
            .set(claimed.wrapping_add(runs.len()) % (1 << 16));
        Ok(runs)
    }

    /// A timer's next occurrence is due, or no longer has to wait for the previous one.
    fn go_off(&self, set: &Set, now: i64) -> Result<()> {
        let Some(due) = set.due_at else {
            return self.rows.plan(set.id, Plan::at(None, now));
        };
        if set.behind && due > now {
            // The clock was set back.
            let queued = set.queued;
            return self.rows.plan(
                set.id,
                Plan {
                    queued,
                    ..Plan::at(Some(due), now)
                },
            );
        }
        let spec = &set.spec.0;
        // A computed later one is not due yet, and there is no other.
        let last = spec.timing.last(set.anchor, due, now).unwrap_or(due);
        let is_late = |at: i64| now.saturating_sub(at) > millis(self.options.grace);
        let misfire = spec.misfire;
        let chosen = match misfire {
            Misfire::All => due,
            Misfire::Skip if is_late(last) && !set.queued => {
                self.rows
                    .note(&set.name, "missed", Some(due), Some("too late"), now)?;
                self.plan_after(set, last, now)?;
                return self.rows.rest(set.id, now);
            }
            Misfire::Once | Misfire::Skip => last,
        };
        if may_overlap(spec) || !self.rows.is_busy(set)? {
            if chosen > due {
                self.rows.note(
                    &set.name,
                    "missed",
                    Some(due),
                    Some("it and those before the next that goes off"),
                    now,
                )?;
            }
            self.rows.begin(set, chosen, now)?;
            return self.plan_after(set, chosen, now);
        }
        let all = misfire == Misfire::All;
        let waits = spec.overlap == Overlap::Queue || (all && is_late(due));
        if waits {
            return self.rows.plan(set.id, Plan::held(due, !all, set.behind));
        }
        let detail = "the previous one has not finished";
        self.rows
            .note(&set.name, "skipped", Some(chosen), Some(detail), now)?;
        self.plan_after(set, chosen, now)
    }

    /// What the handler receives. `None` if the timer was replaced or canceled since the run was claimed: then the run
    /// is dropped.
    pub(super) fn firing(&self, claim: &Claim, now: i64) -> Result<Option<Firing>> {
        let Some(set) = self.current(claim)? else {
            self.drop_stale(claim, now)?;
            return Ok(None);
        };
        if claim.attempts == 1 {
            metrics::begun(now.saturating_sub(claim.due_at));
        }
        Ok(Some(Firing {
            key: key(&set, claim),
            timer: set.name,
            kind: set.spec.0.kind,
            metadata: set.spec.0.metadata,
            due_at: claim.due_at,
            attempt: claim.attempts,
        }))
    }

    /// The timer of a run, if it was not replaced.
    pub(super) fn current(&self, claim: &Claim) -> Result<Option<Set>> {
        let set = self.rows.with_id(claim.timer)?;
        Ok(set.filter(|set| set.generation == claim.generation))
    }

    /// Drops a run whose timer is gone.
    pub(super) fn drop_stale(&self, claim: &Claim, now: i64) -> Result<()> {
        self.rows.end(claim.id)?;
        if let Some(set) = self.rows.with_id(claim.timer)? {
            let detail = "the timer was replaced meanwhile";
            self.rows
                .note(&set.name, "dropped", Some(claim.due_at), Some(detail), now)?;
            self.rows.rest(set.id, now)?;
        }
        Ok(())
    }
}

/// True if an occurrence need not wait for the end of the one before.
fn may_overlap(spec: &Spec) -> bool {
    spec.overlap == Overlap::Allow
}
