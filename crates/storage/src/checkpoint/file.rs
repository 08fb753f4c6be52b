//! Brings the file of one object up to date.

use super::Checkpointer;
use crate::archive::archiver;
use crate::catalog;
use crate::disk::{DiskFile, OpenMode};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Lsn, ObjectKey, Page};
use crate::limits::PAGE_BYTES;
use crate::overlay::{Object, Pages, header};
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The versions of an object's pages that a checkpoint writes.
pub(super) struct Snapshot {
    pub(super) object: Arc<Object>,
    pages: Vec<(u32, Arc<Page>, Lsn)>,
    size: u32,
    commit: CommitNo,
    pub(super) newest: Lsn,
}

impl Snapshot {
    pub(super) fn written(&self) -> (ObjectKey, archiver::Written) {
        let written = archiver::Written {
            commit: self.commit,
            newest: self.newest,
        };
        (self.object.key, written)
    }
}

/// A file that was written and must be synced.
pub(super) struct Written {
    pub(super) snapshot: Snapshot,
    /// Kept open while files are synced one by one; many files would need too many descriptors.
    pub(super) file: Option<Arc<dyn DiskFile>>,
}

/// What a checkpoint has done to an object's file.
pub(super) enum Outcome {
    Written(Written),
    Removed,
}

impl Checkpointer {
    /// Brings one object's file up to date. `None` if it already is, or if the object is quarantined.
    pub(super) fn write_object(&self, object: &Arc<Object>) -> Result<Option<Outcome>> {
        let Shared { log, threads, .. } = &*self.shared;
        if !self.has_base(object)? {
            return Ok(None);
        }
        while let Some(snapshot) = self.snapshot(object)? {
            log.wait_durable(snapshot.newest, !threads)?;
            self.complete(object)?;
            if let Some(written) = self.write(snapshot)? {
                return Ok(Some(Outcome::Written(written)));
            }
        }
        let ended = {
            let pages = object.pages();
            pages.ended.then_some(pages.newest)
        };
        let Some(newest) = ended else {
            return Ok(None);
        };
        log.wait_durable(newest, !threads)?;
        self.complete(object)?;
        let is_removed = self.remove(object)?;
        Ok(is_removed.then_some(Outcome::Removed))
    }

    /// Has the whole file of an object written that was adopted without it. False if that must wait, because a run cannot be read: the
    /// object stays in memory. The checkpoint counts all the same, since a store that adopts objects never recovers its directory.
    fn has_base(&self, object: &Object) -> Result<bool> {
        if !object.pages().continues_file() {
            return Ok(true);
        }
        if self.lacks_runs.load(Ordering::Relaxed) {
            return Ok(false);
        }
        match self.complete(object) {
            Err(error)
                if error.kind() == ErrorKind::Busy && self.shared.options.has_shared_runs() =>
            {
                tracing::warn!(
                    %error,
                    "objects that were taken over stay in memory until the store of runs can be read"
                );
                self.lacks_runs.store(true, Ordering::Relaxed);
                Ok(false)
            }
            completed => completed.map(|()| true),
        }
    }

    /// Has the whole file of an object written, if something stands for it. From then on no other thread writes it.
    fn complete(&self, object: &Object) -> Result<()> {
        let completed = self.shared.stand_ins.complete(object.key);
        completed.map_err(|error| match error.kind() {
            // It never will be complete. An archive that cannot be reached now is waited for.
            ErrorKind::Damaged => error.only_of(object.key),
            _ => error,
        })
    }

    /// Removes the file of an object that has ended, unless another life has begun, or the object is quarantined.
    fn remove(&self, object: &Arc<Object>) -> Result<bool> {
        let mut pages = object.pages();
        if !pages.ended || pages.quarantined.is_some() {
            return Ok(false);
        }
        self.objects.close_file(object, &mut pages);
        self.shared.stand_ins.forget(object.key);
        self.put_in_place(object, &mut pages)?;
        let noted = self.note_end(object);
        match noted.and_then(|()| self.shared.disk.remove(&object.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let doing = format_args!("removing {}", object.path.display());
                return Err(Error::of_object(object.key, doing, &error));
            }
            _ => {}
        }
        pages.has_file = false;
        pages.failed_writes = 0;
        Ok(true)
    }

