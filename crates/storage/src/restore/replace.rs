//! Puts a new state of an object in place of the newest one, for the next commit.
//!
//! If few pages differ, they are staged, and the commit has them. Otherwise the whole state is written before the commit, as
//! a replacement, and the commit refers to it:
//!
//! 1. Publish that there will be one: a start removes it if its commit is not in the log.
//! 2. Write the new file of the object beside the present one, with the number of the commit before, and sync it and its
//!    name.
//! 3. Write the state as a run of the archive, and publish it. A copy of the history has it from here on. The log is
//!    copied no further than to here until then ([`crate::log::gate`]).
//! 4. Commit. The record says that it continues the replacement ([`crate::log::record`]). From here on the new file is the
//!    object's.
//! 5. The next checkpoint renames the file to the name of the old one. After a crash, recovery does, if it finds the
//!    record.
//! 6. The archiver puts the state before the commit in the run that it makes of the log, so the commit has the state that
//!    it continues, and those before it are as they were.
//!
//! If anything fails before the commit, the object is as it was, and what was written is removed.

use crate::archive::entry::{Head, Kind};
use crate::archive::image::Image;
use crate::archive::index::{KnownAlarm, Newest};
use crate::archive::snapshot;
use crate::catalog;
use crate::disk::{Disk, DiskFile, sync_names};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Life, ObjectKey};
use crate::limits::{MAX_TRANSACTION_BYTES, PAGE_BYTES};
use crate::manifest::{Replacement, RunMeta};
use crate::overlay::Object;
use crate::pagefile::{self, PageFile};
use crate::sync::MutexGuard;
use crate::vfs::PageIo;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// A replacement whose commit is to be made. If it is not made when this is dropped, the replacement is removed.
pub(super) struct Replacing<'a> {
    engine: &'a Engine,
    file: Rc<PageFile>,
    commit: CommitNo,
    _one: MutexGuard<'a, ()>,
}

impl Engine {
    /// Puts the state of an image in place of the newest one, for the next commit through this file. The caller keeps what
    /// this returns until it has made that commit. `doing` names the operation in errors.
    pub(super) fn replace(
        &self,
        file: &Rc<PageFile>,
        image: &Image,
        doing: &str,
    ) -> Result<Option<Replacing<'_>>> {
        file.must_admit(image.size())?;
        let most = self.shared.options.large_restore_bytes;
        let most = most.min(MAX_TRANSACTION_BYTES as u64 / 2);
        if stage(file, image, most)? {
            return Ok(None);
        }
        file.discard();
        self.write_replacement(file, image, doing)
            .map(Some)
            .inspect_err(|error| {
                if error.is_final() {
                    self.shared.note_failure(error);
                }
            })
    }

    fn write_replacement(
        &self,
        file: &Rc<PageFile>,
        image: &Image,
        doing: &str,
    ) -> Result<Replacing<'_>> {
        self.must_own_all("replace a whole object")?;
        let one = self.replacements.lock();
        let object = file.object();
        if object.pages().replaced.is_some() {
            // The one before has the name until then.
            self.checkpoint()?;
        }
        let bytes = u64::from(image.size()) * PAGE_BYTES as u64;
        let disk = &self.shared.disk;
        let available = disk.available(&self.shared.dir).unwrap_or(u64::MAX);
        let archives = self.shared.catalog.current().archive.archived.is_some();
        if available < bytes || (archives && !self.archive.has_room_for(bytes)) {
            return Err(no_room(doing, bytes));
        }
        let commit = file.next_number();
        let listed = |run: Option<RunMeta>| Replacement {
            object: object.key.to_string(),
            commit: commit.0,
            epoch: self.shared.log.epoch.get(),
            after: self.shared.log.appended().get(),
            run,
        };
        let first = listed(None);
        self.shared.publish(|manifest| {
            // There is no other one at the moment: these are in place.
            manifest.archive.replacements.retain(|of| of.run.is_some());
            manifest.archive.replacements.push(first);
        })?;
        let replacing = Replacing {
            engine: self,
            file: file.clone(),
            commit,
            _one: one,
        };
        let room = |error: Error| match error.kind() {
            ErrorKind::NoSpace => no_room(doing, bytes),
            _ => error,
        };
        let written = self.write_beside(object, image, commit).map_err(room)?;
        if archives {
            let run = self.write_run(object.key, image, commit).map_err(room)?;
            let second = listed(Some(run));
            let after = second.after;
            self.shared.publish(|manifest| {
                let known = &mut manifest.archive.replacements;
                known.retain(|of| !of.is_of(object.key, commit));
                known.push(second);
                manifest.archive.note_numbers();
            })?;
            let (_, version) = self.shared.catalog.current_history();
            self.gate.hold(after.into(), version);
        }
        file.replace(pagefile::Replacement {
            file: written,
            size: image.size(),
        });
        Ok(replacing)
    }

    /// Writes the new file, durably.
    fn write_beside(
        &self,
        object: &Object,
        image: &Image,
        commit: CommitNo,
    ) -> Result<Arc<dyn DiskFile>> {
        let disk = &*self.shared.disk;
        let path = catalog::replacement_path(&object.path, commit);
        let failed =
            |error: io::Error| Error::io(format_args!("writing {}", path.display()), &error);
        if let Some(dir) = path.parent() {
            disk.create_dir_all(dir).map_err(failed)?;
        }
        // A crash in the middle of a rename may have left a second name of the object's file: it must not be written.
        remove(disk, &path).map_err(failed)?;
        let file = image.write(&path, Replacement::before(commit))?;
        file.sync()
            .map_err(|error| Error::sync(format_args!("syncing {}", path.display()), &error))?;
        // The directory may be as new as the file.
        for dir in path.ancestors().skip(1).take(3) {
            sync_names(disk, dir)?;
        }
        Ok(file)
    }

    /// Writes the state as a run, which no one knows of yet.
    fn write_run(&self, key: ObjectKey, image: &Image, commit: CommitNo) -> Result<RunMeta> {
        let at = self.shared.catalog.current().archived().get();
        let mut writer = self.archiver.new_run(at, at)?;
        let commit = Replacement::before(commit);
        // Where and when it is will be known when the commit is archived.
        let head = Head {
            key,
            commit,
            position: self.shared.log.position(self.shared.log.appended()),
            database_pages: image.size(),
            unix_millis: self.shared.unix_millis(),
            entries: 0,
            kind: Kind::Snapshot,
            life: Life::Continues,
            replaces: true,
            first: true,
            last: true,
        };
        snapshot::add_pages(&mut writer, head, 1..=image.size(), |page_no| {
            image.page(page_no)
        })?;
        writer.end_object(Newest {
            commit,
            pages: image.size(),
            alarm: KnownAlarm::Unknown,
            since_base: 0,
        });
        writer.finish()
    }
}

