//! Builds a data directory from the runs of an archive and a manifest, which are what is left of a lost one, and perhaps from
//! the tail of its log.
//!
//! 1. The manifest must be of a moment at which everything was archived, each run that it lists must be there, whole, and so
//!    must be the parts of the log ([`tail`]). Nothing is written before that is known.
//! 2. The marker `RESTORING` is made durable ([`unfinished`]): until it is gone, no store opens the directory. What an
//!    interrupted restore has left is removed.
//! 3. The transactions of the tail become runs.
//! 4. The file of each object is written with its pages as of its newest commit ([`objects`]), or as of a time ([`past`]).
//!    In the latter case each object whose newest commit is later gets another commit, which restores it: a new run has
//!    them. A lazy restore leaves the files to the store that opens the directory ([`crate::hydration`]).
//! 5. All files and names are synced.
//! 6. The manifest is published, and the marker removed. Then the tail is.
//!
//! Commits that were neither archived nor in the tail are lost, but others may have seen them. So each position, commit number
//! and timeline that follows is above all that may have been seen: see [`continued`].

mod continued;
mod objects;
mod past;
mod progress;
mod source;
mod tail;
mod unfinished;

pub use progress::RestoreProgress;
pub(crate) use tail::{DIR as TAIL_DIR, remove as remove_tail};
pub(crate) use unfinished::must_be_finished;

use crate::archive;
use crate::catalog;
use crate::disk::{Disk, sync_names};
use crate::error::{Error, Result};
use crate::limits::{LARGE_OBJECT_BYTES, MIN_SEGMENT_BYTES, PAGE_BYTES};
use crate::log::LOG_DIR;
use crate::log::segment::{Segment, SegmentHeader};
use crate::manifest::{HydrationState, Manifest, Quarantine};
use crate::options::StoreOptions;
use crate::parallel;
use crate::quarantine::QuarantinedObject;
use abide_macros::Setters;
use objects::{Built, Objects};
use progress::Progress;
use source::Source;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tail::Tail;

/// What [`restore_directory`] has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredDirectory {
    /// The restored objects.
    pub objects: u64,
    /// The bytes of their files, as far as they were written.
    pub bytes: u64,
    /// The transactions that were not in the archive, but only in the tail of the log.
    pub log_commits: u64,
    /// The time of the last of them, in milliseconds since 1970.
    pub last_millis: Option<u64>,
    /// Objects that are quarantined, because the archive does not have the whole state to restore.
    pub quarantined: Vec<QuarantinedObject>,
}

/// How a data directory is restored.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The moment, in milliseconds since 1970. Default: the end of the archive and of the tail of the log.
    #[setters(into)]
    pub at: Option<u64>,
    /// The directory is for inspection, beside the node that it is a copy of: [`Store::is_for_inspection`]. Default false.
    ///
    /// [`Store::is_for_inspection`]: crate::Store::is_for_inspection
    pub inspect: bool,
    /// No object files are written: the directory can be opened at once, and objects get their files when they are needed, or
    /// in the background ([`Store::hydrate`]). The archive must stay switched on until then. The runs are not read as a
    /// whole, so the caller has checked them. Default false.
    ///
    /// [`Store::hydrate`]: crate::Store::hydrate
    pub lazy: bool,
    /// After a lazy restore, objects of at least this size in bytes are opened before they have files: their pages are read from
    /// the archive as they are needed ([`Store::large_cold_objects`]). Default [`LARGE_OBJECT_BYTES`].
    ///
    /// [`Store::large_cold_objects`]: crate::Store::large_cold_objects
    pub large_bytes: u64,
    /// The runs that stay in a store elsewhere, by their numbers, each with what [`StoreOptions::remote_runs`] needs to find it.
    /// They are not in the directory `archive`, and are read when they are needed, now and by each store that opens the directory.
    /// Only with `lazy`. Default none.
    pub remote: BTreeMap<u64, String>,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        Self {
            at: None,
            inspect: false,
            lazy: false,
            large_bytes: LARGE_OBJECT_BYTES,
            remote: BTreeMap::new(),
        }
    }
}

