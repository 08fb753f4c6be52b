//! What an instance keeps, and what changes it.
//!
//! Contract: each function is one change of the tables, whole within the transaction of the current poll.

use abide::{Result, Sql, Storage};
use serde::Deserialize;

use crate::broken::{Variant, broken};

use super::{InstanceRecord, Status, StepKind, StepRecord, StepState, notices::Parent, schema};

/// The one row of `workflow_instance`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Instance {
    pub(super) workflow: String,
    pub(super) id: String,
    pub(super) status: Status,
    pub(super) run: i64,
    /// Why it is to be canceled.
    pub(super) cancel: Option<String>,
    /// The place of the cancellation in the order of results.
    pub(super) canceled_seq: Option<i64>,
    pub(super) error: Option<String>,
    /// Who waits for it: a [`Parent`] as JSON.
    pub(super) parent: Option<String>,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) finished_at: Option<i64>,
    /// Rises with each change of the status.
    pub(super) version: i64,
    /// The newest version that the directory has.
    pub(super) told: i64,
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
    pub(super) kind: StepKind,
    pub(super) asked: i64,
    pub(super) state: StepState,
    pub(super) attempts: u32,
    pub(super) key_run: i64,
    pub(super) due: Option<i64>,
    pub(super) seq: Option<i64>,
    pub(super) finished_at: Option<i64>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done<'a> {
    pub(super) seq: i64,
    pub(super) state: StepState,
    pub(super) output: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    /// The event that it has taken.
    pub(super) event: Option<i64>,
}

