//! The directory while it is being restored, which no store opens: it has the marker `RESTORING`.
//!
//! The marker is durable before anything else is written, and is removed after the manifest is published. A directory that
//! has it is restored from the beginning.

use super::tail;
use crate::archive::DIR;
use crate::catalog::LOCK;
use crate::disk::{Disk, OpenMode, sync_names};
use crate::error::{Error, Result};
use crate::log::LOG_DIR;
use std::io;
use std::path::Path;

/// The marker's name.
const MARKER: &str = "RESTORING";

/// What it says.
const TEXT: &[u8] = b"This directory is being restored from its archive. If that was interrupted: repeat the restore.\n";

/// What may be in the directory before, also what says who it is in an object store: the root of a volume has its own.
const ALLOWED: [&str; 5] = ["history.json", DIR, tail::DIR, LOCK, "lost+found"];

fn has_marker(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    Ok(list(disk, dir)?.iter().any(|name| name == MARKER))
}

/// Refuses to open a directory that is not completely restored.
pub(crate) fn must_be_finished(disk: &dyn Disk, dir: &Path) -> Result<()> {
    if !has_marker(disk, dir)? {
        return Ok(());
    }
    Err(Error::refused(format!(
        "the restore of the data directory {} was interrupted: repeat it with the same command, or remove the directory; \
         nothing was changed",
        dir.display()
    )))
}

/// Refuses a directory that holds anything but an archive and a tail of the log, or what an interrupted restore has left.
pub(super) fn must_be_empty(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let names = list(disk, dir)?;
    let has = |name| names.iter().any(|found| found == name);
    if has(MARKER) {
        return Ok(());
    }
    if has("MANIFEST") {
        return Err(Error::refused(format!(
            "{} is a data directory already: choose an empty directory; nothing was changed",
            dir.display()
        )));
    }
    match names.iter().find(|name| !ALLOWED.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::refused(format!(
            "{} is not empty: it has {name}. Choose an empty directory; nothing was changed",
            dir.display()
        ))),
    }
}

/// Makes the marker durable, and removes what an interrupted restore has left.
pub(super) fn begin(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let path = dir.join(MARKER);
    let marked = || {
        let file = disk.open(&path, OpenMode::Create)?;
        file.write_at(TEXT, 0)?;
        file.sync()
    };
    marked().map_err(|error| Error::io(format_args!("writing {}", path.display()), &error))?;
    sync_names(disk, dir)?;
    for name in ["MANIFEST", "MANIFEST.new"] {
        remove(disk, &dir.join(name))?;
    }
    empty(disk, &dir.join(LOG_DIR), 0)?;
    // By namespace, and the first byte of the ids.
    empty(disk, &dir.join("objects"), 2)
}

/// Removes the marker, durably.
pub(super) fn end(disk: &dyn Disk, dir: &Path) -> Result<()> {
    remove(disk, &dir.join(MARKER))?;
    sync_names(disk, dir)
}

/// Empties a directory whose files are this many directories deep.
fn empty(disk: &dyn Disk, dir: &Path, depth: u32) -> Result<()> {
    for name in list(disk, dir)? {
        let path = dir.join(name);
        if depth == 0 {
            remove(disk, &path)?;
            continue;
        }
        empty(disk, &path, depth - 1)?;
        let removed = disk.remove_dir(&path);
        removed.map_err(|error| Error::io(format_args!("removing {}", path.display()), &error))?;
    }
    Ok(())
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(
            format_args!("removing {}", path.display()),
            &error,
        )),
        _ => Ok(()),
    }
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>> {
    let names = disk.list(dir);
    names.map_err(|error| Error::io(format_args!("reading {}", dir.display()), &error))
}