impl RestoreOptions {
    fn large_pages(&self) -> u32 {
        let pages = self.large_bytes.div_ceil(PAGE_BYTES as u64);
        u32::try_from(pages).unwrap_or(u32::MAX)
    }
}

/// Builds a data directory that [`Store::open`](crate::Store::open) opens. `dir` is empty except for the directory
/// `archive` with the runs that the manifest lists, and perhaps the directory `tail`. `manifest` has the bytes of a manifest at
/// a moment at which the archive was complete.
///
/// In `tail`, files with names of 16 hex digits and `.part` have the bytes of parts of the log
/// ([`Store::log_part`](crate::Store::log_part)), in the order of their names: the first begins at or before the end of the
/// archive, and each one where the one before it ends. A transaction whose end they lack is left out. The directory
/// is removed at the end.
///
/// Each object is as after its newest commit in the archive and the tail or, with [`RestoreOptions::at`], after its newest
/// commit until then: an object that was created later does not exist, and one that was deleted later exists again. Every
/// object is on a new timeline. Later commits have higher positions than all that the lost directory had.
///
/// If it is interrupted, it can be repeated, and [`Store::open`](crate::Store::open) refuses the directory until then. Of
/// `options`, only the clock, the number of cores and the store of remote runs count. `progress` is called from several threads.
///
/// # Errors
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused): the directory is not empty, the manifest cannot be used, or the parts of
/// the log do not continue the archive and each other. [`ErrorKind::Damaged`](crate::ErrorKind::Damaged): a run is missing or
/// damaged, or a part is damaged; the message names its file. Nothing has been written in these cases.
/// [`ErrorKind::Input`](crate::ErrorKind::Input): the history of some objects begins after that time; the message says when.
/// Otherwise a disk error.
#[allow(clippy::needless_pass_by_value, reason = "as a store is opened")]
pub fn restore_directory(
    disk: Arc<dyn Disk>,
    dir: &Path,
    manifest: &[u8],
    how: RestoreOptions,
    options: &StoreOptions,
    progress: &(dyn Fn(RestoreProgress) + Sync),
) -> Result<RestoredDirectory> {
    let at = how.at;
    let mut old = Manifest::decode(manifest, Path::new("the copy of the manifest"))?;
    if old.archive.archived != Some(old.redo) {
        return Err(Error::refused(
            "the copy of the manifest is of a moment at which the archive was not complete: use another copy",
        ));
    }
    leave_runs(&mut old, &how)?;
    if how.lazy {
        may_be_lazy(&old, at)?;
    }
    leave_runs(&mut old, &how)?;
    unfinished::must_be_empty(&*disk, dir)?;
    let failed = |error| Error::io(format_args!("restoring {}", dir.display()), &error);
    disk.create_dir_all(dir).map_err(failed)?;
    let _lock = catalog::lock(&*disk, dir)?;
    unfinished::must_be_empty(&*disk, dir)?;

    let tail = Tail::open(&*disk, dir, &old)?;
    tail.name_classes(&mut old);
    let threads = parallel::threads(options.cores_or_all());
    let progress = Progress::new(progress, old.archive.bytes());
    let mut source = if how.lazy {
        Source::open_unread(&*disk, dir, &old, options)?
    } else {
        Source::open(&*disk, dir, &old, threads, &progress)?
    };
    progress.has_objects(source.count(how.large_pages())?.objects);
    if let Some(at) = at
        && tail.is_empty()
    {
        past::must_be_known(&source, at, threads)?;
    }
    unfinished::begin(&*disk, dir)?;

    let objects_dir = dir.join("objects");
    let archive_dir = dir.join(archive::DIR);
    for made in [&objects_dir, &archive_dir] {
        disk.create_dir_all(made).map_err(failed)?;
    }
    // Opened before the writes, to report the errors of all of them. The archive may be on another disk.
    let barriers = [&objects_dir, &archive_dir].map(|dir| disk.barrier(dir));
    let now = (options.unix_millis)();
    let mut whole = old.clone();
    if !tail.is_empty() {
        tail.write(&disk, dir, &mut whole, &mut source, threads)?;
        if how.lazy {
            may_be_lazy(&whole, at)?;
        }
        progress.has_objects(source.count(how.large_pages())?.objects);
        // Only now: with a clock that was set back, the tail may have the first state at a time. The restore can be repeated
        // with another time.
        if let Some(at) = at {
            past::must_be_known(&source, at, threads)?;
        }
    }
    let mut new = continued::manifest(&whole, now);
    new.inspect = how.inspect;
    let built = if how.lazy {
        new.hydration = Some(HydrationState {
            next: 0,
            before: new.redo,
        });
        let counted = source.count(how.large_pages())?;
        new.large = counted.large;
        Built::of_lazy(counted.objects)
    } else {
        Objects::new(disk.clone(), dir, &source, at, threads, &progress).build()?
    };
    if let Some(mark) = new.restored
        && let Some(run) = past::write_run(&disk, dir, &new, &built.changes, mark, threads)?
    {
        new.archive.runs.push(run);
        new.archive.note_numbers();
    }
    begin_log(&*disk, dir, &new)?;
    for barrier in barriers {
        let synced = barrier.and_then(|barrier| barrier.wait());
        synced.map_err(|error| Error::sync(format_args!("syncing {}", dir.display()), &error))?;
    }
    let mut quarantined = Vec::new();
    for (key, why) in built.incomplete {
        let entry = Quarantine::new(why.clone());
        new.quarantined.insert(key.to_string(), entry);
        tracing::error!(object = %key, why, "quarantined an object: it is unavailable until it is repaired");
        quarantined.push(QuarantinedObject { key, why });
    }
    new.store(&*disk, dir)?;
    unfinished::end(&*disk, dir)?;
    // After the marker: a restore that is repeated needs them.
    tail::remove(&*disk, dir);
    tracing::info!(
        dir = %dir.display(), objects = built.objects, bytes = built.bytes, log_commits = tail.commits,
        quarantined = quarantined.len(), "restored a data directory from its archive"
    );
    Ok(RestoredDirectory {
        objects: built.objects,
        bytes: built.bytes,
        log_commits: tail.commits,
        last_millis: tail.last_millis,
        quarantined,
    })
}

