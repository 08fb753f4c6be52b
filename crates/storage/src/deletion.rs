//! The deletion of a namespace with all its objects.
//!
//! 1. Let none of its objects be opened, and take a checkpoint: the log's tail then has nothing of them.
//! 2. Publish the manifest without the unique key. From here on the objects do not exist. The number is not used
//!    again, so a new namespace with the same unique key shares nothing with the deleted one.
//! 3. Remove the files. Until that is done, the manifest lists the unique key in `removing`: a start continues the
//!    removal, and a new namespace with this unique key waits for it.
//!
//! Compaction removes the history of the objects from the archive.

use crate::catalog;
use crate::disk::{Disk, sync_names};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::quarantine;
use std::io;
use std::path::Path;

impl Engine {
    /// See [`crate::Store::delete_namespace`].
    pub(crate) fn delete_namespace(&self, unique_key: &str) -> Result<bool> {
        self.must_own_all("delete a class")?;
        let _alone = self.repairs.lock();
        let manifest = self.shared.catalog.current();
        let is_removing = manifest.removing.contains(unique_key);
        if is_removing {
            self.remove_files(unique_key)?;
        }
        let Some(namespace) = manifest.namespace(unique_key) else {
            return Ok(is_removing);
        };
        self.objects.shut(namespace)?;
        self.forget_namespace(namespace, unique_key)
            .inspect_err(|_| self.objects.admit(namespace))?;
        // Objects are not cold any more, but the files of some may be half written.
        self.hydration.wait_for(namespace);
        self.hydration.paged.forget_all(namespace);
        self.remove_files(unique_key)?;
        // The archive need not have its objects.
        self.archive.sweep_again();
        Ok(true)
    }

    fn forget_namespace(&self, namespace: NamespaceNo, unique_key: &str) -> Result<()> {
        self.checkpoint()?;
        let _unchanged = self.checkpointer.pause()?;
        let mut quarantined = Vec::new();
        self.shared.publish(|manifest| {
            quarantined = manifest.delete_namespace(namespace);
            manifest.removing.insert(unique_key.to_owned());
        })?;
        self.objects.forget(|key| key.namespace == namespace);
        self.alarms.forget(|key| key.namespace == namespace);
        self.stored.forget(namespace);
        for saved in quarantined.iter().filter_map(|of| of.pages.as_ref()) {
            // A run that the manifest does not list is never read.
            let _ = self
                .shared
                .disk
                .remove(&quarantine::path_of(&self.shared, &saved.run));
        }
        Ok(())
    }

    /// Removes the files of namespaces whose deletion was interrupted. What cannot be removed is left to the next start.
    pub(crate) fn finish_deletions(&self) {
        for unique_key in &self.shared.catalog.current().removing {
            if let Err(error) = self.remove_files(unique_key) {
                tracing::warn!(
                    class = unique_key, %error,
                    "cannot remove all files of a deleted class: the next start tries again"
                );
            }
        }
    }

    /// Waits until the files of a deleted namespace with this unique key are removed.
    pub(crate) fn finish_deletion_of(&self, unique_key: &str) -> Result<()> {
        let is_removed = || !self.shared.catalog.current().removing.contains(unique_key);
        if is_removed() {
            return Ok(());
        }
        let _alone = self.repairs.lock();
        if is_removed() {
            return Ok(());
        }
        self.remove_files(unique_key)
    }

    /// Removes the object files of a deleted namespace, durably. Files that belong to no object stay.
    fn remove_files(&self, unique_key: &str) -> Result<()> {
        let disk = &*self.shared.disk;
        let dir = self.shared.catalog.dir_of(unique_key);
        for part in list(disk, &dir)?
            .iter()
            .filter(|name| catalog::is_part(name))
        {
            let part = dir.join(part);
            for name in list(disk, &part)?.iter().filter(|name| is_of_object(name)) {
                let path = part.join(name);
                let removed = disk.remove(&path);
                removed.map_err(|error| removing(&path, &error))?;
            }
            sync_names(disk, &part)?;
            remove_dir(disk, &part)?;
        }
        if let Some(objects) = dir.parent() {
            remove_dir(disk, &dir)?;
            sync_names(disk, objects)?;
        }
        self.shared.publish(|manifest| {
            manifest.removing.remove(unique_key);
        })
    }
}

/// Returns whether a file is an object's, was kept by a repair of the object, or was put next to it by SQLite's tools.
fn is_of_object(name: &str) -> bool {
    let id = name.split_once('.').map(|(id, _)| id);
    id.and_then(ObjectKey::parse_id).is_some()
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>> {
    disk.list(dir).map_err(|error| removing(dir, &error))
}

/// Removes a directory unless it holds files that are not ours.
fn remove_dir(disk: &dyn Disk, dir: &Path) -> Result<()> {
    match disk.remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            tracing::warn!(dir = %dir.display(), "kept the directory of a deleted class: it holds other files");
            Ok(())
        }
        removed => removed.map_err(|error| removing(dir, &error)),
    }
}

fn removing(path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("removing {}", path.display()), error)
}
