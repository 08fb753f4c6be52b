//! The stored state of an instance, and its changes.
//!
//! Contract: each function is one change of the tables, atomic within the transaction of the current poll.

use abide::{Result, Sql, Storage};
use serde::Deserialize;

use super::{
    Failure, InstanceRecord, Status, StepKind, StepName, StepRecord, StepState, failure,
    notice::Parent, schema,
};

/// The single row of `workflow_instance`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Instance {
    pub(super) workflow: String,
    pub(super) id: String,
    pub(super) status: Status,
    pub(super) run: i64,
    /// Why it is being canceled.
    pub(super) cancel: Option<String>,
    /// The position of the cancellation in the order of results.
    pub(super) canceled_seq: Option<i64>,
    pub(super) error: Option<String>,
    /// Its parent: a [`Parent`] as JSON.
    pub(super) parent: Option<String>,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) finished_at: Option<i64>,
    /// Increases with each change of the status.
    pub(super) version: i64,
    /// The newest version that the directory has.
    pub(super) told: i64,
    /// When its history began: at its start, or when it last continued as new.
    pub(super) began_at: i64,
    /// The sum of the steps back of the wall clock with which the waits are stored.
    pub(super) set_back: i64,
}

impl Instance {
    pub(super) fn record(self) -> InstanceRecord {
        let parent = self.parent.and_then(|parent| {
            let parent: Parent = serde_json::from_str(&parent).ok()?;
            Some(parent.id)
        });
        InstanceRecord {
            workflow: self.workflow,
            id: self.id,
            status: self.status,
            run: self.run,
            error: self.error,
            cancel: self.cancel,
            parent,
            created_at: self.created_at,
            updated_at: self.updated_at,
            finished_at: self.finished_at,
        }
    }
}

/// A step, as a replay needs it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct StepRow {
    pub(super) id: i64,
    pub(super) name: String,
    /// Which use of its name it is, from 1.
    pub(super) occurrence: u32,
    pub(super) kind: StepKind,
    pub(super) asked: i64,
    pub(super) state: StepState,
    pub(super) attempts: u32,
    pub(super) key_run: i64,
    pub(super) due: Option<i64>,
    /// True if `due` is an absolute time.
    pub(super) fixed: bool,
    pub(super) seq: Option<i64>,
    /// The event that it has consumed.
    pub(super) event: Option<i64>,
    /// The id of its child.
    pub(super) child: Option<String>,
    /// Why it waits for another attempt, or has one: a [`Setback`](super::setback::Setback) as JSON.
    pub(super) setback: Option<String>,
    pub(super) finished_at: Option<i64>,
}

const STEP_ROW: &str = "id, name, occurrence, kind, asked, state, attempts, key_run, due, fixed, seq, event, child, \
     CASE WHEN state IN ('waiting', 'running') THEN error END AS setback, finished_at";

impl StepRow {
    /// Its stored name.
    pub(super) fn step(&self) -> StepName {
        StepName {
            name: self.name.clone(),
            occurrence: self.occurrence,
        }
    }

    /// True if its result is stored.
    pub(super) fn has_result(&self) -> bool {
        matches!(self.state, StepState::Done | StepState::Failed)
    }
}

/// The final state of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome<'a> {
    pub(super) state: StepState,
    pub(super) output: Option<&'a str>,
    pub(super) error: Option<&'a str>,
}

/// An unconsumed event, or a child's result.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct EventRow {
    pub(super) id: i64,
    pub(super) kind: StepKind,
    pub(super) name: String,
    pub(super) at: i64,
}

/// A notice to another object.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NoticeRow {
    pub(super) id: i64,
    pub(super) kind: String,
    pub(super) target: String,
    pub(super) payload: String,
    pub(super) attempts: u32,
}

/// The tables of an instance.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) storage: Storage,
    sql: Sql,
}

impl Rows {
    pub(super) fn new(storage: &Storage) -> Self {
        Self {
            storage: storage.clone(),
            sql: storage.sql(),
        }
    }

    /// The instance, if the object is one.
    pub(super) fn instance(&self) -> Result<Option<Instance>> {
        if !schema::exists(&self.storage)? {
            return Ok(None);
        }
        let row = self.sql.exec("SELECT * FROM workflow_instance", ())?;
        row.one().map(Some)
    }

