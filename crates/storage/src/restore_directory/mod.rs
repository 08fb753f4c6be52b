//! Builds a data directory from the runs of an archive and a manifest, which are what is left of a lost one.
//!
//! 1. The manifest must be of a moment at which everything was archived, and each run that it lists must be there, whole.
//!    Nothing is written before that is known.
//! 2. The marker `RESTORING` is made durable ([`unfinished`]): until it is gone, no store opens the directory. What an
//!    interrupted restore has left is removed.
//! 3. The file of each object is written with its pages as of its newest commit ([`objects`]), or as of a time ([`past`]).
//!    In the latter case each object whose newest commit is later gets another commit, which restores it: a new run has
//!    them.
//! 4. All files and names are synced.
//! 5. The manifest is published, and the marker removed.
//!
//! Commits that were not archived are lost, but others may have seen them. So each position, commit number and timeline that
//! follows is above all that may have been seen: see [`continued`].

mod continued;
mod objects;
mod past;
mod progress;
mod source;
mod unfinished;

pub use progress::RestoreProgress;
pub(crate) use unfinished::must_be_finished;

use crate::archive;
use crate::catalog;
use crate::disk::{Disk, sync_names};
use crate::error::{Error, Result};
use crate::limits::MIN_SEGMENT_BYTES;
use crate::log::segment::{Segment, SegmentHeader};
use crate::manifest::{Manifest, Quarantine};
use crate::options::StoreOptions;
use crate::parallel;
use crate::quarantine::QuarantinedObject;
use abide_macros::Setters;
use objects::Objects;
use progress::Progress;
use source::Source;
use std::path::Path;
use std::sync::Arc;

/// What [`restore_directory`] has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredDirectory {
    /// The restored objects.
    pub objects: u64,
    /// The bytes of their files.
    pub bytes: u64,
    /// Objects that are quarantined, because the archive does not have the whole state to restore.
    pub quarantined: Vec<QuarantinedObject>,
}

/// How a data directory is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The moment, in milliseconds since 1970. Default: the end of the archive.
    #[setters(into)]
    pub at: Option<u64>,
    /// The directory is for inspection, beside the node that it is a copy of: [`Store::is_for_inspection`]. Default false.
    ///
    /// [`Store::is_for_inspection`]: crate::Store::is_for_inspection
    pub inspect: bool,
}

/// Builds a data directory that [`Store::open`](crate::Store::open) opens. `dir` is empty except for the directory
/// `archive` with the runs that the manifest lists. `manifest` has the bytes of a manifest at a moment at which the archive
/// was complete.
///
/// Each object is as after its newest commit in the archive or, with [`RestoreOptions::at`], after its newest commit until
/// then: an object that was created later does not exist, and one that was deleted later exists again. Every object
/// is on a new timeline. Later commits have higher positions than all that the lost directory had.
///
/// If it is interrupted, it can be repeated, and [`Store::open`](crate::Store::open) refuses the directory until then. Of
/// `options`, only the clock and the number of cores count. `progress` is called from several threads.
///
/// # Errors
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused): the directory is not empty, or the manifest cannot be used.
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged): a run is missing or damaged; the message names its file. Nothing has
/// been written in these cases. [`ErrorKind::Input`](crate::ErrorKind::Input): the history of some objects begins after
/// that time; the message says when. Otherwise a disk error.
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
    let old = Manifest::decode(manifest, Path::new("the copy of the manifest"))?;
    if old.archive.archived != Some(old.redo) {
        return Err(Error::refused(
            "the copy of the manifest is of a moment at which the archive was not complete: use another copy",
        ));
    }
    unfinished::must_be_empty(&*disk, dir)?;
    let failed = |error| Error::io(format_args!("restoring {}", dir.display()), &error);
    disk.create_dir_all(dir).map_err(failed)?;
    let _lock = catalog::lock(&*disk, dir)?;
    unfinished::must_be_empty(&*disk, dir)?;

    let threads = parallel::threads(options.cores_or_all());
    let progress = Progress::new(progress, old.archive.bytes());
    let source = Source::open(&*disk, dir, &old, threads, &progress)?;
    if let Some(at) = at {
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
    let mut new = continued::manifest(&old, now);
    new.inspect = how.inspect;
    let built = Objects::new(disk.clone(), dir, &source, at, threads, &progress).build()?;
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
    tracing::info!(
        dir = %dir.display(), objects = built.objects, bytes = built.bytes, quarantined = quarantined.len(),
        "restored a data directory from its archive"
    );
    Ok(RestoredDirectory {
        objects: built.objects,
        bytes: built.bytes,
        quarantined,
    })
}

/// Begins the log where the manifest continues it: a missing log would be taken for a lost one.
fn begin_log(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let log_dir = dir.join("log");
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
