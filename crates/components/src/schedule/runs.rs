//! Runs as rows: occurrences that have gone off and have not finished, or have failed.
//!
//! A failed row with a time belongs to a timer whose next occurrence is unknown: it is computed again at that time.

use abide::Result;
use serde::Deserialize;

use super::{Run, limits, rows::Rows, timers::Set};
use abide_component::numbers::rows as count;

/// The columns of a [`Run`].
const RUN: &str = "r.id, t.name AS timer, r.due_at, CASE WHEN r.state = 'failed' THEN 'failed'
     WHEN r.state = 'waiting' AND r.attempts > 0 THEN 'retrying' ELSE 'running' END AS phase, r.fire_at, r.attempts, r.last_error";

/// A claimed run: only its claimer changes its row.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claim {
    pub(super) id: i64,
    pub(super) timer: i64,
    pub(super) generation: i64,
    pub(super) due_at: i64,
    /// Distinguishes occurrences of one time.
    pub(super) number: i64,
    /// Attempts, with those that were throttled.
    pub(super) attempts: u32,
    pub(super) throttled: u32,
    /// Since when each attempt was throttled.
    pub(super) throttled_since: Option<i64>,
    /// True if nothing else is in flight.
    pub(super) alone: bool,
}

/// The columns of a [`Claim`].
const CLAIM: &str =
    "id, timer, generation, due_at, number, attempts, throttled, throttled_since, alone";

impl Claim {
    /// Attempts that count.
    pub(super) fn counted(&self) -> u32 {
        self.attempts.saturating_sub(self.throttled)
    }
}

/// How a run is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// With others, which are handled one at a time.
    Claimed,
    /// It runs concurrently with others.
    Running,
}

/// The next attempt at a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry<'a> {
    pub(super) at: i64,
    pub(super) error: &'a str,
    /// True if nothing else is to be in flight with it.
    pub(super) alone: bool,
    /// True if the attempt before it does not count.
    pub(super) throttled: bool,
}

impl Taken {
    fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Running => "running",
        }
    }
}

impl Rows {
    /// A planned occurrence goes off and can be claimed at once.
    pub(super) fn begin(&self, set: &Set, due_at: i64, now: i64) -> Result<()> {
        // Its number does not depend on those before it, which may be others after a restore. Only a clock that was set
        // back brings a time again.
        let again = "UPDATE schedule_timers SET repeated = repeated + coalesce(last_due >= ?2, 0), last_due = ?2
                     WHERE id = ?1 RETURNING repeated";
        let repeated: i64 = self.sql.exec(again, (set.id, due_at))?.one()?;
        self.add(set, due_at, repeated, now)
    }

    /// A timer goes off because someone has asked for it.
    pub(super) fn begin_asked(&self, set: &Set, now: i64) -> Result<()> {
        self.add(set, now, 0, now)?;
        let number = "UPDATE schedule_runs SET number = -id WHERE id = last_insert_rowid()";
        self.sql.exec(number, ()).map(drop)
    }

