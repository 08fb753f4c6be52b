//! Timers as rows: their specs, and their next occurrences.

use abide::{Result, ToSql};
use serde::Deserialize;

use super::{
    Phase, Spec, Timer,
    rows::{Json, Rows},
};
use abide_component::numbers::rows as count;

/// The columns of a [`Set`].
const SET: &str = "id, name, spec, generation, source, anchor, due_at, queued, turn > 0 AS behind, ended_at IS NOT NULL AS ended";

/// A timer's row.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Set {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) spec: Json<Spec>,
    /// Increases when the timer is replaced: runs of earlier generations no longer belong to it.
    pub(super) generation: i64,
    /// The object and the timeline on which it was set like this.
    pub(super) source: String,
    /// The start of its intervals.
    pub(super) anchor: i64,
    /// The next occurrence.
    pub(super) due_at: Option<i64>,
    /// True if that waited for the previous one, and goes off however late it is.
    pub(super) queued: bool,
    /// True if the timer catches up.
    pub(super) behind: bool,
    /// True if it will not go off any more.
    pub(super) ended: bool,
}

/// The next occurrence of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) due_at: Option<i64>,
    /// When to look at it. `None`: when the previous one has finished.
    pub(super) fire_at: Option<i64>,
    pub(super) queued: bool,
    /// True if the timer catches up: it goes to the end of the line of those that do.
    pub(super) behind: bool,
}

impl Plan {
    /// A next occurrence, at its time. If that has come already, the timer catches up.
    pub(super) fn at(due_at: Option<i64>, now: i64) -> Self {
        Self {
            due_at,
            fire_at: due_at,
            queued: false,
            behind: due_at.is_some_and(|at| at <= now),
        }
    }

    /// An occurrence that waits for the previous one.
    pub(super) fn held(due_at: i64, queued: bool, behind: bool) -> Self {
        Self {
            due_at: Some(due_at),
            fire_at: None,
            queued,
            behind,
        }
    }
}

impl Rows {
    pub(super) fn named(&self, name: &str) -> Result<Option<Set>> {
        self.find("name", name)
    }

    pub(super) fn with_id(&self, id: i64) -> Result<Option<Set>> {
        self.find("id", id)
    }

    fn find(&self, column: &str, value: impl ToSql) -> Result<Option<Set>> {
        self.sql
            .exec(
                &format!("SELECT {SET} FROM schedule_timers WHERE {column} = ?1"),
                (value,),
            )?
            .optional()
    }

    /// Timers that are due for the first time, first due first.
    pub(super) fn due(&self, now: i64, limit: usize) -> Result<Vec<Set>> {
        self.sql
            .exec(
                &format!(
                    "SELECT {SET} FROM schedule_timers WHERE fire_at <= ?1 AND turn = 0 ORDER BY fire_at LIMIT ?2"
                ),
                (now, count(limit)),
            )?
            .all()
    }

    /// Timers that catch up, in turn.
    pub(super) fn behind(&self, limit: usize) -> Result<Vec<Set>> {
        self.sql
            .exec(
                &format!(
                    "SELECT {SET} FROM schedule_timers WHERE fire_at IS NOT NULL AND turn > 0 ORDER BY turn LIMIT ?1"
                ),
                (count(limit),),
            )?
            .all()
    }

    /// Timers whose times a clock that is set back changes: those that repeat, and those that are set for a time after
    /// now. Looks at every timer.
    pub(super) fn movable(&self) -> Result<Vec<Set>> {
        let mut sets: Vec<Set> = self
            .sql
            .exec(
                &format!("SELECT {SET} FROM schedule_timers WHERE due_at IS NOT NULL"),
                (),
            )?
            .all()?;
        sets.retain(|set| {
            let timing = &set.spec.0.timing;
            timing.repeats() || timing.is_relative()
        });
        Ok(sets)
    }

    /// The number of active timers.
    pub(super) fn count(&self) -> Result<i64> {
        self.sql.exec("SELECT timers FROM schedule_meta", ())?.one()
    }

