//! The checkpoint: object files catch up with the log, and the log's tail is given back.
//!
//! 1. Raise the floor to the log's end, **redo**: from here on each page's first image is full.
//! 2. Wait until everything before redo is durable.
//! 3. For each object with pages in the overlay: take a snapshot under its lock, wait until the snapshot's newest commit
//!    is durable, write it to the file. (A file never holds what is not durable in the log.)
//! 4. Sync the files and the directories that got new names.
//! 5. Save what has changed in the alarm index as a run. After step 3: a commit before redo that has not told the index
//!    yet keeps its object locked.
//! 6. Publish the manifest with redo and the runs.
//! 7. Only now drop the written versions from the overlay, remove old runs, archive the log before redo, and recycle its
//!    segments.
//!
//! A crash anywhere leaves a manifest whose redo position still covers everything that the files may lack or hold in
//! part, because replay rewrites every page that was written since. Commits go on all the time; an object is locked
//! only while its pages are listed.

use crate::alarms;
use crate::archive;
use crate::broken::{Variant, broken};
use crate::disk::{Barrier, DiskFile, OpenMode};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Lsn, ObjectKey, Page};
use crate::limits::{PAGE_BYTES, PREPARED_SEGMENTS, SYNC_ONE_BY_ONE};
use crate::overlay::{FileState, Object, Pages, header};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The versions of an object's pages that a checkpoint writes.
struct Snapshot {
    object: Arc<Object>,
    pages: Vec<(u32, Arc<Page>, Lsn)>,
    size: u32,
    commit: CommitNo,
    newest: Lsn,
}

impl Snapshot {
    fn written(&self) -> (ObjectKey, archive::step::Written) {
        let written = archive::step::Written {
            commit: self.commit,
            newest: self.newest,
        };
        (self.object.key, written)
    }
}

/// A file that was written and must be synced.
struct Written {
    snapshot: Snapshot,
    /// Open while files are synced one by one; many files would need too many descriptors.
    file: Option<Arc<dyn DiskFile>>,
}