    fn add(&self, set: &Set, due_at: i64, number: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "INSERT INTO schedule_runs (timer, generation, due_at, number, state, fire_at, behind, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?6, 'waiting', ?4, ?5, ?4, ?4)",
            (set.id, set.generation, due_at, now, set.behind, number),
        )?;
        Ok(())
    }

    /// True if an occurrence of a timer has not finished.
    pub(super) fn is_busy(&self, set: &Set) -> Result<bool> {
        self.sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM schedule_runs
                 WHERE timer = ?1 AND state IN ('waiting', 'claimed', 'running') AND generation = ?2)",
                (set.id, set.generation),
            )?
            .one()
    }

    /// Due runs, first due first: those that catch up, or the others; without those that are to be attempted alone.
    pub(super) fn waiting(&self, behind: bool, now: i64, limit: usize) -> Result<Vec<i64>> {
        self.sql
            .exec(
                "SELECT id FROM schedule_runs WHERE behind = ?1 AND fire_at <= ?2 AND state = 'waiting' AND alone = 0
                 ORDER BY fire_at, id LIMIT ?3",
                (behind, now, count(limit)),
            )?
            .all()
    }

    /// The first due run that is to be attempted alone.
    pub(super) fn suspect(&self, now: i64) -> Result<Option<i64>> {
        self.sql
            .exec(
                "SELECT id FROM schedule_runs WHERE alone = 1 AND fire_at <= ?1 AND state = 'waiting' ORDER BY fire_at, id LIMIT 1",
                (now,),
            )?
            .optional()
    }

    /// Claims runs, each with one attempt more.
    pub(super) fn take(&self, taken: Taken, runs: &[i64], now: i64) -> Result<Vec<Claim>> {
        let mut claims: Vec<Claim> = Vec::with_capacity(runs.len());
        for run in runs {
            let claim = self.sql.exec(
                &format!(
                    "UPDATE schedule_runs SET state = ?1, attempts = attempts + 1, fire_at = NULL, updated_at = ?2
                     WHERE id = ?3 RETURNING {CLAIM}"
                ),
                (taken.as_str(), now, run),
            )?;
            claims.push(claim.one()?);
        }
        claims.sort_by_key(|claim| claim.id);
        Ok(claims)
    }

    /// The claimed runs, in the order in which they are handled.
    pub(super) fn taken(&self, taken: Taken) -> Result<Vec<Claim>> {
        self.sql
            .exec(
                &format!(
                    "SELECT {CLAIM} FROM schedule_runs INDEXED BY schedule_runs_taken
                     WHERE state IN ('claimed', 'running') AND state = ?1 ORDER BY id"
                ),
                (taken.as_str(),),
            )?
            .all()
    }

    /// Releases a claimed run that was not started, without counting an attempt. Its next one is made alone if it is a
    /// suspect.
    pub(super) fn give_back(&self, claim: &Claim, alone: bool, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_runs SET state = 'waiting', fire_at = ?2, attempts = attempts - 1, alone = ?3, updated_at = ?2 WHERE id = ?1",
            (claim.id, now, alone),
        )?;
        Ok(())
    }

    /// An attempt has failed, and another follows.
    pub(super) fn retry(&self, claim: &Claim, retry: &Retry<'_>, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_runs SET state = 'waiting', fire_at = ?2, last_error = ?3, alone = ?4, throttled = throttled + ?5,
                 throttled_since = iif(?5, coalesce(throttled_since, ?6), NULL), updated_at = ?6
             WHERE id = ?1",
            (claim.id, retry.at, retry.error, retry.alone, retry.throttled, now),
        )?;
        Ok(())
    }

    /// Stores a run as failed. The oldest failed runs of its timer are dropped if there are too many.
    pub(super) fn fail(&self, claim: &Claim, error: &str, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_runs SET state = 'failed', last_error = ?2, updated_at = ?3 WHERE id = ?1",
            (claim.id, error, now),
        )?;
        self.sql.exec(
            "DELETE FROM schedule_runs WHERE id IN
                 (SELECT id FROM schedule_runs WHERE timer = ?1 AND state = 'failed' AND fire_at IS NULL ORDER BY id DESC LIMIT -1 OFFSET ?2)",
            (claim.timer, limits::MAX_FAILED),
        )?;
        Ok(())
    }

    /// A timer's next occurrence after one is unknown. It is computed again at a time.
    pub(super) fn stick(
        &self,
        set: &Set,
        due_at: i64,
        at: i64,
        problem: &str,
        now: i64,
    ) -> Result<()> {
        self.sql.exec(
            "INSERT INTO schedule_runs (timer, generation, due_at, state, fire_at, last_error, created_at, updated_at)
             VALUES (?1, ?2, ?3, 'failed', ?4, ?5, ?6, ?6)",
            (set.id, set.generation, due_at, at, problem, now),
        )?;
        Ok(())
    }

    /// The computation of a timer's next occurrence failed again.
    pub(super) fn stick_until(
        &self,
        stuck: &Claim,
        at: i64,
        problem: &str,
        now: i64,
    ) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_runs SET attempts = attempts + 1, fire_at = ?2, last_error = ?3, updated_at = ?4 WHERE id = ?1",
            (stuck.id, at, problem, now),
        )?;
        Ok(())
    }

    /// The occurrence after which a timer's next one is unknown.
    pub(super) fn stuck(&self, timer: i64) -> Result<Option<Claim>> {
        self.sql
            .exec(
                &format!(
                    "SELECT {CLAIM} FROM schedule_runs WHERE timer = ?1 AND state = 'failed' AND fire_at IS NOT NULL"
                ),
                (timer,),
            )?
            .optional()
    }

    /// Timers whose next occurrence is to be computed again.
    pub(super) fn stuck_until(&self, now: i64, limit: usize) -> Result<Vec<Claim>> {
        self.sql
            .exec(
                &format!(
                    "SELECT {CLAIM} FROM schedule_runs WHERE behind = 0 AND fire_at <= ?1 AND state = 'failed'
                     ORDER BY fire_at LIMIT ?2"
                ),
                (now, count(limit)),
            )?
            .all()
    }

    /// Removes a run.
    pub(super) fn end(&self, run: i64) -> Result<()> {
        self.sql
            .exec("DELETE FROM schedule_runs WHERE id = ?1", (run,))?;
        Ok(())
    }

    /// Removes the waiting and failed runs of a timer.
    pub(super) fn drop_runs(&self, timer: i64) -> Result<()> {
        self.sql.exec(
            "DELETE FROM schedule_runs WHERE timer = ?1 AND state IN ('waiting', 'failed')",
            (timer,),
        )?;
        Ok(())
    }

    /// Retries all failed runs of a timer, with fresh counts of attempts. False if there are none.
    pub(super) fn revive(&self, timer: i64, now: i64) -> Result<bool> {
        let revived = self.sql.exec(
            "UPDATE schedule_runs SET state = 'waiting', fire_at = ?2, attempts = 0, throttled = 0, throttled_since = NULL, alone = 0, behind = 0,
                 created_at = ?2, updated_at = ?2
             WHERE timer = ?1 AND state = 'failed' AND fire_at IS NULL",
            (timer, now),
        )?;
        Ok(revived.rows_written() > 0)
    }

    /// Removes all failed runs of a timer. False if there are none.
    pub(super) fn discard(&self, timer: i64) -> Result<bool> {
        let discarded = self.sql.exec(
            "DELETE FROM schedule_runs WHERE timer = ?1 AND state = 'failed'",
            (timer,),
        )?;
        Ok(discarded.rows_written() > 0)
    }

    /// Moves retries earlier, by how far the clock was set back.
    pub(super) fn pull_retries(&self, by: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_runs SET fire_at = max(?2, fire_at - ?1) WHERE fire_at > ?2",
            (by, now),
        )?;
        Ok(())
    }

    pub(super) fn newest_run(&self, timer: i64, generation: i64) -> Result<Option<Run>> {
        self.sql
            .exec(
                &format!(
                    "SELECT {RUN} FROM schedule_runs r JOIN schedule_timers t ON t.id = r.timer
                     WHERE r.id = (SELECT max(id) FROM schedule_runs WHERE timer = ?1 AND generation = ?2)"
                ),
                (timer, generation),
            )?
            .optional()
    }

    /// Runs that have failed, oldest first, whose id is higher than another.
    pub(super) fn failed(&self, after: i64, limit: i64) -> Result<Vec<Run>> {
        self.sql
            .exec(
                &format!(
                    "SELECT {RUN} FROM schedule_runs r INDEXED BY schedule_runs_failed
                     JOIN schedule_timers t ON t.id = r.timer
                     WHERE r.state = 'failed' AND r.id > ?1 ORDER BY r.id LIMIT ?2"
                ),
                (after, limit),
            )?
            .all()
    }
}
