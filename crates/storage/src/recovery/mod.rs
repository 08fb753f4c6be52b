//! Opens a data directory: recovers its state and builds the engine.
//!
//! 1. Take the lock; read the manifest, or initialize an empty directory.
//! 2. Read the saved alarm index; replay the log's tail from the manifest's redo position into the overlay and the
//!    index. Damage in the middle is an error; a torn tail ends the log. A damaged index is rebuilt from the objects
//!    once the engine exists.
//! 3. Rewrite what no record proves durable, and sync the segments: accepted data must be durable before anything
//!    builds on it, and a failed sync may have left it only in the page cache, which considers it written.
//! 4. Settle the replacements of objects' files that were being made ([`replacements`]).
//! 5. Publish the manifest with the next epoch. The first record of this epoch begins a new segment, whose header
//!    records where the old epoch ended.

mod rebuild;
mod replacements;

use crate::alarms::{self, AlarmIndex, Loaded};
use crate::archive;
use crate::catalog::{self, Catalog, object_path};
use crate::disk::Disk;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hydrating;
use crate::ident::{Generation, Lsn, NamespaceNo, ObjectKey};
use crate::limits::{MIN_SEGMENT_BYTES, PREPARED_SEGMENTS, TEMPORARY_RESERVE_SEGMENTS};
use crate::log::local::LocalSegments;
use crate::log::reader::{self, Found, Logged};
use crate::log::segment::FoundHeader;
use crate::log::segment_pool::{SegmentPool, UsedSegment};
use crate::log::{LOG_DIR, Log};
use crate::manifest::{HydrationState, Manifest};
use crate::open_files::OpenFiles;
use crate::options::StoreOptions;
use crate::overlay::Object;
use crate::reclaiming::ReclaimingDisk;
use crate::reserve::Reserve;
use crate::restore_directory;
use crate::shared::Shared;
use crate::template;
use crate::temporary::Temporary;
use crate::timing;
use crate::vfs::Vfs;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// The file in the directory of a node of a cluster. A directory that has it is no data directory: [`Store::open`](crate::Store::open)
/// refuses it.
pub const NODE_FILE: &str = "node.json";

/// The file in a standby's directory of runs that the standby locks with `flock`. While it does, [`Store::open`](crate::Store::open)
/// refuses the directory.
pub const STANDBY_LOCK: &str = "standby.lock";

/// The file in a directory of runs that says which ones are downloaded. [`Store::open`](crate::Store::open) refuses a directory that has it
/// and is no data directory.
pub const FETCHED_FILE: &str = "fetched.json";

pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, options: StoreOptions) -> Result<Arc<Engine>> {
    let failed = |error| {
        Error::io(
            format_args!("opening the data directory {}", dir.display()),
            &error,
        )
    };
    let open_files = Arc::new(OpenFiles::new(options.cores_or_all()));
    let disk: Arc<dyn Disk> = Arc::new(ReclaimingDisk::new(disk, open_files.clone()));
    disk.create_dir_all(dir).map_err(failed)?;
    let lock = catalog::lock(&*disk, dir)?;
    restore_directory::must_be_finished(&*disk, dir)?;
    let log_dir = dir.join(LOG_DIR);
    let mut manifest = manifest(&*disk, dir, &log_dir, &options)?;
    disk.create_dir_all(&log_dir).map_err(failed)?;
    prepare_objects(&*disk, dir, &manifest).map_err(failed)?;

    disk.create_dir_all(&alarms::dir_of(dir)).map_err(failed)?;

    let loaded = alarms::load(&*disk, dir, &manifest.alarms)?;
    let (alarms, is_unsaved, damaged) = match loaded {
        Loaded::Whole(alarms) => (*alarms, false, None),
        Loaded::Unsaved => (AlarmIndex::default(), true, None),
        Loaded::Damaged(run) => (AlarmIndex::default(), false, Some(run)),
    };
    // A run may be older than the deletion of a namespace.
    alarms.forget(|key| manifest.is_deleted(key.namespace));
    let segments = reader::list(&*disk, &log_dir)?;
    let mut objects = FxHashMap::default();
    let begun = timing::now();
    let mut proven = manifest.redo();
    let mut clock = manifest.clock;
    let end = reader::read(&segments, manifest.redo(), None, |logged| {
        let durable = logged.parts.iter().map(|(header, _)| header.durable);
        proven = durable.fold(proven, Lsn::max);
        if let Some((first, _)) = logged.parts.first() {
            clock.saw(first.lsn, first.unix_millis);
        }
        take(&mut objects, &alarms, dir, &manifest, logged)
    })?;
    clock.position = end.get();
    alarms.clock_set_back(clock.set_back);
    manifest.clock = clock;
    let bytes = end.get() - manifest.redo;
    if bytes > 0 {
        tracing::info!(
            bytes,
            objects = objects.len(),
            seconds = begun.elapsed().as_secs_f64(),
            "replayed the log's tail"
        );
    }
    for segment in segments.iter().filter(|s| s.first().is_some()) {
        segment.rewrite(proven, end).map_err(failed)?;
        segment.sync().map_err(failed)?;
    }
    disk.sync_dir(&log_dir).map_err(failed)?;

    replacements::settle(&*disk, dir, &mut manifest, &objects)?;

    manifest.epoch += 1;
    archive::prepare(&*disk, dir, &options, &mut manifest)?;
    let reserve = Reserve::new(disk.clone(), dir);
    reserve.spend(|| manifest.store(&*disk, dir))?;
    reserve.fill();
    let needed = needed_segments(&segments, &manifest);
    let spare = spare_segments(&segments, &needed);
    remove_others(&*disk, &segments, &needed, &spare).map_err(failed)?;
    alarms::remove_others(&*disk, dir, &manifest.alarms).map_err(failed)?;
    restore_directory::remove_tail(&*disk, dir);
    let pool = Arc::new(SegmentPool::new(
        disk.clone(),
        log_dir,
        manifest.segment_bytes,
        segments.last().map_or(1, |s| s.number + 1),
        needed,
        spare,
    ));
    let writer = LocalSegments::new(pool.clone(), manifest.epoch());
    let log = Log::new(
        Box::new(writer),
        manifest.epoch(),
        end,
        manifest.redo(),
        pool.largest_capacity(),
    );
    let left_free = TEMPORARY_RESERVE_SEGMENTS.saturating_mul(manifest.segment_bytes);
    let temporary = Temporary::new(disk.clone(), dir, left_free).map_err(failed)?;
    let vfs = Vfs::register(Arc::new(temporary))?;
    let dir = dir.to_owned();
    let catalog = Catalog::new(disk.clone(), dir.clone(), manifest, lock);
    let shared = Shared::new(disk, dir, options, log, catalog, vfs, open_files);
    let template = template::build()?;
    let engine = hydrating::shared(Engine::new(shared, pool, objects, alarms, template));
    if is_unsaved {
        rebuild::rebuild(&engine)?;
    }
    if let Some(run) = damaged {
        run.rebuild(&engine)?;
    }
    engine.finish_deletions();
    engine.count_stored()?;
    Ok(engine)
}