impl Engine {
    /// Brings every object file up to date with what is durable now.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let _one = if self.threads {
            self.checkpointing.lock()
        } else {
            // A commit that is made meanwhile, by the same thread, may need room.
            let free = self.checkpointing.try_lock();
            free.ok_or_else(Error::no_space)?
        };
        let redo = self.log.raise_floor();
        if !broken(Variant::FileBeforeLog) {
            self.log.wait_durable(redo, !self.threads)?;
        }
        let result = self.write_files(redo);
        match &result {
            Ok(()) => {
                self.checkpoints.fetch_add(1, Ordering::Relaxed);
                if !self.log.wants_segment(1) {
                    self.set_no_space(false);
                }
            }
            Err(error) => self.judge(error),
        }
        self.log.notify_progress();
        result
    }

    fn write_files(&self, redo: Lsn) -> Result<()> {
        let failed = |error| {
            Error::io(
                format_args!("syncing the object files in {}", self.dir.display()),
                &error,
            )
        };
        // Opened before the writes, so that it reports the errors of all of them.
        let barrier = self
            .disk
            .barrier(&self.dir.join("objects"))
            .map_err(failed)?;
        let mut written = Vec::new();
        let mut quarantined = Vec::new();
        for object in self.live_objects() {
            match self.snapshot(&object)? {
                Some(Ok(snapshot)) => {
                    if !broken(Variant::FileBeforeLog) {
                        self.log.wait_durable(snapshot.newest, !self.threads)?;
                    }
                    written.push(self.write(snapshot)?);
                    give_back_descriptors(&mut written);
                }
                Some(Err(why)) => quarantined.push((object, why)),
                None => {}
            }
        }
        if broken(Variant::SegmentsFreedEarly) {
            self.shelf.trim(redo).map_err(failed)?;
            self.shelf.prepare()?;
        }
        sync_files(self, &written, &*barrier)?;
        let saved_runs = self.manifest.lock().alarms.clone();
        let mut unsaved = self.alarms.unsaved();
        let runs = alarms::write(
            &*self.disk,
            &self.dir,
            &saved_runs,
            redo,
            &mut unsaved,
            |lsn| self.log.wait_durable(lsn, !self.threads),
        )?;
        {
            let mut manifest = self.manifest.lock();
            let mut changed = manifest.clone();
            changed.redo = redo.get();
            changed.alarms = runs.clone();
            let named = quarantined
                .iter()
                .map(|(object, why)| (object.key.to_string(), why.clone()));
            changed.quarantined.extend(named);
            self.store_manifest(&changed)?;
            *manifest = changed;
        }
        unsaved.saved();
        if runs != saved_runs {
            alarms::remove_others(&*self.disk, &self.dir, &runs).map_err(failed)?;
        }
        let files = written.iter().map(|file| file.snapshot.written()).collect();
        for file in written {
            self.drop_written(&file.snapshot);
        }
        for (object, _) in quarantined {
            // The manifest refuses the object from now on; its pages would only count against the others.
            let mut pages = object.pages();
            self.count_overlay(pages.overlay.len(), 0);
            pages.overlay = FxHashMap::default();
        }
        self.archive_log(redo, &files)?;
        let archived = self.manifest.lock().archived();
        self.shelf.trim(archived).map_err(failed)
    }

    /// The committed pages that the file lacks. `Some(Err)`: the object is quarantined.
    fn snapshot(&self, object: &Arc<Object>) -> Result<Option<Result<Snapshot, String>>> {
        let mut pages = object.pages();
        if pages.tail.is_some() {
            self.look_at_file(object, &mut pages)?;
        }
        if let Some(why) = &pages.quarantined {
            return Ok(Some(Err(why.clone())));
        }
        if pages.overlay.is_empty() || (pages.open && broken(Variant::RedoTooFar)) {
            return Ok(None);
        }
        let mut list: Vec<_> = pages
            .overlay
            .iter()
            .map(|(&no, page)| (no, page.image.clone(), page.lsn))
            .collect();
        list.sort_unstable_by_key(|(page_no, _, _)| *page_no);
        Ok(Some(Ok(Snapshot {
            object: object.clone(),
            pages: list,
            size: pages.size,
            commit: pages.commit,
            newest: pages.newest,
        })))
    }

    fn write(&self, snapshot: Snapshot) -> Result<Written> {
        let path = &snapshot.object.path;
        let failed = |error| Error::io(format_args!("writing {}", path.display()), &error);
        let file = {
            let mut pages = snapshot.object.pages();
            match self.file(&snapshot.object, &mut pages)? {
                Some(file) => file,
                None => {
                    let file = self.create(path).map_err(failed)?;
                    pages.file = FileState::Open(file.clone());
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
        Ok(Written {
            snapshot,
            file: Some(file),
        })
    }

    fn create(&self, path: &Path) -> std::io::Result<Arc<dyn DiskFile>> {
        if let Some(dir) = path.parent() {
            self.disk.create_dir_all(dir)?;
        }
        self.disk.open(path, OpenMode::Create)
    }

    /// Forgets the versions that the file has now.
    fn drop_written(&self, snapshot: &Snapshot) {
        let object = &snapshot.object;
        {
            let mut pages = object.pages();
            let before = pages.overlay.len();
            for (page_no, _, lsn) in &snapshot.pages {
                if pages
                    .overlay
                    .get(page_no)
                    .is_some_and(|page| page.lsn == *lsn || broken(Variant::OverlayDroppedEarly))
                {
                    pages.overlay.remove(page_no);
                }
            }
            if pages.overlay.is_empty() {
                release(&mut pages);
            }
            self.count_overlay(before, pages.overlay.len());
        }
        self.forget_if_idle(object);
    }

    /// What has to be done from time to time: prepare segments, checkpoint when it is due.
    pub(crate) fn keep_house(&self) -> Result<()> {
        while self.log.wants_segment(PREPARED_SEGMENTS) && !self.log_is_full() {
            match self.shelf.prepare() {
                Ok(()) => {
                    self.log.add_segment();
                    self.set_no_space(false);
                }
                Err(error) => {
                    self.judge(&error);
                    // One segment is enough to go on with, and a checkpoint may free others.
                    if self.log.segments_ready() > 0 || self.log_tail() > 0 {
                        self.log.notify_progress();
                        break;
                    }
                    return Err(error);
                }
            }
        }
        if !self.threads {
            while self.keep_archive()? {}
        }
        if self.wants_checkpoint() || self.log_is_full() || self.no_space() {
            self.checkpoint()?;
        }
        Ok(())
    }
}

/// Page 1 is always written, with the commit number in it.
fn write_first_page(snapshot: &Snapshot, file: &dyn DiskFile) -> std::io::Result<()> {
    let mut page = match snapshot.pages.first() {
        Some((1, image, _)) => **image,
        _ => {
            let mut page = [0; PAGE_BYTES];
            file.read_at(&mut page, 0)?;
            page
        }
    };
    header::mend(&mut page, snapshot.commit, snapshot.size);
    file.write_at(&page, 0)
}

/// Beyond the number that is synced one by one, nothing needs the descriptors.
fn give_back_descriptors(written: &mut [Written]) {
    if written.len() <= SYNC_ONE_BY_ONE {
        return;
    }
    for Written { snapshot, file } in written.iter_mut().rev() {
        if file.take().is_none() {
            break;
        }
        snapshot.object.pages().file = FileState::Unknown;
    }
}

/// An overlay that was large gives its table back, and the descriptor is closed until somebody reads.
fn release(pages: &mut Pages) {
    pages.overlay.shrink_to_fit();
    pages.file = FileState::Unknown;
}

fn write_run(file: &dyn DiskFile, run: &mut Vec<u8>, start: u64) -> std::io::Result<()> {
    if !run.is_empty() {
        file.write_at(run, start)?;
        run.clear();
    }
    Ok(())
}

fn sync_files(engine: &Engine, written: &[Written], barrier: &dyn Barrier) -> Result<()> {
    if written.len() <= SYNC_ONE_BY_ONE {
        return sync_each(engine, written);
    }
    barrier
        .wait()
        .map_err(|error| Error::new(ErrorKind::Io, format!("syncing the object files: {error}")))
}

fn sync_each(engine: &Engine, written: &[Written]) -> Result<()> {
    // An error of a sync says nothing about space: it is final.
    let failed = |path: &Path, error: std::io::Error| {
        Error::new(
            ErrorKind::Io,
            format!("syncing {}: {error}", path.display()),
        )
    };
    // A file that is there already may have been made by an attempt that did not come so far: its name is synced too.
    let mut dirs: BTreeSet<PathBuf> = BTreeSet::new();
    for Written { snapshot, file } in written {
        let path = &snapshot.object.path;
        if let Some(file) = file {
            file.sync().map_err(|error| failed(path, error))?;
        }
        // The directory of the file, and that of its directory, which may be as new.
        dirs.extend(path.ancestors().skip(1).take(3).map(Path::to_owned));
    }
    dirs.iter().try_for_each(|dir| {
        engine
            .disk
            .sync_dir(dir)
            .map_err(|error| failed(dir, error))
    })
}
