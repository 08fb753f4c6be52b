//! The archive: the history of every object, so that any commit of the last days can be restored.
//!
//! ```text
//! log [archived, redo) ── archiver ──▶ run, level 0 ── merge of 8 ──▶ run, level 1 ── … ──▶ fold ──▶ base
//!                                                                     (older than the retention: one snapshot an object)
//! ```
//!
//! - After a checkpoint has published its redo position, the [`archiver`] regroups the records before it by object,
//!   writes them compressed as a **run** ([`run`]), and publishes the run in the manifest together with the position up
//!   to which the log is archived. Only then are the log's segments before that position recycled.
//! - When an object's history since its last **snapshot** has outgrown its size, the run includes a new snapshot, taken
//!   from its file, which the checkpoint has just written. An object whose history starts in the middle also gets one:
//!   it is older than its archive, or was written while the archive was off.
//! - An object that is not written gets that snapshot from a **sweep** ([`sweep`]) in the background, so that the runs
//!   have every object, and a copy of them ([`copy`]) is enough to build a data directory.
//! - Runs of one level are merged into a run of the next ([`compactor`]), which keeps their number in the tens. History
//!   that is older than the retention, or exceeds the size cap, is folded: one snapshot of each object remains.
//! - The state at a commit is the newest snapshot before it plus the commits after that, without a hole ([`history`]).
//!
//! A run that is not in the manifest does not exist: a crash may leave files, which the next start removes. A run in
//! the manifest is durable. All bytes are checked when they are read; damage is an error that names the file, never a
//! wrong page.
//!
//! Runs may be in a store elsewhere alone ([`RemoteRuns`](crate::RemoteRuns)): after a lazy restore, or because the disk keeps only a
//! part of what is copied there ([`keeping`]). A store that does not answer is no damage: what needs such a run fails, and is tried again.
//!
//! No error of the archive's own files stops the node. An unreadable run is skipped, and commit numbers reveal the gap.
//! If runs cannot be written, for whatever reason, the log is kept for the next attempt as long as commits have space
//! ([`crate::StoreStats::archive_failing`]). When no space is left and retries have not helped, the history in that
//! part of the log is dropped, and an [`ArchiveHole`] in the manifest records it.

mod about;
pub(crate) mod archiver;
pub(crate) mod block;
pub(crate) mod chain;
pub(crate) mod compactor;
mod copy;
pub(crate) mod entry;
mod filter;
pub(crate) mod gathered;
pub(crate) mod history;
pub(crate) mod image;
pub(crate) mod index;
mod keeping;
pub(crate) mod lookup;
pub(crate) mod merge;
pub(crate) mod newest;
mod object_file;
mod page_map;
pub(crate) mod paged;
mod plan;
pub(crate) mod replaced;
pub(crate) mod run;
mod section;
pub(crate) mod snapshot;
pub(crate) mod stream;
pub(crate) mod sweep;

pub use copy::{ArchivedRun, HistoryCopy};

