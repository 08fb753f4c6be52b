//! Restores: requested in a transaction, committed once the pages of the earlier state are staged.

use super::ObjectDb;
use crate::archive::bookmark::Bookmark;
use crate::error::{Error, Result};

impl ObjectDb {
    /// Commits the pages that are staged outside of SQLite: those of an earlier state. The object keeps its name and
    /// gets the alarm of that state, and its requested restore is complete.
    pub(crate) fn commit_restored(&self, name: Option<&str>) -> Result<()> {
        self.begin()?;
        // Its row is in the staged pages.
        self.known_alarms.take();
        self.touch_alarm();
        self.forget_requested_restore()?;
        if let Some(name) = name {
            self.store_name(name)?;
        }
        self.commit_staged()
    }

    /// Like [`Self::commit_restored`], for a new object forked from another's pages. It has no alarm.
    pub(crate) fn commit_forked(&self, name: Option<&str>) -> Result<()> {
        self.begin()?;
        match name {
            Some(name) => self.store_name(name)?,
            None => {
                self.internal("DELETE FROM _abide_meta WHERE key = 'name'/*abide*/", ())?;
            }
        }
        self.clear_alarms()?;
        self.forget_requested_restore()?;
        self.commit_staged()
    }

    fn store_name(&self, name: &str) -> Result<()> {
        let upsert = "INSERT INTO _abide_meta (key, value) VALUES ('name', ?1)
            ON CONFLICT DO UPDATE SET value = excluded.value/*abide*/";
        self.internal(upsert, [name]).map(drop)
    }

    /// Requests a restore, in the current transaction. Whoever opens the object next finds the request with
    /// [`Self::requested_restore`] and performs it with [`crate::Store::restore_requested`]. Returns the bookmark that
    /// undoes the restore: that of the commit that ends the transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the bookmark is of another object, or later than the present.
    pub fn request_restore(&self, to: &Bookmark) -> Result<Bookmark> {
        self.begin()?;
        self.file.must_be_own(to)?;
        let present = self.bookmark();
        if *to > present {
            return Err(Error::input(format!(
                "{to} is later than the object's present state, {present}"
            )));
        }
        let upsert = "INSERT INTO _abide_meta (key, value) VALUES ('restore', ?1)
            ON CONFLICT DO UPDATE SET value = excluded.value/*abide*/";
        self.internal(upsert, [to.to_string()])?;
        Ok(present)
    }

    /// The requested restore that has not been performed yet.
    pub fn requested_restore(&self) -> Result<Option<Bookmark>> {
        let text: Option<String> = self.internal_row(
            "SELECT value FROM _abide_meta WHERE key = 'restore'/*abide*/",
            (),
            |row| row.get(0),
        )?;
        text.map(|text| text.parse()).transpose()
    }

    /// Removes the requested restore, in the current transaction.
    pub(crate) fn forget_requested_restore(&self) -> Result<()> {
        self.begin()?;
        let delete = "DELETE FROM _abide_meta WHERE key = 'restore'/*abide*/";
        self.internal(delete, ()).map(drop)
    }

    fn commit_staged(&self) -> Result<()> {
        // Even a restore to the present state is a commit: it has a bookmark of its own.
        self.file.next_bookmark();
        self.commit().map(drop)
    }
}