/// Creates the directory of the object files. Those of hydrated objects are synced: a process that was killed may have renamed
/// some, and not synced their names, and from now on commits build on them.
fn prepare_objects(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> std::io::Result<()> {
    let objects = dir.join("objects");
    disk.create_dir_all(&objects)?;
    if manifest.hydration.is_some() {
        disk.barrier(&objects)?.wait()?;
    }
    Ok(())
}

/// The manifest, which is a new one in an empty directory.
fn manifest(
    disk: &dyn Disk,
    dir: &Path,
    log_dir: &Path,
    options: &StoreOptions,
) -> Result<Manifest> {
    match Manifest::load(disk, dir)? {
        Some(_) if options.claims_shards => Err(Error::refused(format!(
            "{} has been used: a store that claims shards begins in an empty directory, because the logs of all owners have \
             what counts. Nothing was changed; choose another directory",
            dir.display()
        ))),
        Some(manifest) => Ok(manifest),
        None => begin(disk, dir, log_dir, options),
    }
}

/// Returns whether a standby uses the directory of runs, which may have none yet, or has used it.
fn is_standbys(disk: &dyn Disk, archive_dir: &Path) -> std::io::Result<bool> {
    let files = disk.list(archive_dir)?;
    let has = |name: &str| files.iter().any(|file| file == name);
    if has(FETCHED_FILE) {
        return Ok(true);
    }
    if !has(STANDBY_LOCK) {
        return Ok(false);
    }
    match disk.lock(&archive_dir.join(STANDBY_LOCK)) {
        // It is left of a restore that has failed.
        Ok(_) => Ok(false),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// Initializes the manifest of an empty directory.
fn begin(disk: &dyn Disk, dir: &Path, log_dir: &Path, options: &StoreOptions) -> Result<Manifest> {
    let failed = |error| {
        Error::io(
            format_args!("reading the data directory {}", dir.display()),
            &error,
        )
    };
    let files = |of: &Path| disk.list(of).map_err(failed);
    let archive_dir = dir.join(archive::DIR);
    // Its directory may be the root of a volume.
    let has_runs = files(&archive_dir)?
        .iter()
        .any(|name| archive::is_own(name));
    let is_standbys = is_standbys(disk, &archive_dir).map_err(failed)?;
    let objects_dir = dir.join("objects");
    let tail_dir = dir.join(restore_directory::TAIL_DIR);
    for (used, has_files) in [
        (log_dir, !files(log_dir)?.is_empty()),
        (&objects_dir, !files(&objects_dir)?.is_empty()),
        (&archive_dir, has_runs),
        (&archive_dir, is_standbys),
        (&tail_dir, !files(&tail_dir)?.is_empty()),
    ] {
        if has_files {
            return Err(Error::refused(format!(
                "{} has files, but {} has no MANIFEST: the directory is damaged, or is not a data directory. Nothing was changed; \
                 restore it from a backup, promote it if it is a standby's (`abide promote`), or choose an empty directory",
                used.display(),
                dir.display()
            )));
        }
    }
    if disk.file_len(&dir.join(NODE_FILE)).is_ok() {
        return Err(Error::refused(format!(
            "{} belongs to a node of a cluster, whose objects are in the cluster's database and object store: to serve it, set \
             cluster.postgres. Nothing was changed",
            dir.display()
        )));
    }
    let mut manifest = Manifest::empty(options.segment_bytes);
    if options.has_shared_runs() {
        disk.create_dir_all(&archive_dir).map_err(failed)?;
        manifest.hydration = Some(HydrationState::OF_SHARED_RUNS);
    }
    manifest.store(disk, dir)?;
    Ok(manifest)
}

/// Applies one transaction of the log to its object.
fn take(
    objects: &mut FxHashMap<ObjectKey, Arc<Object>>,
    alarms: &AlarmIndex,
    dir: &Path,
    manifest: &Manifest,
    logged: &Logged<'_>,
) -> Result<()> {
    let Some((header, _)) = logged.parts.first() else {
        return Ok(());
    };
    let key = header.key;
    let object = match objects.get(&key) {
        Some(object) => object,
        None => {
            let path = object_path(dir, manifest, key)
                .ok_or_else(|| unknown_namespace(key.namespace, header.lsn))?;
            // The epoch that begins once the log is read.
            let generation = Generation(manifest.epoch + 1);
            objects
                .entry(key)
                .or_insert_with(|| Arc::new(Object::new(key, generation.into(), path)))
        }
    };
    let mut pages = object.pages();
    if pages.quarantined.is_some() {
        return Ok(());
    }
    if !pages.may_be_next(header) {
        let why = format!(
            "commit {} follows commit {} in the log",
            header.commit.0, pages.commit.0
        );
        tracing::error!(object = %key, why, "quarantined an object");
        pages.quarantined = Some(why);
        return Ok(());
    }
    for (part, payload) in logged.parts {
        if let Err(why) = pages.apply(part, logged.end, payload) {
            tracing::error!(object = %key, why, "quarantined an object");
            pages.quarantined = Some(why);
            break;
        }
        if let Some(change) = part.alarm {
            alarms.apply(key, change, logged.end);
        }
    }
    Ok(())
}

fn unknown_namespace(namespace: NamespaceNo, at: Lsn) -> Error {
    Error::refused(format!(
        "the log at position {at} refers to namespace {}, which is not in the manifest: the manifest is older than the log. \
         Nothing was changed; restore the data directory as a whole from one backup",
        namespace.0
    ))
}

/// The segments that have been used, oldest first.
fn used_segments(segments: &[Found]) -> impl Iterator<Item = UsedSegment> {
    segments.iter().filter_map(|segment| match segment.header {
        FoundHeader::Valid(header) => Some(UsedSegment {
            path: segment.path.clone(),
            first: header.first,
            bytes: header.bytes,
        }),
        _ => None,
    })
}

/// The used segments that recovery or the archive still needs.
fn needed_segments(segments: &[Found], manifest: &Manifest) -> VecDeque<UsedSegment> {
    let mut used: VecDeque<_> = used_segments(segments).collect();
    let needed = manifest.archived();
    if let Some(first) = used.iter().rposition(|segment| segment.first <= needed) {
        used.drain(..first);
    }
    used
}

/// The used segments to recycle first: those of the initial size, so that the log is small again after a restart.
fn spare_segments(segments: &[Found], needed: &VecDeque<UsedSegment>) -> Vec<UsedSegment> {
    let is_needed = |segment: &UsedSegment| needed.iter().any(|used| used.path == segment.path);
    used_segments(segments)
        .filter(|segment| segment.bytes == MIN_SEGMENT_BYTES && !is_needed(segment))
        .take(PREPARED_SEGMENTS)
        .collect()
}

/// Removes the segments that are not kept. For unused ones it is unknown whether their preparation was finished; the
/// others may be larger than the load requires.
fn remove_others(
    disk: &dyn Disk,
    segments: &[Found],
    needed: &VecDeque<UsedSegment>,
    spare: &[UsedSegment],
) -> std::io::Result<()> {
    let is_kept = |segment: &Found| {
        let mut kept = needed.iter().chain(spare);
        kept.any(|kept| kept.path == segment.path)
    };
    let mut others = segments.iter().filter(|segment| !is_kept(segment));
    others.try_for_each(|segment| disk.remove(&segment.path))
}