impl Drop for Replacing<'_> {
    fn drop(&mut self) {
        let (engine, object) = (self.engine, self.file.object());
        self.file.take_replacement();
        let replaced = object.pages().replaced;
        let is_made = replaced.is_some_and(|replaced| replaced.commit == self.commit)
            || object.pages().commit == self.commit;
        if is_made || engine.shared.log.failed() {
            return;
        }
        let path = catalog::replacement_path(&object.path, self.commit);
        let disk = &*engine.shared.disk;
        let removed = remove(disk, &path).and_then(|()| {
            // Before it is no longer listed.
            path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
        });
        if let Err(error) = removed {
            tracing::warn!(%error, path = %path.display(), "cannot remove an unneeded file: the next start does");
            return;
        }
        let mut dropped = Vec::new();
        let unlisted = engine.shared.publish(|manifest| {
            let is_own = |of: &mut Replacement| of.is_of(object.key, self.commit);
            dropped.extend(manifest.archive.replacements.extract_if(.., is_own));
        });
        match unlisted {
            Ok(()) => engine.archiver.forget_replacements(dropped),
            Err(error) => {
                tracing::warn!(%error, "cannot remove unneeded files of a restore: the next start does");
            }
        }
    }
}

/// Stages the pages that differ from the image. Returns false if they are more than `most` bytes.
fn stage(file: &PageFile, image: &Image, most: u64) -> Result<bool> {
    let mut current = [0; PAGE_BYTES];
    let mut bytes = 0;
    for page_no in 1..=image.size() {
        let wanted = image.page(page_no)?;
        let offset = u64::from(page_no - 1) * PAGE_BYTES as u64;
        let there = file.read(&mut current, offset)?;
        if there == PAGE_BYTES && wanted == current {
            continue;
        }
        bytes += PAGE_BYTES as u64;
        if bytes > most {
            return Ok(false);
        }
        file.write(&wanted, offset)?;
    }
    if image.size() < file.size() {
        file.truncate(u64::from(image.size()) * PAGE_BYTES as u64);
    }
    Ok(true)
}

fn remove(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn no_room(doing: &str, bytes: u64) -> Error {
    Error::new(
        ErrorKind::NoSpace,
        format!(
            "no space for {doing} an object of {} MiB: free space on the disk of the data directory and retry; nothing has changed",
            bytes >> 20
        ),
    )
}