    pub(super) fn insert(
        &self,
        (name, source): (&str, &str),
        spec: &Spec,
        anchor: i64,
        due_at: Option<i64>,
        now: i64,
    ) -> Result<()> {
        self.sql.exec(
            "INSERT INTO schedule_timers (name, source, spec, anchor, due_at, fire_at, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?6)",
            (name, source, Json(spec).text()?, anchor, due_at, now),
        )?;
        Ok(())
    }

    /// Replaces a timer: its waiting and failed runs are dropped.
    pub(super) fn replace(
        &self,
        (id, source): (i64, &str),
        spec: &Spec,
        anchor: i64,
        due_at: Option<i64>,
        now: i64,
    ) -> Result<()> {
        self.drop_runs(id)?;
        self.sql.exec(
            "UPDATE schedule_timers SET spec = ?2, generation = generation + 1, source = ?6, last_due = NULL, repeated = 0,
                 anchor = ?3, due_at = ?4, fire_at = ?4, queued = 0, turn = 0, ended_at = NULL, updated_at = ?5
             WHERE id = ?1",
            (id, Json(spec).text()?, anchor, due_at, now, source),
        )?;
        Ok(())
    }

    /// Removes a timer, with its waiting and failed runs.
    pub(super) fn remove(&self, id: i64) -> Result<()> {
        self.drop_runs(id)?;
        self.sql
            .exec("DELETE FROM schedule_timers WHERE id = ?1", (id,))?;
        Ok(())
    }

    pub(super) fn plan(&self, id: i64, plan: Plan) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_timers SET due_at = ?2, fire_at = ?3, queued = ?4,
                 turn = iif(?5, (SELECT coalesce(max(turn), 0) + 1 FROM schedule_timers WHERE fire_at IS NOT NULL AND turn > 0), 0)
             WHERE id = ?1",
            (id, plan.due_at, plan.fire_at, plan.queued, plan.behind),
        )?;
        Ok(())
    }

    /// The clock was set back: whether a timer catches up is decided when its time has come.
    pub(super) fn none_is_behind(&self) -> Result<()> {
        self.sql
            .exec("UPDATE schedule_timers SET turn = 0 WHERE turn > 0", ())?;
        Ok(())
    }

    /// A finished timer goes off once more.
    pub(super) fn reopen(&self, id: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_timers SET ended_at = NULL WHERE id = ?1 AND ended_at IS NOT NULL",
            (id,),
        )?;
        Ok(())
    }

    /// Sets the anchor of a repeating timer, and its next time. One that waits for its previous occurrence continues
    /// to.
    pub(super) fn reset(&self, id: i64, anchor: i64, due_at: Option<i64>) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_timers SET anchor = ?2, due_at = ?3, fire_at = iif(fire_at IS NULL, NULL, ?3) WHERE id = ?1",
            (id, anchor, due_at),
        )?;
        Ok(())
    }

    pub(super) fn timer(&self, name: &str) -> Result<Option<Timer>> {
        Ok(self.timers("name = ?1", (name, 1))?.pop())
    }

    /// Timers whose name comes after another.
    pub(super) fn timers_after(&self, name: &str, limit: i64) -> Result<Vec<Timer>> {
        self.timers("name > ?1", (name, limit))
    }

    fn timers(&self, which: &str, params: (&str, i64)) -> Result<Vec<Timer>> {
        type Row = (
            i64,
            String,
            Json<Spec>,
            i64,
            Option<i64>,
            i64,
            i64,
            Option<i64>,
        );
        let rows: Vec<Row> = self
            .sql
            .exec(
                &format!(
                    "SELECT id, name, spec, generation, due_at, created_at, updated_at, ended_at
                     FROM schedule_timers WHERE {which} ORDER BY name LIMIT ?2"
                ),
                params,
            )?
            .all()?;
        rows.into_iter()
            .map(|row| {
                let (id, name, Json(spec), generation, due_at, created_at, updated_at, ended_at) =
                    row;
                let run = self.newest_run(id, generation)?;
                let phase = match (&run, ended_at) {
                    (Some(run), _) => run.phase,
                    (None, Some(_)) => Phase::Ended,
                    (None, None) => Phase::Waiting,
                };
                Ok(Timer {
                    name,
                    spec,
                    phase,
                    due_at,
                    run,
                    created_at,
                    updated_at,
                    ended_at,
                })
            })
            .collect()
    }
}
