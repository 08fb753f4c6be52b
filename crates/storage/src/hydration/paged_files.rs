//! The large objects that are read page by page.

use super::paged_file::PagedFile;
use crate::ident::{NamespaceNo, ObjectKey};
use crate::sync::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// See the module.
#[derive(Default)]
pub(crate) struct PagedFiles(Mutex<FxHashMap<ObjectKey, Arc<PagedFile>>>);

impl PagedFiles {
    pub(crate) fn find(&self, key: ObjectKey) -> Option<Arc<PagedFile>> {
        self.0.lock().get(&key).cloned()
    }

    /// Adds a file, unless there is one. Returns the one that counts.
    pub(crate) fn add(&self, key: ObjectKey, file: PagedFile) -> Arc<PagedFile> {
        let mut files = self.0.lock();
        files.entry(key).or_insert_with(|| Arc::new(file)).clone()
    }

    /// The object's file is in its place, durably.
    pub(crate) fn is_written(&self, key: ObjectKey) {
        if let Some(file) = self.0.lock().remove(&key) {
            file.is_written();
        }
    }

    /// The object has left memory, or its state in the archive does not count any more.
    pub(crate) fn forget(&self, key: ObjectKey) {
        self.0.lock().remove(&key);
    }

    /// The same, of a namespace.
    pub(crate) fn forget_all(&self, namespace: NamespaceNo) {
        let mut files = self.0.lock();
        files.retain(|key, _| key.namespace != namespace);
    }
}
