//! Replacements of objects' files that a crash has left next to those: a file whose commit is in the log becomes the object's,
//! and the others are removed.

use crate::catalog::{self, object_path};
use crate::disk::{Disk, sync_names};
use crate::error::{Error, Result};
use crate::ident::{CommitNo, ObjectKey};
use crate::manifest::Manifest;
use crate::overlay::Object;
use rustc_hash::FxHashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Settles them after the log's tail was replayed, durably. The caller publishes the manifest.
pub(super) fn settle(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &mut Manifest,
    objects: &FxHashMap<ObjectKey, Arc<Object>>,
) -> Result<()> {
    let mut objects: Vec<_> = objects.values().collect();
    objects.sort_unstable_by_key(|object| object.key);
    for object in objects {
        let replaced = object.pages().replaced.take();
        if let Some(replaced) = replaced {
            put_in_place(disk, &object.path, replaced.commit)?;
        }
    }
    for listed in &manifest.archive.replacements {
        let key = ObjectKey::parse(&listed.object);
        if let Some(path) = key.and_then(|key| object_path(dir, manifest, key)) {
            remove(
                disk,
                &catalog::replacement_path(&path, CommitNo(listed.commit)),
            )?;
        }
    }
    manifest.archive.replacements.retain(|of| of.run.is_some());
    Ok(())
}

/// Renames the replacement that a commit continues to the name of the object's file. It was renamed before if it is not there.
fn put_in_place(disk: &dyn Disk, path: &Path, commit: CommitNo) -> Result<()> {
    let replacement = catalog::replacement_path(path, commit);
    match disk.file_len(&replacement) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => {
            let renamed = found.and_then(|_| disk.rename(&replacement, path));
            renamed.map_err(|error| {
                Error::io(format_args!("renaming {}", replacement.display()), &error)
            })?;
        }
    }
    // A process that was killed may have renamed it, and not synced the name.
    for dir in path.ancestors().skip(1).take(3) {
        match disk.names(dir) {
            // Then there is no file either, which is found when the object is opened.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => sync_names(disk, dir)?,
        }
    }
    Ok(())
}

/// Removes a replacement, if it is there, durably: its commit was never made, or it is a second name of the object's file.
fn remove(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Ok(()) => path.parent().map_or(Ok(()), |dir| sync_names(disk, dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => {
            let doing = format_args!("removing {}", path.display());
            Err(Error::io(doing, &error))
        }
    }
}
