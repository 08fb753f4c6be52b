//! The schedule's tables.
//!
//! Contract: everything is part of the poll's transaction, and the cost of a statement does not grow with the number of
//! timers, except for the few marked ones. A run that waits or has failed belongs to its timer's current spec; a
//! claimed run may belong to an earlier generation, or to a timer that is gone.

use abide::{Ctx, Error, ErrorKind, Result, Storage};
use abide_component::tables::TablesSql;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use super::{limits, schema};

/// The tables of one schedule.
pub(super) struct Rows {
    pub(super) storage: Storage,
    pub(super) sql: TablesSql,
    /// Rows that the history may have.
    pub(super) history: i64,
}

impl Rows {
    /// Creates the tables unless they exist.
    pub(super) fn open(ctx: &Ctx, history: i64) -> Result<Self> {
        Ok(Self {
            sql: schema::open(ctx)?,
            storage: ctx.storage().clone(),
            history,
        })
    }

    /// Whether there is anything to do or to keep: timers that go off, and occurrences that wait for an operator.
    pub(super) fn hold_work(&self) -> Result<bool> {
        self.sql
            .exec(
                "SELECT EXISTS (SELECT 1 FROM schedule_runs)
                     OR EXISTS (SELECT 1 FROM schedule_timers WHERE due_at IS NOT NULL OR fire_at IS NOT NULL)",
                (),
            )?
            .one()
    }

    /// When the first timer or retry is due, and whether a run is claimed.
    pub(super) fn next(&self) -> Result<(Option<i64>, bool)> {
        let (timer, run, taken): (i64, i64, bool) = self
            .sql
            .exec(
                "SELECT min(coalesce((SELECT min(fire_at) FROM schedule_timers WHERE fire_at IS NOT NULL AND turn = 0), ?1),
                            coalesce((SELECT fire_at FROM schedule_timers WHERE fire_at IS NOT NULL AND turn > 0
                                      ORDER BY turn LIMIT 1), ?1)),
                        min(coalesce((SELECT min(fire_at) FROM schedule_runs WHERE fire_at IS NOT NULL AND behind = 0), ?1),
                            coalesce((SELECT min(fire_at) FROM schedule_runs WHERE fire_at IS NOT NULL AND behind = 1), ?1)),
                        EXISTS (SELECT 1 FROM schedule_runs INDEXED BY schedule_runs_taken
                                WHERE state IN ('claimed', 'running'))",
                (i64::MAX,),
            )?
            .one()?;
        let first = Some(timer.min(run)).filter(|at| *at < i64::MAX);
        Ok((first, taken))
    }

    /// After an occurrence has finished: an occurrence that waited for it is looked at, and a timer without another one
    /// is finished.
    pub(super) fn rest(&self, timer: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE schedule_timers SET fire_at = due_at WHERE id = ?1 AND fire_at IS NULL AND due_at IS NOT NULL",
            (timer,),
        )?;
        self.sql.exec(
            "UPDATE schedule_timers SET ended_at = ?2 WHERE id = ?1 AND due_at IS NULL AND ended_at IS NULL
                 AND NOT EXISTS (SELECT 1 FROM schedule_runs WHERE timer = ?1)",
            (timer, now),
        )?;
        Ok(())
    }

    /// Removes timers that finished before a time, or are too many, some at a time.
    pub(super) fn sweep(&self, before: i64) -> Result<()> {
        const FORGET: &str = "DELETE FROM schedule_timers WHERE id IN
            (SELECT id FROM schedule_timers WHERE ended_at <= ?1 ORDER BY ended_at LIMIT ?2)";
        let ended: i64 = self
            .sql
            .exec("SELECT ended FROM schedule_meta", ())?
            .one()?;
        if ended == 0 {
            return Ok(());
        }
        self.sql.exec(FORGET, (before, limits::MAX_SWEPT))?;
        let many = (ended - limits::MAX_ENDED).min(limits::MAX_SWEPT);
        if many > 0 {
            self.sql.exec(FORGET, (i64::MAX, many))?;
        }
        Ok(())
    }

    /// The sum of the steps back of the wall clock with which the times are stored.
    pub(super) fn set_back(&self) -> Result<i64> {
        self.sql
            .exec("SELECT set_back FROM schedule_meta", ())?
            .one()
    }

    pub(super) fn save_set_back(&self, sum: i64) -> Result<()> {
        self.sql
            .exec("UPDATE schedule_meta SET set_back = ?1", (sum,))?;
        Ok(())
    }
}

/// A value that a column has as JSON.
#[derive(Clone, Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Json<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        serde_json::from_str(&text)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

impl<T: Serialize> Json<T> {
    pub(super) fn text(&self) -> Result<String> {
        serde_json::to_string(&self.0)
            .map_err(|error| Error::with_kind(ErrorKind::Input, error.to_string()))
    }
}