/// Something to be told to another object.
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
        self.sql.exec(
            "INSERT INTO workflow_instance (tables, workflow, id, status, parent, created_at, updated_at, version)
             VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?5, ?5)",
            (schema::VERSION, workflow, id, parent, now),
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

    /// Another status. Its version is above all that the directory has seen of this id.
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
                "UPDATE workflow_steps SET state = 'canceled', finished_at = ?1 WHERE seq IS NULL AND shielded = 0",
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

    /// All steps, in the order in which they were asked for.
    pub(super) fn steps(&self) -> Result<Vec<StepRow>> {
        let sql = "SELECT id, name, kind, asked, state, attempts, key_run, due, seq, finished_at
                   FROM workflow_steps ORDER BY id";
        self.sql.exec(sql, ())?.to_array()
    }

    pub(super) fn step(&self, name: &str) -> Result<Option<StepRow>> {
        let sql = "SELECT id, name, kind, asked, state, attempts, key_run, due, seq, finished_at
                   FROM workflow_steps WHERE name = ?1";
        self.sql.exec(sql, (name,))?.optional()
    }

    /// Steps for people, after one of them.
    pub(super) fn history(&self, after: i64, limit: usize) -> Result<Vec<StepRecord>> {
        let sql = "SELECT id, name, kind, state, attempts, seq, due, error, asked_at, started_at, finished_at
                   FROM workflow_steps WHERE id > ?1 ORDER BY id LIMIT ?2";
        let rows = self
            .sql
            .exec(sql, (after, i64::try_from(limit).unwrap_or(i64::MAX)))?;
        rows.to_array()
    }

    /// A step that is asked for the first time. Returns its id and the run of its key.
    pub(super) fn ask(
        &self,
        name: &str,
        kind: StepKind,
        (shielded, asked): (bool, i64),
        now: i64,
    ) -> Result<(i64, i64)> {
        let sql = "INSERT INTO workflow_steps (name, kind, shielded, asked, state, key_run, asked_at)
                   VALUES (?1, ?2, ?3, ?4, 'new', coalesce((SELECT run FROM workflow_keys WHERE name = ?1),
                       (SELECT run FROM workflow_instance)), ?5)
                   RETURNING id, key_run";
        self.sql
            .exec(sql, (name, kind.as_str(), shielded, asked, now))?
            .one()
    }

    pub(super) fn wait(&self, step: i64, due: Option<i64>, error: Option<&str>) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'waiting', due = ?2, error = ?3 WHERE id = ?1",
            (step, due, error),
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

    /// True if a step waits for this instance, and nothing is known of its result.
    pub(super) fn awaits_child(&self, child: &str) -> Result<bool> {
        let sql = "SELECT count(*) FROM workflow_steps WHERE child = ?1 AND seq IS NULL
                   AND NOT EXISTS (SELECT 1 FROM workflow_events WHERE kind = 'child' AND name = ?1)";
        Ok(self.sql.exec(sql, (child,))?.one::<i64>()? > 0)
    }

    /// An attempt begins.
    pub(super) fn begin(&self, step: i64, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'running', due = NULL, attempts = attempts + 1, started_at = ?2 WHERE id = ?1",
            (step, now),
        )?;
        if broken(Variant::AttemptUncounted) {
            let sql = "UPDATE workflow_steps SET attempts = attempts - 1 WHERE id = ?1";
            self.sql.exec(sql, (step,))?;
        }
        Ok(())
    }

    pub(super) fn done(&self, step: i64, done: Done<'_>, now: i64) -> Result<()> {
        if broken(Variant::ResultUnstored) {
            return Ok(());
        }
        self.sql.exec(
            "UPDATE workflow_steps SET state = ?2, due = NULL, seq = ?3, output = ?4, error = ?5, event = ?6, finished_at = ?7
             WHERE id = ?1",
            (
                step,
                done.state.as_str(),
                done.seq,
                done.output,
                done.error,
                done.event,
                now,
            ),
        )?;
        Ok(())
    }

    /// How a step stands, and what it gave: its output, or its failure.
    pub(super) fn outcome(&self, step: i64) -> Result<(StepState, Option<String>, Option<String>)> {
        let sql = "SELECT state, output, error FROM workflow_steps WHERE id = ?1";
        self.sql.exec(sql, (step,))?.one()
    }

    /// Steps without a result will not have one.
    pub(super) fn abandon(&self, now: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'canceled', due = NULL, finished_at = ?1
             WHERE seq IS NULL AND state <> 'canceled'",
            (now,),
        )?;
        Ok(())
    }

    /// Instances that steps wait for: their workflows and ids. All, or that of one step.
    pub(super) fn open_children(&self, step: Option<i64>) -> Result<Vec<(String, String)>> {
        let sql = "SELECT child_of, child FROM workflow_steps
                   WHERE child IS NOT NULL AND seq IS NULL AND (?1 IS NULL OR id = ?1)";
        self.sql.exec(sql, (step,))?.to_array()
    }

    /// Removes a step. What it took of the events is there again.
    pub(super) fn remove(&self, step: i64) -> Result<()> {
        self.give_back(step)?;
        self.sql
            .exec("DELETE FROM workflow_steps WHERE id = ?1", (step,))?;
        Ok(())
    }

    /// A step as if it had just been asked for. What it took of the events is there again.
    pub(super) fn reset(&self, step: i64, key_run: i64) -> Result<()> {
        self.give_back(step)?;
        self.sql.exec(
            "UPDATE workflow_steps SET state = 'new', attempts = 0, key_run = ?2, due = NULL, seq = NULL, event = NULL,
                 child = NULL, output = NULL, error = NULL, started_at = NULL, finished_at = NULL WHERE id = ?1",
            (step, key_run),
        )?;
        Ok(())
    }

    fn give_back(&self, step: i64) -> Result<()> {
        if broken(Variant::EventsKept) {
            return Ok(());
        }
        self.sql.exec(
            "INSERT INTO workflow_events (id, kind, name, payload, at)
             SELECT event, kind, name, output, asked_at FROM workflow_steps
             WHERE id = ?1 AND event IS NOT NULL AND kind = 'event'",
            (step,),
        )?;
        Ok(())
    }

    pub(super) fn set_seq(&self, step: i64, seq: i64) -> Result<()> {
        self.sql.exec(
            "UPDATE workflow_steps SET seq = ?2 WHERE id = ?1",
            (step, seq),
        )?;
        Ok(())
    }

    /// The step's key stays as it was, although the step will be asked for anew.
    pub(super) fn keep_key(&self, name: &str, run: Option<i64>) -> Result<()> {
        match run {
            Some(run) => self.sql.exec(
                "INSERT INTO workflow_keys VALUES (?1, ?2) ON CONFLICT DO UPDATE SET run = excluded.run",
                (name, run),
            )?,
            None => self
                .sql
                .exec("DELETE FROM workflow_keys WHERE name = ?1", (name,))?,
        };
        Ok(())
    }

    pub(super) fn count_events(&self) -> Result<i64> {
        let sql = "SELECT count(*) FROM workflow_events WHERE kind = 'event'";
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

    /// The oldest event of a name.
    pub(super) fn take_event(&self, kind: StepKind, name: &str) -> Result<Option<(i64, String)>> {
        if broken(Variant::EventHeardTwice) || broken(Variant::EventsReversed) {
            let sql = "SELECT id, payload FROM workflow_events WHERE kind = ?1 AND name = ?2 ORDER BY id DESC LIMIT 1";
            let event: Option<(i64, String)> =
                self.sql.exec(sql, (kind.as_str(), name))?.optional()?;
            if let (Some((id, _)), true) = (&event, broken(Variant::EventsReversed)) {
                let sql = "DELETE FROM workflow_events WHERE id = ?1";
                self.sql.exec(sql, (*id,))?;
            }
            return Ok(event);
        }
        let sql = "DELETE FROM workflow_events WHERE id =
                       (SELECT id FROM workflow_events WHERE kind = ?1 AND name = ?2 ORDER BY id LIMIT 1)
                   RETURNING id, payload";
        let taken = self.sql.exec(sql, (kind.as_str(), name))?.optional()?;
        if broken(Variant::EventsDropped) && taken.is_some() {
            let sql = "DELETE FROM workflow_events WHERE kind = ?1 AND name = ?2";
            self.sql.exec(sql, (kind.as_str(), name))?;
        }
        Ok(taken)
    }

    /// Something to be told, in place of what was to be told to the same target.
    pub(super) fn add_notice(
        &self,
        kind: &str,
        target: &str,
        payload: &str,
        now: i64,
    ) -> Result<()> {
        self.sql.exec(
            "INSERT INTO workflow_notices (kind, target, payload, due) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (kind, target) DO UPDATE SET payload = excluded.payload, due = excluded.due, attempts = 0",
            (kind, target, payload, now),
        )?;
        Ok(())
    }

    pub(super) fn notices(&self, now: i64, limit: usize) -> Result<Vec<NoticeRow>> {
        let sql = "SELECT id, kind, target, payload, attempts FROM workflow_notices WHERE due <= ?1 ORDER BY due LIMIT ?2";
        let rows = self
            .sql
            .exec(sql, (now, i64::try_from(limit).unwrap_or(i64::MAX)))?;
        rows.to_array()
    }

    pub(super) fn notice_due(&self) -> Result<Option<i64>> {
        self.sql
            .exec("SELECT min(due) FROM workflow_notices", ())?
            .one()
    }

    pub(super) fn has_notice(&self, kind: &str, target: &str) -> Result<bool> {
        let sql = "SELECT count(*) FROM workflow_notices WHERE kind = ?1 AND target = ?2";
        Ok(self.sql.exec(sql, (kind, target))?.one::<i64>()? > 0)
    }

    /// A notice is being told, and is told again at a time unless it was heard.
    pub(super) fn telling(&self, notice: i64, due: i64) -> Result<()> {
        if broken(Variant::ToldOnce) {
            return self.remove_notice(notice);
        }
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
}
