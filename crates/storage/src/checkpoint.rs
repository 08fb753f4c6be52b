//! The checkpoint: object files catch up with the log, and the log's tail is recycled.
//!
//! 1. Advance the full-image horizon to the log's end, **redo**: from here on, each page's first image is a full image.
//! 2. Wait until everything before redo is durable.
//! 3. For each object with pages in the overlay: take a snapshot under its lock, wait until the snapshot's newest
//!    commit is durable, write it to the file. (A file never holds what is not durable in the log.) For a quarantined
//!    object, save the pages in a separate file ([`crate::quarantine`]). The file of an object that has ended is removed.
//! 4. When all are written, sync the files, and then the directories that got new names.
//! 5. Save the changes to the alarm index as a run. This follows step 3, because a commit before redo that has not
//!    updated the index yet keeps its object locked.
//! 6. Publish the manifest with redo and the runs.
//! 7. Only now drop the written versions from the overlay, remove old runs, archive the log before redo, and recycle
//!    its segments.
//!
//! The file of an object that a commit has replaced ([`crate::restore`]) has another name until step 3, which renames it to
//! the object's before anything is written to it.
//!
//! If one object's file cannot be written, the others still are, and nothing is lost: redo is not published, so the log
//! is kept for that object, which continues to run. When [`FILE_ATTEMPTS`] checkpoints in a row have failed, or commits
//! wait for log space, the object is quarantined. An error of a sync is final for the node, whichever file it was.
//! Every other error ends the checkpoint before anything is published; the next one tries again.
//!
//! On a machine with many cores, several threads share the files within steps 3 and 4 ([`parallel`]); the order of the
//! steps is the same.
//!
//! A crash at any point leaves a manifest whose redo position still covers everything that files may lack or hold in
//! part, because replay rewrites every page that was written since. Page 1 is written without a commit of it, but then
//! differs only in fields of its first sector, which a crash leaves old or new ([`header::set_commit`]). Commits continue during a checkpoint; an object is
//! locked only while its pages are listed.

use crate::alarms::{self, AlarmIndex};
use crate::archive::archiver::{self, Archiver, Horizon};
use crate::catalog;
use crate::disk::{Barrier, Disk, DiskFile, OpenMode, sync_names};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Lsn, ObjectKey, Page};
use crate::limits::{FILE_ATTEMPTS, MAX_FAILING_FILES, PAGE_BYTES, SYNC_ONE_BY_ONE};
use crate::log::segment_pool::SegmentPool;
use crate::manifest::{Manifest, Quarantine};
use crate::objects::ObjectTable;
use crate::overlay::{Object, Pages, header};
use crate::parallel;
use crate::quarantine;
use crate::shared::Shared;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The versions of an object's pages that a checkpoint writes.
struct Snapshot {
    object: Arc<Object>,
    pages: Vec<(u32, Arc<Page>, Lsn)>,
    size: u32,
    commit: CommitNo,
    newest: Lsn,
}

impl Snapshot {
    fn written(&self) -> (ObjectKey, archiver::Written) {
        let written = archiver::Written {
            commit: self.commit,
            newest: self.newest,
        };
        (self.object.key, written)
    }
}

/// A file that was written and must be synced.
struct Written {
    snapshot: Snapshot,
    /// Kept open while files are synced one by one; many files would need too many descriptors.
    file: Option<Arc<dyn DiskFile>>,
}

/// What a checkpoint has done to an object's file.
enum Outcome {
    Written(Written),
    Removed,
}

/// Progress on the object files.
#[derive(Default)]
struct Progress {
    written: Vec<Written>,
    /// Objects that have ended, whose files are removed.
    removed: Vec<Arc<Object>>,
    /// Objects whose files cannot be written.
    failing: Vec<(Arc<Object>, Error)>,
}

/// A quarantined object, and its new entry in the manifest; `None` if the entry is unchanged.
type Listed = (Arc<Object>, Option<Quarantine>);

/// Adds quarantined objects to the manifest's list.
fn list(manifest: &mut Manifest, quarantined: &[Listed]) {
    for (object, entry) in quarantined {
        if let Some(entry) = entry {
            let key = object.key.to_string();
            manifest.quarantined.insert(key, entry.clone());
        }
    }
}

/// What is known of the object files between two checkpoints.
pub(crate) struct Files {
    /// The objects whose files may be of later commits than those before the redo position, or removed by them. `None`
    /// if that is unknown, because a checkpoint has failed.
    pub(crate) ahead: Option<FxHashSet<ObjectKey>>,
}