    /// Before the file of an object is removed: its file must not be written again from an earlier state in the archive.
    fn note_end(&self, object: &Object) -> io::Result<()> {
        let manifest = self.shared.catalog.current();
        let may_lack = manifest
            .hydration
            .is_some_and(|state| state.may_lack(object.key));
        match object.path.parent() {
            Some(dir) if may_lack => {
                self.shared.disk.create_dir_all(dir)?;
                let ended = catalog::ended_path(&object.path);
                self.shared.disk.open(&ended, OpenMode::Create).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// An object that has ended has no file any more.
    pub(super) fn forget_ended(&self, object: &Object) {
        object.pages().ended = false;
        self.objects.forget_if_idle(object);
    }

    /// The committed pages that the file lacks, if any, unless the object is quarantined.
    fn snapshot(&self, object: &Arc<Object>) -> Result<Option<Snapshot>> {
        let mut pages = object.pages();
        if pages.tail.is_some() {
            self.objects.look_at_file(object, &mut pages)?;
        }
        if pages.quarantined.is_some() {
            return Ok(None);
        }
        if pages.overlay.is_empty() {
            return Ok(None);
        }
        let mut list: Vec<_> = pages
            .overlay
            .iter()
            .map(|(&no, page)| (no, page.image.clone(), page.lsn))
            .collect();
        list.sort_unstable_by_key(|(page_no, _, _)| *page_no);
        Ok(Some(Snapshot {
            object: object.clone(),
            pages: list,
            size: pages.size,
            commit: pages.commit,
            newest: pages.newest,
        }))
    }

    /// Writes to the object's file. `None` if a commit has replaced the object in the meantime.
    fn write(&self, snapshot: Snapshot) -> Result<Option<Written>> {
        let path = &snapshot.object.path;
        let key = snapshot.object.key;
        let failed =
            |error| Error::of_object(key, format_args!("writing {}", path.display()), &error);
        let file = {
            let mut pages = snapshot.object.pages();
            let replaced = pages.replaced;
            if replaced.is_some_and(|replaced| replaced.end > snapshot.newest) {
                return Ok(None);
            }
            self.put_in_place(&snapshot.object, &mut pages)?;
            match self.objects.file(&snapshot.object, &mut pages)? {
                Some(file) => file,
                None => {
                    let file = self.create(path).map_err(failed)?;
                    self.objects
                        .file_was_made(&snapshot.object, &mut pages, file.clone());
                    file
                }
            }
        };
        let mut run: Vec<u8> = Vec::new();
        let mut run_start = 0;
        for (page_no, image, _) in &snapshot.pages {
            if *page_no == 1 {
                continue;
            }
            let offset = (u64::from(*page_no) - 1) * PAGE_BYTES as u64;
            if offset != run_start + run.len() as u64 || run.len() >= 64 * PAGE_BYTES {
                write_run(&*file, &mut run, run_start).map_err(failed)?;
                run_start = offset;
            }
            run.extend_from_slice(&image[..]);
        }
        write_run(&*file, &mut run, run_start).map_err(failed)?;
        write_first_page(&snapshot, &*file).map_err(failed)?;
        let bytes = u64::from(snapshot.size) * PAGE_BYTES as u64;
        if file.len().map_err(failed)? != bytes {
            file.set_len(bytes).map_err(failed)?;
        }
        Ok(Some(Written {
            snapshot,
            file: Some(file),
        }))
    }

    /// Renames a replacement of an object's file to the file's name. The commit that continues it is durable, and the redo
    /// position is not published before the name is. An error is not of the object alone: until it has its file, the log
    /// is kept.
    pub(super) fn put_in_place(&self, object: &Object, pages: &mut Pages) -> Result<()> {
        if let Some(replaced) = pages.replaced {
            let replacement = catalog::replacement_path(&object.path, replaced.commit);
            let renamed = self.shared.disk.rename(&replacement, &object.path);
            renamed.map_err(|error| {
                Error::io(format_args!("renaming {}", replacement.display()), &error)
            })?;
            pages.replaced = None;
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(dir) = path.parent() {
            self.shared.disk.create_dir_all(dir)?;
        }
        self.shared.disk.open(path, OpenMode::Create)
    }

    /// Closes files that will not be synced one by one.
    pub(super) fn close_files(&self, written: &mut [Written]) {
        for Written { snapshot, file } in written.iter_mut().rev() {
            if file.take().is_none() {
                break;
            }
            let object = &snapshot.object;
            self.objects.close_file(object, &mut object.pages());
        }
    }

    /// Drops the versions that the file now has.
    pub(super) fn drop_written(&self, snapshot: &Snapshot) {
        let object = &snapshot.object;
        {
            let mut pages = object.pages();
            let before = pages.overlay.len();
            pages.departures += 1;
            pages.failed_writes = 0;
            pages.has_file = true;
            for (page_no, _, lsn) in &snapshot.pages {
                if pages
                    .overlay
                    .get(page_no)
                    .is_some_and(|page| page.lsn == *lsn)
                {
                    pages.overlay.remove(page_no);
                }
            }
            if pages.overlay.is_empty() {
                // A large overlay shrinks its table, and the file is closed until it is read.
                pages.overlay.shrink_to_fit();
                self.objects.close_file(object, &mut pages);
            }
            self.objects.count_overlay(before, pages.overlay.len());
        }
        self.objects.forget_if_idle(object);
    }
}

/// Page 1 is always written, because it holds the commit number.
fn write_first_page(snapshot: &Snapshot, file: &dyn DiskFile) -> io::Result<()> {
    let mut page = match snapshot.pages.first() {
        Some((1, image, _)) => **image,
        _ => {
            let mut page = [0; PAGE_BYTES];
            file.read_at(&mut page, 0)?;
            if !header::is_database(&page) {
                let why = "it does not begin like a database: something else has changed it";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            page
        }
    };
    header::set_commit(&mut page, snapshot.commit, snapshot.size);
    file.write_at(&page, 0)
}

fn write_run(file: &dyn DiskFile, run: &mut Vec<u8>, start: u64) -> io::Result<()> {
    if !run.is_empty() {
        file.write_at(run, start)?;
        run.clear();
    }
    Ok(())
}
