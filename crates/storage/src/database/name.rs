//! What an object is: its name and its timeline, which are stored with its first transaction.

use super::ObjectDb;
use crate::error::Result;
use crate::timeline::TimelineRow;

impl ObjectDb {
    /// The object's name, if it has one.
    pub fn name(&self) -> Result<Option<String>> {
        Ok(self.identity()?.0)
    }

    /// The object's name, if it has one, and its present timeline.
    pub fn identity(&self) -> Result<(Option<String>, TimelineRow)> {
        let (mut name, mut first, mut row) = (None, None, None);
        let all =
            "SELECT key, value FROM _abide_meta WHERE key IN ('name', 'born', 'timeline')/*abide*/";
        self.rare_rows(all, |found| {
            let key: String = found.get(0).map_err(|e| self.sql_error(&e))?;
            let value: String = found.get(1).map_err(|e| self.sql_error(&e))?;
            match &*key {
                "name" => name = Some(value),
                "born" => first = Some(value.parse()?),
                _ => row = Some(TimelineRow::read(&value)?),
            }
            Ok(())
        })?;
        let name = name.or_else(|| self.pending_name.borrow().clone());
        let first = first.unwrap_or_else(|| self.file.first_timeline());
        let own = row.unwrap_or_else(|| TimelineRow::first(first));
        let row = match self.file.restored() {
            None => own,
            Some(mark) => {
                let commit = self.file.bookmark().commit;
                mark.timeline(self.file.key(), commit, own)
            }
        };
        Ok((name, row))
    }

    /// Stores the name, and the timeline of a new object, in the transaction that has begun.
    pub(super) fn store_identity(&self) -> Result<()> {
        let name = self.pending_name.take();
        let born = self.file.is_new().then(|| self.file.first_timeline());
        if name.is_none() && born.is_none() {
            return Ok(());
        }
        let before = self.changes_that_count();
        let insert = "INSERT INTO _abide_meta SELECT * FROM (VALUES ('name', ?1), ('born', ?2)) WHERE column2 IS NOT NULL
            ON CONFLICT DO NOTHING/*abide*/";
        self.internal(insert, (name, born.map(|born| born.to_string())))?;
        self.disregard_changes_since(before);
        Ok(())
    }

    /// Sets the object's name, unless one is stored. It is stored with the next transaction.
    pub fn set_name(&self, name: &str) {
        *self.pending_name.borrow_mut() = Some(name.to_owned());
    }
}