/// Takes checkpoints, one at a time.
pub(crate) struct Checkpointer {
    shared: Arc<Shared>,
    objects: Arc<ObjectTable>,
    alarms: Arc<AlarmIndex>,
    segments: Arc<SegmentPool>,
    archiver: Arc<Archiver>,
    running: Mutex<Files>,
    taken: AtomicU64,
}

impl Checkpointer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        objects: Arc<ObjectTable>,
        alarms: Arc<AlarmIndex>,
        segments: Arc<SegmentPool>,
        archiver: Arc<Archiver>,
    ) -> Self {
        // A checkpoint that a crash has ended may have written the objects that recovery found in the log's tail.
        let in_tail = objects.all().iter().map(|object| object.key).collect();
        Self {
            shared,
            objects,
            alarms,
            segments,
            archiver,
            running: Mutex::new(Files {
                ahead: Some(in_tail),
            }),
            taken: AtomicU64::new(0),
        }
    }

    /// Checkpoints taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns whether enough log has accumulated for a checkpoint.
    pub(crate) fn is_due(&self) -> bool {
        let bytes = self.shared.options.checkpoint_bytes;
        let log = &self.shared.log;
        let since = log
            .durable()
            .get()
            .saturating_sub(log.full_image_horizon().get());
        let of_overlay = bytes.min(self.objects.max_overlay_bytes() / 2);
        since >= bytes || self.objects.overlay_bytes() >= of_overlay
    }

    /// No checkpoint runs while the guard exists, and all object files stay unchanged.
    ///
    /// # Errors
    /// The store was closed.
    pub(crate) fn pause(&self) -> Result<MutexGuard<'_, Files>> {
        let running = self.running.lock();
        self.shared.catalog.must_be_owned()?;
        Ok(running)
    }

    /// As [`Self::pause`]; `None` if a checkpoint is running.
    pub(crate) fn try_pause(&self) -> Result<Option<MutexGuard<'_, Files>>> {
        let running = self.running.try_lock();
        self.shared.catalog.must_be_owned()?;
        Ok(running)
    }

    /// Gives the directory up once no checkpoint runs. Later ones are refused.
    pub(crate) fn close(&self) {
        let _none = self.running.lock();
        self.shared.catalog.give_up();
    }

    /// Brings every object file up to date with what is durable now.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let Shared { log, threads, .. } = &*self.shared;
        let mut files = if *threads {
            self.running.lock()
        } else {
            // A commit made in the meantime, by the same thread, may need log space.
            let free = self.running.try_lock();
            free.ok_or_else(Error::no_space)?
        };
        self.shared.catalog.must_be_owned()?;
        log.must_not_have_failed()?;
        let unix_millis = self.shared.unix_millis();
        let redo = log.advance_full_image_horizon();
        log.wait_durable(redo, !threads)?;
        files.ahead = None;
        let result = self.write_files(Horizon { redo, unix_millis }, &mut files);
        match &result {
            Ok(()) => {
                self.taken.fetch_add(1, Ordering::Relaxed);
                self.shared.set_obstacle(None);
                if !log.wants_segment(1) {
                    self.shared.set_no_space(false);
                }
            }
            // The log is kept for that object, which may use only a part of the space.
            Err(error) if error.object().is_some() => self.shared.set_obstacle(None),
            Err(error) => {
                self.shared.note_failure(error);
                self.shared.set_obstacle(Some(error.clone()));
            }
        }
        log.notify_progress();
        result
    }

    fn write_files(&self, horizon: Horizon, known: &mut Files) -> Result<()> {
        let redo = horizon.redo;
        let Shared {
            disk, dir, catalog, ..
        } = &*self.shared;
        let failed = |error| {
            Error::io(
                format_args!("syncing the object files in {}", dir.display()),
                &error,
            )
        };
        // Opened before the writes, to report the errors of all of them.
        let barrier = disk.barrier(&dir.join("objects")).map_err(failed)?;
        let Progress {
            mut written,
            removed,
            failing,
        } = self.write_objects()?;
        let held_back = self.hold_back_or_quarantine(failing)?;
        let quarantined = self.save_quarantined()?;
        let threads = self.shared.parallel_threads();
        sync_files(&**disk, &mut written, &*barrier, threads)?;
        sync_removed(&**disk, &removed)?;
        match held_back {
            None => self.publish(redo, &quarantined)?,
            Some(_) if quarantined.is_empty() => {}
            Some(_) => self
                .shared
                .publish(|manifest| list(manifest, &quarantined))?,
        }
        let files = written.iter().map(|file| file.snapshot.written()).collect();
        if held_back.is_none() {
            known.ahead = Some(ahead_of(redo, &written, &removed));
        }
        for file in written {
            self.drop_written(&file.snapshot);
        }
        for object in removed {
            self.forget_ended(&object);
        }
        self.drop_saved(quarantined);
        if let Some(error) = held_back {
            return Err(error);
        }
        self.archiver.archive(horizon, &files)?;
        let archived = catalog.current().archived();
        if let Err(error) = self.segments.trim(archived) {
            tracing::warn!(%error, "cannot remove an unneeded segment");
        }
        Ok(())
    }

    /// Brings the files of all objects up to date, on several threads if the machine has many cores.
    fn write_objects(&self) -> Result<Progress> {
        let progress = Mutex::new(Progress::default());
        let threads = self.shared.parallel_threads();
        parallel::for_each(threads, &self.objects.all(), |object| {
            let mut outcome = self.write_object(object);
            if matches!(&outcome, Err(error) if error.kind() == ErrorKind::Busy) {
                self.close_files(&mut progress.lock().written);
                outcome = self.write_object(object);
            }
            let mut progress = progress.lock();
            match outcome {
                Ok(Some(Outcome::Written(file))) => progress.written.push(file),
                Ok(Some(Outcome::Removed)) => progress.removed.push(object.clone()),
                Ok(None) => {}
                Err(error) if error.object().is_some() => {
                    progress.failing.push((object.clone(), error));
                }
                Err(error) => return Err(error),
            }
            if progress.written.len() > SYNC_ONE_BY_ONE {
                self.close_files(&mut progress.written);
            }
            Ok(())
        })?;
        Ok(progress.into_inner())
    }

    /// Saves the changes to the alarm index, and publishes that files hold everything before `redo`.
    fn publish(&self, redo: Lsn, quarantined: &[Listed]) -> Result<()> {
        let Shared {
            disk,
            dir,
            log,
            catalog,
            threads,
            ..
        } = &*self.shared;
        let saved_runs = catalog.current().alarms.clone();
        let mut unsaved = self.alarms.unsaved();
        let runs = alarms::write(&**disk, dir, &saved_runs, redo, &mut unsaved, |lsn| {
            log.wait_durable(lsn, !threads)
        })?;
        let now = self.shared.wall_time();
        self.shared.publish(|manifest| {
            manifest.redo = redo.get();
            manifest.alarms = runs.clone();
            self.shared
                .note_clock(manifest, now, self.alarms.set_back());
            list(manifest, quarantined);
        })?;
        self.shared.clock_saved(now.steps);
        unsaved.saved();
        if runs != saved_runs
            && let Err(error) = alarms::remove_others(&**disk, dir, &runs)
        {
            // Harmless; the next start tries again.
            tracing::warn!(%error, "cannot remove old runs of the alarm index");
        }
        Ok(())
    }

    /// Returns whether commits wait, or soon would, because the log has reached its limit.
    fn commits_need_the_log(&self) -> bool {
        let shared = &self.shared;
        let next = self.segments.next_bytes(shared.needed_segment_bytes());
        let filled = shared.kept_log() + shared.log.room() + next;
        shared.log_is_full() || (shared.log.wants_segment(1) && filled > shared.log_bound())
    }

    /// Retries or quarantines the objects whose files cannot be written. Returns the error of one that is retried.
    fn hold_back_or_quarantine(&self, failing: Vec<(Arc<Object>, Error)>) -> Result<Option<Error>> {
        if failing.len() > MAX_FAILING_FILES {
            let (_, first) = &failing[0];
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "the files of {} objects cannot be written, too many to quarantine: check the disk. The first error: {first}",
                    failing.len()
                ),
            ));
        }
        let no_time = self.commits_need_the_log() || self.objects.overlay_is_full();
        let mut held_back = None;
        for (object, error) in failing {
            let mut pages = object.pages();
            pages.failed_writes += 1;
            // The next attempt reopens it.
            self.objects.close_file(&object, &mut pages);
            if pages.failed_writes >= FILE_ATTEMPTS || no_time {
                let why = format!("a checkpoint could not write its file: {error}");
                self.objects.quarantine(object.key, &mut pages, why);
            } else {
                tracing::error!(
                    object = %object.key, %error, attempt = pages.failed_writes,
                    "cannot write an object's file: keeping the log for it until the next checkpoint tries again"
                );
                held_back = Some(error);
            }
        }
        Ok(held_back)
    }

    /// Saves the pages that the files of quarantined objects lack.
    fn save_quarantined(&self) -> Result<Vec<Listed>> {
        let manifest = self.shared.catalog.current();
        let mut listed = Vec::new();
        for object in self.objects.all() {
            let (why, newest, ended) = {
                let pages = object.pages();
                match &pages.quarantined {
                    Some(why) => (why.clone(), pages.newest, pages.ended),
                    None => continue,
                }
            };
            let known = manifest.quarantine_of(object.key);
            // Pages written by an interrupted repair are ignored.
            if known.is_some_and(|known| known.aside.is_some()) {
                listed.push((object, known.cloned()));
                continue;
            }
            self.shared.log.wait_durable(newest, !self.shared.threads)?;
            self.put_in_place_durably(&object)?;
            let saved = quarantine::save(&self.shared, &object)?;
            let pages = saved.or_else(|| known.and_then(|known| known.pages.clone()));
            let entry = Quarantine {
                pages,
                ended: ended || known.is_some_and(|known| known.ended),
                ..Quarantine::new(why)
            };
            let changed = known != Some(&entry);
            listed.push((object, changed.then_some(entry)));
        }
        Ok(listed)
    }

    /// Gives a quarantined object the file that its saved pages continue.
    fn put_in_place_durably(&self, object: &Object) -> Result<()> {
        let mut pages = object.pages();
        if pages.replaced.is_none() {
            return Ok(());
        }
        self.put_in_place(object, &mut pages)?;
        drop(pages);
        let dirs = object.path.ancestors().skip(1).take(3);
        dirs.into_iter()
            .try_for_each(|dir| sync_names(&*self.shared.disk, dir))
    }

    /// Called once the manifest lists these objects and their missing pages are saved.
    fn drop_saved(&self, quarantined: Vec<Listed>) {
        self.objects
            .quarantine_is_listed(quarantined.iter().map(|(object, _)| object.key));
        for (object, _) in quarantined {
            let mut pages = object.pages();
            self.objects.count_overlay(pages.overlay.len(), 0);
            pages.overlay = FxHashMap::default();
        }
    }

    /// Brings one object's file up to date. `None` if it already is, or if the object is quarantined.
    fn write_object(&self, object: &Arc<Object>) -> Result<Option<Outcome>> {
        let Shared { log, threads, .. } = &*self.shared;
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
    fn forget_ended(&self, object: &Object) {
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
    fn put_in_place(&self, object: &Object, pages: &mut Pages) -> Result<()> {
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
    fn close_files(&self, written: &mut [Written]) {
        for Written { snapshot, file } in written.iter_mut().rev() {
            if file.take().is_none() {
                break;
            }
            let object = &snapshot.object;
            self.objects.close_file(object, &mut object.pages());
        }
    }

    /// Drops the versions that the file now has.
    fn drop_written(&self, snapshot: &Snapshot) {
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

/// The objects whose files a checkpoint has changed for commits after its redo position.
fn ahead_of(redo: Lsn, written: &[Written], removed: &[Arc<Object>]) -> FxHashSet<ObjectKey> {
    let written = written.iter().map(|file| &file.snapshot);
    let written = written.map(|snapshot| (snapshot.object.key, snapshot.newest));
    let removed = removed
        .iter()
        .map(|object| (object.key, object.pages().newest));
    let ahead = written.chain(removed).filter(|(_, newest)| *newest > redo);
    ahead.map(|(key, _)| key).collect()
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

/// Syncs the directories of removed files, also of those that an earlier checkpoint has removed and not synced.
fn sync_removed(disk: &dyn Disk, removed: &[Arc<Object>]) -> Result<()> {
    let dirs: BTreeSet<&Path> = removed.iter().filter_map(|of| of.path.parent()).collect();
    for dir in dirs {
        match disk.names(dir) {
            // The object never had a file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => sync_names(disk, dir)?,
        }
    }
    Ok(())
}

fn sync_files(
    disk: &dyn Disk,
    written: &mut [Written],
    barrier: &dyn Barrier,
    threads: usize,
) -> Result<()> {
    let one_by_one = written.iter().all(|written| written.file.is_some());
    if one_by_one {
        parallel::for_each(threads, written, |Written { snapshot, file }| {
            let path = &snapshot.object.path;
            let synced = file.as_ref().map_or(Ok(()), |file| file.sync());
            synced.map_err(|error| Error::sync(format_args!("syncing {}", path.display()), &error))
        })?;
    } else {
        barrier
            .wait()
            .map_err(|error| Error::sync("syncing the object files", &error))?;
    }
    // The next steps need descriptors, too.
    for file in &mut *written {
        file.file = None;
    }
    if !one_by_one {
        return Ok(());
    }
    // The directory of the file and its parent, which may be just as new. A file that already exists may come from an
    // earlier attempt that failed before syncing its name: its name is synced too.
    let paths = written.iter().map(|file| &file.snapshot.object.path);
    let dirs: BTreeSet<&Path> = paths
        .flat_map(|path| path.ancestors().skip(1).take(3))
        .collect();
    dirs.iter().try_for_each(|dir| sync_names(disk, dir))
}
