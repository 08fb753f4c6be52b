//! Makes the files that a checkpoint has written or removed durable.

use super::file::Written;
use crate::disk::{Barrier, Disk, sync_names};
use crate::error::{Error, Result};
use crate::overlay::Object;
use crate::parallel;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Syncs the directories of removed files, also of those that an earlier checkpoint has removed and not synced.
pub(super) fn sync_removed(disk: &dyn Disk, removed: &[Arc<Object>]) -> Result<()> {
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

/// Syncs the files that were written, and their names.
pub(super) fn sync_files(
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
