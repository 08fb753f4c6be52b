//! The object's name, which is stored with its first transaction.

use super::ObjectDb;
use crate::error::Result;

impl ObjectDb {
    /// The object's name, if it has one.
    pub fn name(&self) -> Result<Option<String>> {
        if let Some(name) = &*self.pending_name.borrow() {
            return Ok(Some(name.clone()));
        }
        self.internal_row(
            "SELECT value FROM _abide_meta WHERE key = 'name'/*abide*/",
            (),
            |row| row.get(0),
        )
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

    /// Sets the object's name, if it has none; it is stored with the next transaction.
    pub fn set_name(&self, name: &str) -> Result<()> {
        if self.name()?.is_none() {
            *self.pending_name.borrow_mut() = Some(name.to_owned());
        }
        Ok(())
    }
}
