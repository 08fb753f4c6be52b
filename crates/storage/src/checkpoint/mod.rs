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

mod failing;
mod file;
mod sync;

use crate::alarms::{self, AlarmIndex};
use crate::archive::archiver::{Archiver, Horizon};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{Lsn, ObjectKey};
use crate::limits::SYNC_ONE_BY_ONE;
use crate::log::segment_pool::SegmentPool;
use crate::objects::ObjectTable;
use crate::overlay::Object;
use crate::parallel;
use crate::shared::Shared;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use failing::{Listed, list};
use file::{Outcome, Written};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use sync::{sync_files, sync_removed};

/// Progress on the object files.
#[derive(Default)]
struct Progress {
    written: Vec<Written>,
    /// Objects that have ended, whose files are removed.
    removed: Vec<Arc<Object>>,
    /// Objects whose files cannot be written.
    failing: Vec<(Arc<Object>, Error)>,
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
    /// This checkpoint has met a run that cannot be read now: objects that need runs stay in memory.
    lacks_runs: AtomicBool,
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
            lacks_runs: AtomicBool::new(false),
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
        let Shared { disk, dir, .. } = &*self.shared;
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
        if let Err(error) = self.segments.trim(self.shared.needed_log()) {
            tracing::warn!(%error, "cannot remove an unneeded segment");
        }
        Ok(())
    }

    /// Brings the files of all objects up to date, on several threads if the machine has many cores.
    fn write_objects(&self) -> Result<Progress> {
        let progress = Mutex::new(Progress::default());
        self.lacks_runs.store(false, Ordering::Relaxed);
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