/// What only a restore that reads everything can do.
fn may_be_lazy(old: &Manifest, at: Option<u64>) -> Result<()> {
    if at.is_some() {
        return Err(Error::input(
            "a lazy restore is to the end of the archive: restore to an earlier time without it",
        ));
    }
    if old.archive.damaged.is_empty() && old.archive.is_complete() {
        return Ok(());
    }
    Err(Error::refused(
        "the copy is not complete, and a lazy restore finds out what it lacks too late: restore without it",
    ))
}

/// Records which runs stay in their store. Those of the directory that was copied are no others' concern.
fn leave_runs(old: &mut Manifest, how: &RestoreOptions) -> Result<()> {
    if !how.lazy && !how.remote.is_empty() {
        return Err(Error::input(
            "only a lazy restore leaves runs in their store",
        ));
    }
    let listed = old.archive.runs.iter().map(|run| run.number);
    let left = listed.filter_map(|number| Some((number, how.remote.get(&number)?.clone())));
    old.archive.remote = left.collect();
    Ok(())
}

/// Begins the log where the manifest continues it: a missing log would be taken for a lost one.
fn begin_log(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let log_dir = dir.join(LOG_DIR);
    let failed = |error| {
        Error::io(
            format_args!("beginning the log in {}", log_dir.display()),
            &error,
        )
    };
    disk.create_dir_all(&log_dir).map_err(failed)?;
    let segment = Segment::prepare(disk, &log_dir, 1, MIN_SEGMENT_BYTES, None)?;
    let header = SegmentHeader {
        epoch: manifest.epoch(),
        number: segment.number,
        first: manifest.redo(),
        bytes: segment.bytes,
    };
    let written = segment.file.write_at(&header.encode(), 0);
    written.and_then(|()| segment.file.sync()).map_err(failed)?;
    sync_names(disk, &log_dir)
}
