//! Counts the size of the stored objects, for [`crate::stored`].

use crate::catalog;
use crate::disk::Disk;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::PAGE_BYTES;
use crate::parallel;
use crate::stored::Folder;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::timing;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

impl Engine {
    /// Counts the size of all objects, if they have a limit. There are no commits in the meantime.
    pub(crate) fn count_stored(&self) -> Result<()> {
        if !self.stored.counts() {
            return Ok(());
        }
        let begun = timing::now();
        let namespaces = self.shared.catalog.current().namespaces.len();
        let disk = &*self.shared.disk;
        let list = |dir: &Path| list(disk, dir);
        let mut folders = Vec::new();
        for namespace in (1..).map(NamespaceNo).take(namespaces) {
            if let Some(dir) = self.shared.catalog.namespace_dir(namespace) {
                let names = list(&dir)?.into_iter();
                let names = names.filter(|name| catalog::is_part(name));
                folders.extend(names.map(|name| (namespace, dir.join(name))));
            }
        }
        let files = AtomicU64::new(0);
        parallel::for_each(
            self.shared.parallel_threads(),
            &folders,
            |(namespace, folder)| {
                for name in list(folder)? {
                    let Some(id) = id_of(&name) else { continue };
                    files.fetch_add(1, Ordering::Relaxed);
                    let namespace = *namespace;
                    let key = ObjectKey { namespace, id };
                    // Objects that recovery found are counted by the log's records.
                    if self.objects.find(key).is_none() {
                        let pages = self.pages_at(key, &folder.join(name));
                        self.stored.changed(key, 0, pages);
                    }
                }
                Ok(())
            },
        )?;
        let mut cold = self.cold_objects();
        for byte in self.hydration.parts() {
            for (key, cold) in cold.with_first_byte(byte)? {
                self.stored.changed(key, 0, cold.newest.pages);
            }
        }
        for object in self.objects.all() {
            // A quarantined one counts for its file.
            let size = self
                .live_pages(object.key)
                .unwrap_or_else(|| self.pages_at(object.key, &object.path));
            self.stored.changed(object.key, 0, size);
        }
        tracing::info!(
            files = files.load(Ordering::Relaxed),
            bytes = self.stored.bytes(),
            seconds = begun.elapsed().as_secs_f64(),
            "counted the size of the stored objects"
        );
        Ok(())
    }

    /// Counts the folders again in which objects were quarantined: a file may be missing, or shorter than it was. A folder in
    /// which objects change at this moment is left to the next call.
    pub(crate) fn recount_quarantined(&self) {
        if !self.stored.counts() {
            return;
        }
        for folder in self.objects.take_miscounted() {
            let counted = self.stored.recount(folder, || self.pages_in_folder(folder));
            match counted {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot count the files of a directory again; it will be retried");
                }
            }
            self.objects.is_miscounted(folder);
        }
    }

    fn pages_in_folder(&self, folder: Folder) -> Result<u64> {
        let Some(dir) = self.shared.catalog.namespace_dir(folder.namespace) else {
            return Ok(0);
        };
        let dir = dir.join(hex::encode([folder.first]));
        let live = self.objects.all().into_iter().map(|object| object.key);
        let mut keys: BTreeSet<_> = live.filter(|key| Folder::of(*key) == folder).collect();
        let namespace = folder.namespace;
        let ids = list(&*self.shared.disk, &dir)?;
        let ids = ids.iter().filter_map(|name| id_of(name));
        keys.extend(ids.map(|id| ObjectKey { namespace, id }));
        let quarantined = self.objects.quarantined();
        let cold = self.cold_objects().with_first_byte(folder.first)?;
        let cold = cold.values().filter(|cold| cold.key.namespace == namespace);
        let mut pages: u64 = cold.map(|cold| u64::from(cold.newest.pages)).sum();
        for key in keys {
            let path = self.shared.catalog.object_path(key).unwrap_or_default();
            pages += u64::from(if quarantined.iter().any(|of| of.key == key) {
                self.pages_at(key, &path)
            } else if let Some(size) = self.live_pages(key) {
                size
            } else {
                let failed = |error| Error::io(format_args!("reading {}", path.display()), &error);
                self.file_pages(&path).map_err(failed)?
            });
        }
        Ok(pages)
    }

    /// The pages of an object's newest commit, if they are in memory and the object is not quarantined.
    fn live_pages(&self, key: ObjectKey) -> Option<u32> {
        let object = self.objects.find(key)?;
        let pages = object.pages();
        let is_known = pages.size > 0 || pages.ended;
        (pages.quarantined.is_none() && is_known).then_some(pages.size)
    }

    /// The length of an object's file in pages. A file that cannot be examined counts as zero: it must not prevent the
    /// other objects from being served.
    fn pages_at(&self, key: ObjectKey, path: &Path) -> u32 {
        self.file_pages(path).unwrap_or_else(|error| {
            tracing::warn!(object = %key, %error, "cannot get the size of an object's file; it does not count toward storage.max_bytes");
            0
        })
    }

    /// The length of a file in pages: none if there is no file.
    fn file_pages(&self, path: &Path) -> io::Result<u32> {
        match self.shared.disk.file_len(path) {
            Ok(bytes) => Ok(u32::try_from(bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>> {
    let names = disk.list(dir);
    names.map_err(|error| Error::io(format_args!("reading {}", dir.display()), &error))
}

/// The id of the object whose file has this name.
fn id_of(name: &str) -> Option<[u8; 32]> {
    name.strip_suffix(".sqlite").and_then(ObjectKey::parse_id)
}
