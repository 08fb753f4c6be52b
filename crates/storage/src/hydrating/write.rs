//! Writes the file of a cold object.

use crate::archive::index::IndexEntry;
use crate::catalog;
use crate::disk::{DiskFile, sync_names};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hydration::Claim;
use crate::ident::ObjectKey;
use crate::manifest::Quarantine;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that is complete and not in its place yet.
pub(super) struct Written<'a> {
    /// No one else writes or opens it.
    _claim: Claim<'a>,
    key: ObjectKey,
    path: PathBuf,
}

impl Engine {
    /// Has a cold object ready to be opened: writes its file, unless pages of it can be read one by one.
    ///
    /// # Errors
    /// As [`Engine::write_file`]. The store does not own the object's shard.
    pub(crate) fn hydrate(&self, key: ObjectKey) -> Result<()> {
        self.must_own(key)?;
        if self.is_large(key) && self.paged_file(key)?.is_some() {
            return Ok(());
        }
        self.write_file(key)
    }

    /// Writes an object's file, durably, if the object is cold. Waits while another thread does.
    ///
    /// # Errors
    /// The archive, or the disk, cannot be read or written. The object stays cold: try again. If the archive does not have its
    /// whole state, the object is quarantined.
    pub(crate) fn write_file(&self, key: ObjectKey) -> Result<()> {
        if !self.hydration.may_lack(key) || self.has_file_already(key)? {
            return Ok(());
        }
        let claim = self.hydration.claims.claim(key);
        let Some(newest) = self.cold(key)? else {
            return Ok(());
        };
        let Some((written, file)) = self.write_cold(claim, &newest)? else {
            return Ok(());
        };
        let synced = file.sync();
        synced.map_err(|error| {
            Error::io(format_args!("syncing {}", written.path.display()), &error)
        })?;
        self.put_in_place(&[written])
    }

    /// Returns whether an object is known not to be cold, so that those that are need not be waited for.
    fn has_file_already(&self, key: ObjectKey) -> Result<bool> {
        let path = self.shared.catalog.object_path(key);
        let Some(path) = path.filter(|_| !self.hydration.claims.has(key)) else {
            return Ok(false);
        };
        self.has_file_or_end(&path)
    }

    /// Writes the file of a cold object, and does not sync it. `None` if the object is quarantined, because the archive does
    /// not have its whole state.
    pub(super) fn write_cold<'a>(
        &self,
        claim: Claim<'a>,
        newest: &IndexEntry,
    ) -> Result<Option<(Written<'a>, Arc<dyn DiskFile>)>> {
        let key = newest.key;
        let Some(path) = self.shared.catalog.object_path(key) else {
            return Ok(None);
        };
        let Some(image) = self.archive.newest_image(newest)? else {
            let why = "its newest state is not complete in the archive";
            // At once: when all others have their files, nothing else says that there was an object.
            self.shared.publish(|manifest| {
                let entry = Quarantine::new(why.to_owned());
                manifest.quarantined.insert(key.to_string(), entry);
            })?;
            self.objects.with(key, |_, pages| {
                self.objects.quarantine(key, pages, why.to_owned());
            })?;
            return Ok(None);
        };
        if let Some(dir) = path.parent() {
            let made = self.shared.disk.create_dir_all(dir);
            made.map_err(|error| Error::io(format_args!("creating {}", dir.display()), &error))?;
        }
        let file = image.write(&catalog::hydrating_path(&path), newest.newest.commit)?;
        let written = Written {
            _claim: claim,
            key,
            path,
        };
        Ok(Some((written, file)))
    }

    /// Gives files that are synced their names, durably.
    pub(super) fn put_in_place(&self, written: &[Written<'_>]) -> Result<()> {
        let disk = &*self.shared.disk;
        for written in written {
            self.give_name(written)?;
        }
        // The directory of a file and its parents may be just as new.
        let paths = written.iter().map(|written| written.path.as_path());
        let dirs: BTreeSet<&Path> = paths
            .flat_map(|path| path.ancestors().skip(1).take(3))
            .collect();
        for dir in dirs {
            // From here on the objects have files, and may be opened: there is no second attempt.
            sync_names(disk, dir).map_err(|error| {
                let error = error.into_final();
                self.shared.note_failure(&error);
                error
            })?;
        }
        for Written { key, .. } in written {
            self.hydration.paged.is_written(*key);
        }
        self.hydration.note_written(written.len() as u64);
        Ok(())
    }

    /// Gives a file its name, unless the object has one meanwhile, or has ended: a large one may have been replaced or deleted
    /// while this was written. A checkpoint does that with the object locked.
    fn give_name(&self, Written { key, path, .. }: &Written<'_>) -> Result<()> {
        let disk = &*self.shared.disk;
        let from = catalog::hydrating_path(path);
        let failed = |error| Error::io(format_args!("writing {}", path.display()), &error);
        if !self.is_large(*key) {
            return disk.rename(&from, path).map_err(failed);
        }
        let (named, object) = self.objects.with(*key, |object, _pages| {
            let is_late = self.has_file_or_end(path);
            let named = is_late.and_then(|is_late| {
                let named = if is_late {
                    disk.remove(&from)
                } else {
                    disk.rename(&from, path)
                };
                named.map_err(failed)
            });
            (named, object.clone())
        })?;
        self.objects.forget_if_idle(&object);
        named
    }
}
