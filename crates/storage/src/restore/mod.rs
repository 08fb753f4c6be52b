//! Restores an object to an earlier commit, and forks it to another object, which is new or empty.
//!
//! A restore is one commit: the pages that differ are staged and go through the log like any others. If they are many, the
//! commit refers to a file that has the whole state ([`replace`]). After a crash the restore is therefore complete or absent,
//! and another restore can undo it.
//!
//! [`cut`] finds all objects as of one position, for an export, and [`import`] makes an object from a database file.

mod cut;
mod fork;
mod history;
mod import;
mod past;
mod replace;

pub use cut::{Cut, CutObject, CutPage, TimelinesEnd};
pub use import::{Import, Incoming, object_file_fault};
pub use past::PastDatabase;

use crate::bookmark::Bookmark;
use crate::database::ObjectDb;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, ObjectKey};
use crate::overlay::{Object, Pages};
use crate::quarantine::{self, needs_repair};
use crate::repair::Repair;
use crate::timeline::{Afterwards, StoredCause};
use std::sync::Arc;

impl Engine {
    /// See [`crate::Store::restore`].
    pub(crate) fn restore(
        self: &Arc<Self>,
        key: ObjectKey,
        to: &Bookmark,
        afterwards: Afterwards,
    ) -> Result<Bookmark> {
        self.quarantine_if_lost(key)?;
        let present = self
            .open_database(key)
            .and_then(|db| Ok((db.name()?, db.bookmark())));
        let (name, undo) = match present {
            Err(error) if needs_repair(&error, key) => {
                return self.restore_broken(key, to, afterwards);
            }
            present => present?,
        };
        let image = self.image_at(key, to)?;
        // Nothing can be archived of an object that does not exist. Where stores share runs, the next one has all commits of the log, and
        // continues those that all list.
        let may_lack = undo.commit != CommitNo(0) && !self.shared.options.has_shared_runs();
        if may_lack && self.archive.image(key, &undo).is_none() {
            // The archive was off, or had to drop history: without this the restore could not be undone.
            self.checkpoint()?;
            let _paused = self.checkpointer.pause()?;
            self.archiver.archive_present(key, &undo)?;
        }
        let file = self.page_file(key)?;
        if file.bookmark().commit != undo.commit {
            return Err(Error::refused(format!(
                "the object {key} was written during the restore: try again"
            )));
        }
        let _replacing = self.replace(&file, &image, "restoring")?;
        let db = ObjectDb::open(file, self.shared.options.cache_kib)?;
        let cause = StoredCause::Restored {
            from: undo,
            to: *to,
        };
        db.commit_restored(name.as_deref(), undo, cause, afterwards)?;
        self.wait_durable(db.newest())?;
        Ok(undo)
    }

    /// Restores an object that cannot be opened or read. The bookmark that undoes it is the newest state in its
    /// history.
    fn restore_broken(
        self: &Arc<Self>,
        key: ObjectKey,
        to: &Bookmark,
        afterwards: Afterwards,
    ) -> Result<Bookmark> {
        let undo = self.bookmark_at(key, u64::MAX);
        let repaired = self.repair(key, Repair::Restore(*to), afterwards)?;
        Ok(undo.unwrap_or(repaired.bookmark))
    }

    /// See [`crate::Store::restore_requested`].
    pub(crate) fn restore_requested(self: &Arc<Self>, key: ObjectKey) -> Result<()> {
        let Some(to) = self.open_database(key)?.requested_restore()? else {
            return Ok(());
        };
        let Err(error) = self.restore(key, &to, Afterwards::Act) else {
            return Ok(());
        };
        if !matches!(
            error.kind(),
            ErrorKind::Input | ErrorKind::Limit | ErrorKind::Damaged
        ) {
            return Err(error);
        }
        // It would fail again the next time, and the object could never start.
        tracing::error!(object = %key, bookmark = %to, %error, "cannot perform a restore that the object requested; it keeps its present state");
        let db = self.open_database(key)?;
        db.forget_requested_restore()?;
        db.commit()?;
        self.wait_durable(db.newest())
    }

    /// See [`crate::Store::bookmark`].
    pub(crate) fn bookmark(&self, key: ObjectKey) -> Result<Bookmark> {
        if let Some(quarantine) = self.shared.catalog.current().quarantine_of(key) {
            return Err(quarantine::refusal(key, &quarantine.why));
        }
        let (bookmark, quarantined) = self.at_present(key, |object, pages| {
            (object.bookmark(pages), pages.quarantined.clone())
        })?;
        if let Some(why) = quarantined {
            return Err(quarantine::refusal(key, &why));
        }
        self.wait_durable(bookmark.position.lsn)?;
        Ok(bookmark)
    }

    /// The number of an object's newest commit, 0 if there is no object; `None` if it is unknown because the object is quarantined or unreadable.
    pub(crate) fn present_commit(&self, key: ObjectKey) -> Result<Option<CommitNo>> {
        if self.shared.catalog.current().quarantine_of(key).is_some() {
            return Ok(None);
        }
        let seen = self.at_present(key, |object, pages| {
            let commit = object.bookmark(pages).commit;
            pages.quarantined.is_none().then_some(commit)
        });
        match seen {
            Err(error) if needs_repair(&error, key) => Ok(None),
            seen => seen,
        }
    }

    /// Reads an object's newest commit number, whether it is open or not.
    fn at_present<R>(&self, key: ObjectKey, look: impl FnOnce(&Object, &Pages) -> R) -> Result<R> {
        let owned = self.must_own(key)?;
        self.hydrate(key)?;
        let (seen, object) = self.objects.with(key, |object, pages| {
            if object.owned != owned {
                return (Err(Error::moved(key)), object.clone());
            }
            let looked = self.objects.look_at_file(object, pages);
            (looked.map(|()| look(object, pages)), object.clone())
        })?;
        self.objects.forget_if_idle(&object);
        seen
    }
}
