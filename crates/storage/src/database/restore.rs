//! Restores: requested in a transaction, committed when the pages of the earlier state are staged.

use super::ObjectDb;
use crate::archive::bookmark::Bookmark;
use crate::error::{Error, Result};

impl ObjectDb {
    /// Commits what is staged beside SQLite: the pages of an earlier state. The object keeps its name and has the alarm of
    /// that state, and its requested restore is done.
    pub(crate) fn commit_restored(&self, name: Option<&str>) -> Result<()> {
        self.begin()?;
        // Its row is in the pages that were staged.
        self.known_alarms.take();
        self.touch_alarm();
        self.forget_requested_restore()?;
        if let Some(name) = name {
            self.store_name(name)?;
        }
        self.commit_staged()
    }

    /// As [`Self::commit_restored`], for a new object made of another's pages. It has no alarm.
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

    /// Requests a restore, in the current transaction: the next opener of the object finds it with
    /// [`Self::requested_restore`] and does it with [`crate::Store::restore_requested`]. Returns the bookmark that undoes it,
    /// which is that of the commit that ends the transaction.
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

    /// The restore that was requested and is not done yet.
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
