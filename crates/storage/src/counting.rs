//! Counts the size of the stored objects, for [`crate::stored`].

use crate::catalog;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::PAGE_BYTES;
use crate::parallel;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::timing;
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
        let list = |dir: &Path| {
            let names = disk.list(dir);
            names.map_err(|error| Error::io(format_args!("reading {}", dir.display()), &error))
        };
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
                    let id = name.strip_suffix(".sqlite").and_then(ObjectKey::parse_id);
                    let Some(id) = id else { continue };
                    files.fetch_add(1, Ordering::Relaxed);
                    let namespace = *namespace;
                    let key = ObjectKey { namespace, id };
                    // Objects that recovery found are counted by the log's records.
                    if self.objects.find(key).is_none() {
                        let pages = self.pages_at(key, &folder.join(name));
                        self.stored.changed(0, pages);
                    }
                }
                Ok(())
            },
        )?;
        for object in self.objects.all() {
            let size = object.pages().size;
            self.stored.changed(0, size);
        }
        tracing::info!(
            files = files.load(Ordering::Relaxed),
            bytes = self.stored.bytes(),
            seconds = begun.elapsed().as_secs_f64(),
            "counted the size of the stored objects"
        );
        Ok(())
    }

    /// The page count of an object that is not open.
    pub(crate) fn counted_pages(&self, key: ObjectKey) -> u32 {
        let live = self.objects.find(key).map(|object| object.pages().size);
        match live {
            Some(size) if size > 0 => size,
            _ => self.pages_in_file(key),
        }
    }

    /// The length of an object's file in pages. A file that cannot be examined counts as zero: it must not prevent the
    /// other objects from being served.
    pub(crate) fn pages_in_file(&self, key: ObjectKey) -> u32 {
        let path = self.shared.catalog.object_path(key);
        path.map_or(0, |path| self.pages_at(key, &path))
    }

    fn pages_at(&self, key: ObjectKey, path: &Path) -> u32 {
        match self.shared.disk.file_len(path) {
            Ok(bytes) => u32::try_from(bytes / PAGE_BYTES as u64).unwrap_or(u32::MAX),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => {
                tracing::warn!(object = %key, %error, "cannot get the size of an object's file; it does not count toward storage.max_bytes");
                0
            }
        }
    }
}
