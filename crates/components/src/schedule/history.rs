//! The history of events; the oldest rows are dropped.

use abide::Result;

use super::{Entry, metrics, rows::Rows};

impl Rows {
    pub(super) fn note(
        &self,
        timer: &str,
        event: &str,
        due_at: Option<i64>,
        detail: Option<&str>,
        now: i64,
    ) -> Result<()> {
        metrics::happened(event);
        if self.history == 0 {
            return Ok(());
        }
        let id: i64 = self
            .sql
            .exec(
                "INSERT INTO schedule_history (at, timer, event, due_at, detail) VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id",
                (now, timer, event, due_at, detail),
            )?
            .one()?;
        self.sql.exec(
            "DELETE FROM schedule_history WHERE id <= ?1",
            (id - self.history,),
        )?;
        Ok(())
    }

    /// Newest first, of a timer or of all.
    pub(super) fn history(
        &self,
        timer: Option<&str>,
        before: i64,
        limit: i64,
    ) -> Result<Vec<Entry>> {
        const ENTRY: &str = "SELECT id, at, timer, event, due_at, detail FROM schedule_history";
        match timer {
            Some(timer) => self.sql.exec(
                &format!("{ENTRY} WHERE timer = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3"),
                (timer, before, limit),
            ),
            None => self.sql.exec(
                &format!("{ENTRY} WHERE id < ?1 ORDER BY id DESC LIMIT ?2"),
                (before, limit),
            ),
        }?
        .all()
    }
}