    pub(super) fn start(
        &self,
        (workflow, id): (&str, &str),
        input: &str,
        parent: Option<&str>,
        now: i64,
    ) -> Result<()> {
        schema::create(&self.storage)?;
        let set_back = self.storage.clock_time().set_back;
        self.sql.exec(
            "INSERT INTO workflow_instance (tables, workflow, id, status, parent, created_at, updated_at, version, began_at, set_back)
             VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?5, ?5, ?5, ?6)",
            (schema::VERSION, workflow, id, parent, now, set_back),
        )?;
        self.set_value("input", Some(input))
    }

    pub(super) fn value(&self, name: &str) -> Result<Option<String>> {
        let sql = "SELECT value FROM workflow_values WHERE name = ?1";
        self.sql.exec(sql, (name,))?.optional()
    }

    pub(super) fn set_value(&self, name: &str, value: Option<&str>) -> Result<()> {
        match value {
            Some(value) => self.sql.exec(
                "INSERT INTO workflow_values VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value",
                (name, value),
            )?,
            None => self
                .sql
                .exec("DELETE FROM workflow_values WHERE name = ?1", (name,))?,
        };
        Ok(())
    }

    /// Sets another status. Its version is above all that the directory has seen of this id.
    pub(super) fn set_status(&self, status: Status, error: Option<&str>, now: i64) -> Result<()> {
        let finished = status.is_end().then_some(now);
        self.sql.exec(
            "UPDATE workflow_instance SET status = ?1, error = ?2, updated_at = ?3, finished_at = ?4,
                 version = max(version + 1, ?3)",
            (status.as_str(), error, now, finished),
        )?;
        Ok(())
    }

    pub(super) fn set_cancel(&self, reason: Option<&str>) -> Result<()> {
        self.sql
            .exec("UPDATE workflow_instance SET cancel = ?1", (reason,))?;
        Ok(())
    }

    /// The cancellation takes effect, in the order of results.
    pub(super) fn set_canceled(&self, seq: Option<i64>, now: i64) -> Result<()> {
        self.sql
            .exec("UPDATE workflow_instance SET canceled_seq = ?1", (seq,))?;
        if seq.is_some() {
            self.sql.exec(
                "UPDATE workflow_steps SET state = 'canceled', finished_at = ?1
                 WHERE state IN ('new', 'running', 'waiting') AND shielded = 0",
                (now,),
            )?;
        }
        Ok(())
    }

    pub(super) fn set_run(&self, run: i64) -> Result<()> {
        self.sql
            .exec("UPDATE workflow_instance SET run = ?1", (run,))?;
        Ok(())
    }

    pub(super) fn set_told(&self, version: i64) -> Result<()> {
        self.sql
            .exec("UPDATE workflow_instance SET told = ?1", (version,))?;
        Ok(())
    }

    /// All steps, in the order in which they were requested.
    pub(super) fn steps(&self) -> Result<Vec<StepRow>> {
        let sql = format!("SELECT {STEP_ROW} FROM workflow_steps ORDER BY id");
        self.sql.exec(&sql, ())?.all()
    }

    /// A step by its name.
    pub(super) fn step(&self, step: &StepName) -> Result<Option<StepRow>> {
        let sql = format!(
            "SELECT {STEP_ROW} FROM workflow_steps WHERE (name = ?1 AND occurrence = ?2) OR (name = ?3 AND occurrence = 0)
             ORDER BY occurrence DESC"
        );
        let names = (&step.name, step.occurrence, step.to_string());
        self.sql.exec(&sql, names)?.optional()
    }

    /// Steps for people, after one of them.
    pub(super) fn history(&self, after: i64, limit: usize) -> Result<Vec<StepRecord>> {
        let sql = "SELECT id, name, max(occurrence, 1) AS occurrence, kind, state, attempts, seq,
                       CASE WHEN finished_at IS NULL THEN due END AS due, error, asked_at, started_at, finished_at
                   FROM workflow_steps WHERE id > ?1 ORDER BY id LIMIT ?2";
        let rows = self
            .sql
            .exec(sql, (after, i64::try_from(limit).unwrap_or(i64::MAX)))?;
        let mut steps: Vec<StepRecord> = rows.all()?;
        for step in &mut steps {
            let failure = step.error.as_deref().map(failure::from_json);
            step.failure = failure.as_ref().map(Failure::kind);
            step.error = failure.map(|failure| failure.message().to_owned());
        }
        Ok(steps)
    }

    /// Adds a step on its first request. It keeps the idempotency key that it had before a restart, if required, and
    /// with it the name from which the key was made.
    pub(super) fn ask(
        &self,
        step: &StepName,
        kind: StepKind,
        (shielded, asked): (bool, i64),
        now: i64,
    ) -> Result<StepRow> {
        let kept = "SELECT name, occurrence, run FROM workflow_keys AS k
                    WHERE ((name = ?1 AND occurrence = ?2) OR (name = ?3 AND occurrence = 0)) AND NOT EXISTS
                        (SELECT 1 FROM workflow_steps AS s WHERE s.name = k.name AND s.occurrence = k.occurrence)
                    ORDER BY occurrence DESC";
        let names = (&step.name, step.occurrence, step.to_string());
        let kept: Option<(String, u32, i64)> = self.sql.exec(kept, names)?.optional()?;
        let (name, occurrence, run) = match kept {
            Some((name, occurrence, run)) => (name, occurrence, Some(run)),
            None => (step.name.clone(), step.occurrence, None),
        };
        let sql = format!(
            "INSERT INTO workflow_steps (name, occurrence, kind, shielded, asked, state, key_run, asked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 'new', coalesce(?6, (SELECT run FROM workflow_instance)), ?7)
             RETURNING {STEP_ROW}"
        );
        let values = (name, occurrence, kind.as_str(), shielded, asked, run, now);
        self.sql.exec(&sql, values)?.one()
    }

    pub(super) fn wait(&self, step: i64, due: Option<i64>, error: Option<&str>) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'waiting', due = ?2, error = ?3 WHERE id = ?1",
            (step, due, error),
        )?;
        Ok(())
    }

    /// A step waits until an absolute time.
    pub(super) fn wait_until(&self, step: i64, due: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'waiting', due = ?2, fixed = 1 WHERE id = ?1",
            (step, due),
        )?;
        Ok(())
    }

    /// A step waits for an instance of a workflow.
    pub(super) fn wait_for_child(&self, step: i64, child: &str, workflow: &str) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'waiting', child = ?2, child_of = ?3 WHERE id = ?1",
            (step, child, workflow),
        )?;
        Ok(())
    }

    /// True if a step waits for this instance, and its result is unknown.
    pub(super) fn awaits_child(&self, child: &str) -> Result<bool> {
        let sql = "SELECT count(*) FROM workflow_steps WHERE child = ?1 AND state NOT IN ('done', 'failed')
                   AND NOT EXISTS (SELECT 1 FROM workflow_events WHERE kind = 'child' AND name = ?1)";
        Ok(self.sql.exec(sql, (child,))?.one::<i64>()? > 0)
    }

    /// An attempt begins.
    pub(super) fn begin(&self, step: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'running', due = NULL, attempts = attempts + 1, started_at = ?2 WHERE id = ?1",
            (step, now),
        )?;
        Ok(())
    }

    /// An attempt does not begin after all, and is due again.
    pub(super) fn unbegin(&self, step: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'waiting', due = ?2, attempts = max(attempts - 1, 0) WHERE id = ?1",
            (step, now),
        )?;
        Ok(())
    }

    /// A step has its result. The run receives it later.
    pub(super) fn store(&self, step: i64, outcome: Outcome<'_>, now: i64) -> Result<()> {
        // A wait for an event keeps its time, for a restart that makes the event available again.
        self.sql.exec(
            "UPDATE workflow_steps SET state = ?2, due = CASE kind WHEN 'event' THEN due END, output = ?3, error = ?4,
                 finished_at = ?5 WHERE id = ?1",
            (
                step,
                outcome.state.as_str(),
                outcome.output,
                outcome.error,
                now,
            ),
        )?;
        Ok(())
    }

    /// The run receives a step's result, at this position of the order and at this time.
    pub(super) fn give(&self, step: i64, seq: i64, time: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET seq = ?2, finished_at = ?3 WHERE id = ?1",
            (step, seq, time),
        )?;
        Ok(())
    }

    /// A step's state and result: its output, or its failure.
    pub(super) fn outcome(&self, step: i64) -> Result<(StepState, Option<String>, Option<String>)> {
        let sql = "SELECT s.state, coalesce(s.output, e.payload), s.error FROM workflow_steps AS s
                   LEFT JOIN workflow_events AS e ON e.id = s.event WHERE s.id = ?1";
        self.sql.exec(sql, (step,))?.one()
    }

    /// Ends steps without a result.
    pub(super) fn abandon(&self, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'canceled', due = NULL, finished_at = ?1
             WHERE state IN ('new', 'running', 'waiting')",
            (now,),
        )?;
        Ok(())
    }

    /// Instances that steps wait for: their workflows and ids. All, or that of one step.
    pub(super) fn open_children(&self, step: Option<i64>) -> Result<Vec<(String, String)>> {
        let sql = "SELECT child_of, child FROM workflow_steps
                   WHERE child IS NOT NULL AND state NOT IN ('done', 'failed') AND (?1 IS NULL OR id = ?1)";
        self.sql.exec(sql, (step,))?.all()
    }

    /// Removes a step. Its consumed event becomes available again.
    pub(super) fn remove(&self, step: i64) -> Result<()> {
        self.give_back(step)?;
        self.sql
            .exec("DELETE FROM workflow_steps WHERE id = ?1", (step,))?;
        Ok(())
    }

    /// Resets a step as if it had just been requested. Its consumed event becomes available again.
    pub(super) fn reset(&self, step: i64, key_run: i64) -> Result<()> {
        self.give_back(step)?;
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'new', attempts = 0, key_run = ?2, due = NULL, fixed = 0, seq = NULL,
                 event = NULL, child = NULL, output = NULL, error = NULL, started_at = NULL, finished_at = NULL
             WHERE id = ?1",
            (step, key_run),
        )?;
        Ok(())
    }

    /// Resets a result as if the run had not received it. A consumed event is awaited again: another step may request
    /// it first.
    pub(super) fn take_back(&self, step: i64) -> Result<()> {
        self.give_back(step)?;
        self.sql.exec(
            "UPDATE workflow_steps SET seq = NULL,
                 state = CASE WHEN event IS NULL THEN state ELSE 'waiting' END,
                 finished_at = CASE WHEN event IS NULL THEN finished_at END, event = NULL
             WHERE id = ?1",
            (step,),
        )?;
        Ok(())
    }

    fn give_back(&self, step: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_events SET step = NULL WHERE step = ?1",
            (step,),
        )?;
        Ok(())
    }

    /// The step keeps its key, although the step will be requested again.
    pub(super) fn keep_key(&self, step: &StepName, run: Option<i64>) -> Result<()> {
        let name = (&step.name, step.occurrence);
        match run {
            Some(run) => self.sql.exec(
                "INSERT INTO workflow_keys VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET run = excluded.run",
                (name.0, name.1, run),
            )?,
            None => self.sql.exec(
                "DELETE FROM workflow_keys WHERE name = ?1 AND occurrence = ?2",
                name,
            )?,
        };
        Ok(())
    }

    pub(super) fn count_events(&self) -> Result<i64> {
        let sql = "SELECT count(*) FROM workflow_events WHERE kind = 'event' AND step IS NULL";
        self.sql.exec(sql, ())?.one()
    }

    pub(super) fn add_event(
        &self,
        kind: StepKind,
        name: &str,
        payload: &str,
        now: i64,
    ) -> Result<()> {
        self.sql.exec(
            "INSERT INTO workflow_events (kind, name, payload, at) VALUES (?1, ?2, ?3, ?4)",
            (kind.as_str(), name, payload, now),
        )?;
        Ok(())
    }

    /// Unconsumed events and children's results, after one of them, in order of arrival.
    pub(super) fn events(&self, after: i64) -> Result<Vec<EventRow>> {
        let sql = "SELECT id, kind, name, at FROM workflow_events WHERE id > ?1 AND step IS NULL ORDER BY id";
        self.sql.exec(sql, (after,))?.all()
    }

    /// A step consumes an event, which is its result.
    pub(super) fn take_event(&self, event: i64, step: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET event = ?2 WHERE id = ?1",
            (step, event),
        )?;
        self.sql.exec(
            "UPDATE workflow_events SET step = ?2 WHERE id = ?1",
            (event, step),
        )?;
        Ok(())
    }

    /// Consumes a child's result, which no other step can use.
    pub(super) fn take_result(&self, event: i64) -> Result<String> {
        let sql = "DELETE FROM workflow_events WHERE id = ?1 RETURNING payload";
        self.sql.exec(sql, (event,))?.one()
    }

    /// Adds a notice, replacing an earlier one to the same target.
    pub(super) fn add_notice(
        &self,
        kind: &str,
        target: &str,
        payload: &str,
        now: i64,
    ) -> Result<()> {
        self.sql.exec(
            "INSERT OR REPLACE INTO workflow_notices (kind, target, payload, due) VALUES (?1, ?2, ?3, ?4)",
            (kind, target, payload, now),
        )?;
        Ok(())
    }

    pub(super) fn notices(&self, now: i64, limit: usize) -> Result<Vec<NoticeRow>> {
        let sql = "SELECT id, kind, target, payload, attempts FROM workflow_notices WHERE due <= ?1 ORDER BY due LIMIT ?2";
        let rows = self
            .sql
            .exec(sql, (now, i64::try_from(limit).unwrap_or(i64::MAX)))?;
        rows.all()
    }

    pub(super) fn notice_due(&self) -> Result<Option<i64>> {
        self.sql
            .exec("SELECT min(due) FROM workflow_notices", ())?
            .one()
    }

    /// Removes all notices.
    pub(super) fn remove_all_notices(&self) -> Result<()> {
        self.sql.exec("DELETE FROM workflow_notices", ()).map(drop)
    }

    pub(super) fn has_notice(&self, kind: &str, target: &str) -> Result<bool> {
        let sql = "SELECT count(*) FROM workflow_notices WHERE kind = ?1 AND target = ?2";
        Ok(self.sql.exec(sql, (kind, target))?.one::<i64>()? > 0)
    }

    /// A notice is being sent, and is sent again at a time unless it was received.
    pub(super) fn telling(&self, notice: i64, due: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_notices SET attempts = attempts + 1, due = ?2 WHERE id = ?1",
            (notice, due),
        )?;
        Ok(())
    }

    pub(super) fn put_off(&self, notice: i64, due: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_notices SET due = ?2 WHERE id = ?1",
            (notice, due),
        )?;
        Ok(())
    }

    /// True if a notice still waits: it was not removed, and none has taken its place.
    pub(super) fn is_notice(&self, notice: i64) -> Result<bool> {
        let sql = "SELECT count(*) FROM workflow_notices WHERE id = ?1";
        Ok(self.sql.exec(sql, (notice,))?.one::<i64>()? > 0)
    }

    pub(super) fn remove_notice(&self, notice: i64) -> Result<()> {
        self.sql
            .exec("DELETE FROM workflow_notices WHERE id = ?1", (notice,))?;
        Ok(())
    }

    pub(super) fn remove_notices(&self, kind: &str) -> Result<()> {
        self.sql
            .exec("DELETE FROM workflow_notices WHERE kind = ?1", (kind,))?;
        Ok(())
    }

    /// The version of a part of the program that the instance uses, if that was decided.
    pub(super) fn version(&self, change: &str) -> Result<Option<u32>> {
        let sql = "SELECT version FROM workflow_versions WHERE change = ?1";
        self.sql.exec(sql, (change,))?.optional()
    }

    /// The instance uses this version from now on.
    pub(super) fn set_version(&self, change: &str, version: u32, asked: i64) -> Result<()> {
        let sql = "INSERT INTO workflow_versions VALUES (?1, ?2, ?3)";
        self.sql.exec(sql, (change, version, asked)).map(drop)
    }

    /// Removes decisions made after this many results.
    pub(super) fn forget_versions(&self, asked: i64) -> Result<()> {
        let sql = "DELETE FROM workflow_versions WHERE asked >= ?1";
        self.sql.exec(sql, (asked,)).map(drop)
    }

    /// Starts an empty history. Unconsumed events stay.
    pub(super) fn begin_anew(&self, input: &str, now: i64) -> Result<()> {
        self.sql.exec(
            "DELETE FROM workflow_steps;
             DELETE FROM workflow_versions;
             DELETE FROM workflow_keys;
             DELETE FROM workflow_events WHERE step IS NOT NULL OR kind = 'child'",
            (),
        )?;
        self.sql.exec(
            "UPDATE workflow_instance SET run = run + 1, canceled_seq = NULL, began_at = ?1",
            (now,),
        )?;
        self.set_value("input", Some(input))
    }

    pub(super) fn save_set_back(&self, sum: i64) -> Result<()> {
        let sql = "UPDATE workflow_instance SET set_back = ?1";
        self.sql.exec(sql, (sum,)).map(drop)
    }

    /// Moves relative waits earlier by this much.
    pub(super) fn bring_nearer(&self, by: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET due = due - ?1 WHERE due IS NOT NULL AND finished_at IS NULL AND fixed = 0",
            (by,),
        )?;
        self.sql.exec(
            "UPDATE workflow_notices SET due = max(due - ?1, ?2) WHERE due > ?2",
            (by, now),
        )?;
        Ok(())
    }
}
