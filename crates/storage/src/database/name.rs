//! What an object is: its name, which is stored with its first transaction, and its timeline.

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
        let (mut name, mut row) = (None, None);
        let both = "SELECT key, value FROM _abide_meta WHERE key IN ('name', 'timeline')/*abide*/";
        self.rare_rows(both, |found| {
            let key: String = found.get(0).map_err(|e| self.sql_error(&e))?;
            let value: String = found.get(1).map_err(|e| self.sql_error(&e))?;
            match &*key {
                "name" => name = Some(value),
                _ => row = Some(TimelineRow::read(&value)?),
            }
            Ok(())
        })?;
        let name = name.or_else(|| self.pending_name.borrow().clone());
        let row = row.unwrap_or_else(|| TimelineRow::first(self.file.key()));
        Ok((name, row))
    }

    /// Stores the name, in the transaction that has begun.
    pub(super) fn store_pending_name(&self) -> Result<()> {
        let Some(name) = self.pending_name.take() else {
            return Ok(());
        };
        let before = self.changes_that_count();
        self.internal("INSERT INTO _abide_meta (key, value) VALUES ('name', ?1) ON CONFLICT DO NOTHING/*abide*/", [name])?;
        self.disregard_changes_since(before);
        Ok(())
    }

    /// Sets the object's name, unless one is stored. It is stored with the next transaction.
    pub fn set_name(&self, name: &str) {
        *self.pending_name.borrow_mut() = Some(name.to_owned());
    }
}