use crate::disk::Disk;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::ObjectKey;
use crate::limits::{LOG_TAIL_FACTOR, RESTORE_PAGES_IN_MEMORY};
use crate::manifest::{ArchiveHole, ArchiveState, Manifest, RunMeta};
use crate::options::{ArchiveOptions, StoreOptions};
use crate::shared::Shared;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::timing;
use entry::Head;
use image::Image;
use run::{RunReader, RunWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stream::Stream;

/// The archive's directory in the data directory.
pub(crate) const DIR: &str = "archive";

/// Prepares the archive's directory when a store is opened: removes what a crash has left, and records in `manifest`,
/// which the caller publishes, where archiving begins or that it has ended.
pub(crate) fn prepare(
    disk: &dyn Disk,
    data_dir: &Path,
    options: &StoreOptions,
    manifest: &mut Manifest,
) -> Result<()> {
    if options.remote_runs.is_none() && !manifest.archive.remote.is_empty() {
        return Err(Error::refused(format!(
            "{} runs of the history of {} are in an object store alone: set archive.url, and archive.key_file if they are \
             encrypted, to where they are; nothing was changed",
            manifest.archive.remote.len(),
            data_dir.display()
        )));
    }
    let is_shared = options.has_shared_runs();
    let options = options.archive;
    let dir = data_dir.join(DIR);
    let failed = |error| {
        Error::io(
            format_args!("opening the archive {}", dir.display()),
            &error,
        )
    };
    if manifest.hydration.is_some() && !options.enabled && !is_shared {
        return Err(Error::refused(format!(
            "objects of {} have their states in the archive alone until the restore has completed: open it with the archive switched on",
            data_dir.display()
        )));
    }
    let redo = manifest.redo;
    let state = &mut manifest.archive;
    state.archived = match (options.enabled, state.archived) {
        (false, _) => None,
        (true, archived) => Some(archived.unwrap_or_else(|| {
            // Nothing is missing of a new directory.
            if redo > 0 {
                state.miss_commits(redo);
            }
            redo
        })),
    };
    if options.enabled {
        disk.create_dir_all(&dir).map_err(failed)?;
    } else {
        // Their commits will not be archived.
        state.replacements.clear();
    }
    let known = |name: &str| {
        let new_states = state.replacements.iter().filter_map(|of| of.run.as_ref());
        let here = state.runs.iter().filter(|run| state.is_here(run));
        let mut runs = here.chain(new_states);
        runs.any(|run| RunMeta::file_name(run.number) == name)
    };
    // Nothing else is touched: the directory may be the root of a volume, or hold copies of runs.
    for name in disk.list(&dir).map_err(failed)? {
        let path = dir.join(&name);
        if is_own(&name)
            && !known(&name)
            && let Err(error) = disk.remove(&path)
        {
            tracing::warn!(%error, path = %path.display(), "cannot remove an unneeded file of the archive");
        }
    }
    Ok(())
}

/// The archive of an open store: its directory, and the state that the archiver and the compactor share.
pub(crate) struct Archive {
    pub(crate) shared: Arc<Shared>,
    dir: PathBuf,
    next_run: AtomicU64,
    next_scratch: AtomicU64,
    /// True if there may be work for the compactor.
    work: Mutex<bool>,
    wake: Condvar,
    /// Makes merges stop at their next object.
    stopping: AtomicBool,
    /// Why the last step did not archive everything; `None` if it did.
    failing: Mutex<Option<Error>>,
    /// Consecutive steps that found the disk full.
    refused: AtomicU32,
    /// How often history was dropped.
    losses: AtomicU64,
    /// Objects that a sweep has found to have no complete state in the runs, and could not archive.
    missing: Mutex<BTreeSet<ObjectKey>>,
    /// Objects that the sweep under way has yet to look at, and which may have none.
    candidates: AtomicU64,
    /// A sweep may find more than the last one.
    sweep_again: AtomicBool,
    /// Runs that stores share and that could not be merged, and since when.
    unmerged: Mutex<BTreeMap<u64, Instant>>,
    /// The runs that a store elsewhere has, by their numbers, each with what the store needs to find it.
    copied: Mutex<BTreeMap<u64, String>>,
}

impl Archive {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let manifest = shared.catalog.current();
        let next_run = manifest.archive.newest + 1;
        Self {
            dir: shared.dir.join(DIR),
            shared,
            next_run: AtomicU64::new(next_run),
            next_scratch: AtomicU64::new(0),
            // The size or retention may have been reduced in the configuration.
            work: Mutex::new(true),
            wake: Condvar::default(),
            stopping: AtomicBool::new(false),
            failing: Mutex::default(),
            refused: AtomicU32::new(0),
            losses: AtomicU64::new(0),
            missing: Mutex::default(),
            candidates: AtomicU64::new(0),
            sweep_again: AtomicBool::new(false),
            unmerged: Mutex::default(),
            copied: Mutex::default(),
        }
    }

    fn options(&self) -> &ArchiveOptions {
        &self.shared.options.archive
    }

    /// The archive's part of the manifest.
    pub(crate) fn state(&self) -> ArchiveState {
        self.shared.catalog.current().archive.clone()
    }

    /// Returns whether objects may have no files yet. Then the runs have their only states: none is merged or removed, and an
    /// unreadable one is not passed over.
    pub(crate) fn is_only_copy(&self) -> bool {
        self.shared.catalog.current().hydration.is_some()
    }

    /// Publishes a change of the archive with the manifest.
    pub(crate) fn publish(&self, change: impl FnOnce(&mut ArchiveState)) -> Result<()> {
        self.shared.publish(|manifest| {
            change(&mut manifest.archive);
            manifest.archive.note_numbers();
        })
    }

    /// True if the manifest lists a run.
    pub(crate) fn has(&self, number: u64) -> bool {
        let manifest = self.shared.catalog.current();
        manifest.archive.runs.iter().any(|run| run.number == number)
    }

    /// Begins a run.
    pub(crate) fn create_run(&self, meta: RunMeta, compression: i32) -> Result<RunWriter> {
        let threads = self.shared.parallel_threads();
        let Shared { disk, catalog, .. } = &*self.shared;
        let manifest = catalog.current();
        RunWriter::create(
            disk.clone(),
            &manifest,
            &self.dir,
            meta,
            compression,
            threads,
        )
    }

    /// The archive's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the files of runs that the manifest no longer lists. If one stays, the next start removes it. A store elsewhere keeps
    /// its runs until no copy lists them.
    fn remove_runs(&self, runs: &[RunMeta]) {
        for run in runs {
            let path = self.dir.join(RunMeta::file_name(run.number));
            match self.shared.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "cannot remove an old run of the archive");
                }
                _ => {}
            }
        }
    }

    /// Opens a run, where the manifest says that it is: a file that is lost is never read from elsewhere.
    fn reader(&self, run: &RunMeta) -> Result<RunReader> {
        let Shared {
            disk,
            catalog,
            options,
            ..
        } = &*self.shared;
        let place = || {
            let manifest = catalog.current();
            manifest.archive.remote.get(&run.number).cloned()
        };
        let far = |place: String| RunReader::open_remote(options, &self.dir, run, &place);
        if let Some(place) = place() {
            return far(place);
        }
        let opened = RunReader::open(&**disk, &self.dir, run);
        match opened {
            // It may have left the disk since the look at the manifest.
            Err(error) => place().map_or(Err(error), far),
            opened => opened,
        }
    }

    /// A number for a new run. Once the run is listed, it is never used again.
    fn new_number(&self) -> u64 {
        self.next_run.fetch_add(1, Ordering::Relaxed)
    }

    /// Records damaged runs. Objects that are written from now on get a new base.
    fn set_aside(&self, damaged: &BTreeSet<u64>) -> Result<()> {
        self.publish(|state| {
            state.damaged.extend(damaged);
            state.lose_history();
        })
    }

    /// Bytes that the archive leaves free on the disk: the size of a full log, but not more than the archive takes.
    fn reserve(&self) -> u64 {
        let full_log = self.shared.options.checkpoint_bytes;
        let full_log = full_log.saturating_mul(LOG_TAIL_FACTOR);
        full_log.min(self.state().bytes_here())
    }

    /// The number of objects known to have no complete state in the runs.
    pub(crate) fn missing(&self) -> u64 {
        self.missing.lock().len() as u64 + self.candidates.load(Ordering::Relaxed)
    }

    /// The objects that the last sweep has found to have no complete state in the runs, and could not archive.
    pub(crate) fn missing_objects(&self) -> BTreeSet<ObjectKey> {
        self.missing.lock().clone()
    }

    /// Records what a sweep knows of the objects without a complete state.
    pub(crate) fn set_missing(&self, missing: &BTreeSet<ObjectKey>, candidates: usize) {
        self.missing.lock().clone_from(missing);
        self.candidates.store(candidates as u64, Ordering::Relaxed);
    }

    /// Records that an object has a complete state, or is gone.
    fn is_not_missing(&self, key: ObjectKey) {
        if self.missing.lock().remove(&key) {
            self.sweep_again();
        }
    }

    /// Has the next sweep begin soon, because an object that had no complete state may have one.
    pub(crate) fn sweep_again(&self) {
        self.sweep_again.store(true, Ordering::Release);
    }

    pub(crate) fn take_sweep_again(&self) -> bool {
        self.sweep_again.swap(false, Ordering::AcqRel)
    }

    /// Ends the compactor's thread.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        drop(self.work.lock());
        self.wake.notify_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || self.shared.log.failed()
    }

    /// There may be runs to merge.
    pub(crate) fn request_compaction(&self) {
        *self.work.lock() = true;
        self.wake.notify_all();
    }

    /// Waits for work for the compactor. Returns false to stop.
    fn await_compaction(&self) -> bool {
        let mut work = self.work.lock();
        while !*work && !self.is_stopping() {
            work = self.wake.wait(work);
        }
        *work = false;
        !self.is_stopping()
    }

    /// A step has archived everything.
    fn succeeded(&self) {
        *self.failing.lock() = None;
        self.refused.store(0, Ordering::Release);
    }

    /// A step has failed. If the disk is full, the compactor may make room.
    fn failed(&self, error: &Error) {
        *self.failing.lock() = Some(error.clone());
        if error.kind() == ErrorKind::NoSpace {
            self.refused.fetch_add(1, Ordering::AcqRel);
            self.request_compaction();
        }
    }

    /// Waits, unless the store is closed.
    pub(crate) fn pause(&self, pause: Duration) {
        let begun = timing::now();
        while let Some(left) = pause.checked_sub(begun.elapsed()) {
            if self.is_stopping() {
                break;
            }
            let work = self.work.lock();
            drop(self.wake.wait_timeout(work, left));
        }
    }

    /// Publishes the loss of a part of the history, which `change` removes from the archive.
    fn give_up(&self, hole: ArchiveHole, change: impl FnOnce(&mut ArchiveState)) -> Result<()> {
        tracing::error!(%hole, "dropping history: its individual commits can no longer be restored");
        self.losses.fetch_add(1, Ordering::Relaxed);
        self.publish(|state| {
            change(state);
            state.add_hole(hole);
        })
    }

    /// How often history was dropped since the store was opened.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// True while the log cannot be archived.
    pub(crate) fn failing(&self) -> bool {
        self.failure().is_some()
    }

    /// Why the log cannot be archived; `None` if it can.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failing.lock().clone()
    }

    /// Bytes that can still be written to the disk.
    pub(crate) fn available(&self) -> u64 {
        // If the disk does not report it, writing will tell.
        self.shared.disk.available(&self.dir).unwrap_or(u64::MAX)
    }

    /// An empty image. It uses a scratch file if it grows large.
    pub(crate) fn new_image(&self) -> Image {
        let number = self.next_scratch.fetch_add(1, Ordering::Relaxed);
        let scratch = self.dir.join(format!("{number}.scratch"));
        Image::new(self.shared.disk.clone(), scratch, RESTORE_PAGES_IN_MEMORY)
    }

    /// Reads the whole archive and returns the number of entries. Damage is an error that names the file.
    pub(crate) fn verify(&self) -> Result<u64> {
        let runs = self.state().runs;
        let mut entries = 0;
        for run in &runs {
            match self.verify_run(run) {
                // A merge has replaced it in the meantime: ignore the result.
                Err(_) if !self.has(run.number) => return self.verify(),
                verified => entries += verified?,
            }
        }
        Ok(entries)
    }

    /// Reads a run and returns the number of entries.
    fn verify_run(&self, run: &RunMeta) -> Result<u64> {
        let mut entries = 0;
        verify(self.reader(run)?, |_, _| {
            entries += 1;
            Ok(())
        })?;
        Ok(entries)
    }
}

/// Reads a whole run. `see` gets the head of each entry, and how much of the file has been read.
pub(crate) fn verify(
    mut reader: RunReader,
    mut see: impl FnMut(&Head, u64) -> Result<()>,
) -> Result<()> {
    reader.verify_sections()?;
    let mut stream = Stream::run(reader)?;
    while let Some(entry) = stream.current() {
        see(&entry.head, stream.reached())?;
        stream.advance()?;
    }
    Ok(())
}

/// Returns whether a file name is one that the archive uses.
pub(crate) fn is_own(name: &str) -> bool {
    let digits = |text: &str, hex: bool| {
        let digit = |b: u8| b.is_ascii_digit() || (hex && matches!(b, b'a'..=b'f'));
        !text.is_empty() && text.bytes().all(digit)
    };
    match name.rsplit_once('.') {
        Some((number, "run")) => number.len() == 16 && digits(number, true),
        Some((number, "scratch")) => digits(number, false),
        _ => false,
    }
}
