//! Restores: requested in a transaction, committed once the pages of the earlier state are staged.

use super::ObjectDb;
use crate::bookmark::Bookmark;
use crate::error::{Error, Result};
use crate::timeline::{Afterwards, StoredCause};

impl ObjectDb {
    /// Commits the pages that are staged outside of SQLite: those of an earlier state. The object keeps its name and
    /// gets the alarm of that state, its requested restore is complete, and a new timeline begins; `from` is the state
    /// that is left.
    pub(crate) fn commit_restored(
        &self,
        name: Option<&str>,
        from: Bookmark,
        cause: StoredCause,
        afterwards: Afterwards,
    ) -> Result<()> {
        self.begin()?;
        self.begin_restored(from, cause, afterwards)?;
        // Its row is in the staged pages.
        self.forget_requested_restore()?;
        if let Some(name) = name {
            self.store_name(name)?;
        }
        self.commit_staged()
    }

    /// Stores another name, in the current transaction.
    pub(crate) fn store_name(&self, name: &str) -> Result<()> {
        let upsert = "INSERT INTO _abide_meta (key, value) VALUES ('name', ?1)
            ON CONFLICT DO UPDATE SET value = excluded.value/*abide*/";
        self.internal(upsert, [name]).map(drop)
    }

    /// Requests a restore, in the current transaction. The next task that opens the object finds the request with
    /// [`Self::requested_restore`] and performs it with [`crate::Store::restore_requested`]. Returns the bookmark that
    /// undoes the restore: that of the commit that ends the transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) if the bookmark is of another object, or later than the present.
    pub fn request_restore(&self, to: &Bookmark) -> Result<Bookmark> {
        self.begin()?;
        self.file.must_be_own(to)?;
        let present = self.next_bookmark();
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

    /// Makes the object due in the alarm index until the requested restore is performed, in the current transaction.
    /// The watcher of the index then opens the object, also after a crash, and the alarms of the restored state go
    /// off.
    pub fn restore_at_once(&self) -> Result<()> {
        self.begin()?;
        let insert =
            "INSERT OR IGNORE INTO _abide_meta (key, value) VALUES ('restore_at_once', 1)/*abide*/";
        self.internal(insert, ())?;
        self.reread_alarms();
        Ok(())
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
        let delete = "DELETE FROM _abide_meta WHERE key IN ('restore', 'restore_at_once')/*abide*/";
        self.internal(delete, ())?;
        self.reread_alarms();
        Ok(())
    }

    /// Reads the alarms again from the database, and commits them to the index.
    pub(super) fn reread_alarms(&self) {
        self.known_alarms.take();
        self.touch_alarm();
    }

    /// Commits the pages that are staged outside of SQLite.
    pub(crate) fn commit_staged(&self) -> Result<()> {
        // Even a restore to the present state is a commit: it has its own bookmark.
        self.file.next_bookmark();
        self.commit().map(drop)
    }
}
