//! A restored directory asks its instances for their status.
//!
//! It has forgotten what they reported in the undone future. Each is asked once, in the order of ids and some at a time; the
//! alarm continues where a crash or a failed question has stopped it. What they report is compared by its version, as always.

use std::time::Duration;

use abide::{Result, Timeline};
use futures_util::future::join_all;

use super::{
    WorkflowError,
    directory::{Directory, ListedVersion},
    limits,
    notice::object_name,
    object::WorkflowInstance,
};

impl Directory {
    /// The directory's object is on a new timeline. The instances of a copy belong to its original.
    pub(super) fn begin_timeline(&self, timeline: &Timeline) -> Result<()> {
        if timeline.is_fork() || !self.exists()? {
            return Ok(());
        }
        self.prepare()?;
        self.ask_after("")?;
        self.ctx.storage().set_alarm(Duration::ZERO)
    }

    /// Asks the next instances, and sets the alarm for those after them.
    pub(super) async fn ask(&self) -> Result<()> {
        let known = self.to_ask()?;
        let asked = known.iter().map(|(id, version)| self.ask_one(id, version));
        for asked in join_all(asked).await {
            asked?;
        }
        match known.last() {
            Some((last, _)) => {
                self.ask_after(last)?;
                self.ctx.storage().set_alarm(Duration::ZERO)
            }
            None => self
                .sql
                .exec("DELETE FROM workflow_directory_asking", ())
                .map(drop),
        }
    }

    async fn ask_one(&self, id: &str, known: &ListedVersion) -> Result<()> {
        let instances = self.ctx.env().object::<WorkflowInstance>();
        let instance = instances.get_by_name(&object_name(&self.workflow, id));
        match instance.list_again().await {
            // It is no longer kept. One that was started anew meanwhile has a later version.
            Err(WorkflowError::NotFound { .. }) => self.forget(id, known),
            asked => Ok(asked?),
        }
    }

    fn to_ask(&self) -> Result<Vec<(String, ListedVersion)>> {
        self.prepare()?;
        let sql = "SELECT id, timeline, version FROM workflow_directory
                   WHERE id > (SELECT after FROM workflow_directory_asking) ORDER BY id LIMIT ?1";
        let rows = self.sql.exec(sql, (limits::MAX_ASKING,))?;
        let rows: Vec<(String, String, i64)> = rows.all()?;
        let known = |(id, timeline, number)| (id, ListedVersion { timeline, number });
        Ok(rows.into_iter().map(known).collect())
    }

    /// The next to ask is the one after this.
    fn ask_after(&self, id: &str) -> Result<()> {
        self.sql.exec("DELETE FROM workflow_directory_asking", ())?;
        let sql = "INSERT INTO workflow_directory_asking (after) VALUES (?1)";
        self.sql.exec(sql, (id,)).map(drop)
    }
}
