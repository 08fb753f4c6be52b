//! What stands for the files of objects that have none yet: the engine says what, and parts below it ask here.

use crate::disk::DiskFile;
use crate::error::Result;
use crate::ident::ObjectKey;
use std::sync::{Arc, OnceLock};

/// Finds what stands for the files of objects.
pub(crate) trait FindStandIn: Send + Sync {
    /// What stands for the file of an object that has none, if anything does. The caller may have locked the object.
    fn open(&self, key: ObjectKey) -> Result<Option<Arc<dyn DiskFile>>>;

    /// Writes the object's whole file, durably, if something stands for it.
    fn complete(&self, key: ObjectKey) -> Result<()>;

    /// The object has left memory, or its file does not count any more.
    fn forget(&self, key: ObjectKey);
}

/// See the module. Nothing stands for any file before [`Self::find_with`].
#[derive(Default)]
pub(crate) struct StandIns(OnceLock<Box<dyn FindStandIn>>);

impl StandIns {
    /// To be called once, before any object is opened.
    pub(crate) fn find_with(&self, finder: impl FindStandIn + 'static) {
        let _ = self.0.set(Box::new(finder));
    }

    /// As [`FindStandIn::open`].
    pub(crate) fn open(&self, key: ObjectKey) -> Result<Option<Arc<dyn DiskFile>>> {
        self.0.get().map_or(Ok(None), |finder| finder.open(key))
    }

    /// As [`FindStandIn::complete`]. A checkpoint brings no other file up to date.
    pub(crate) fn complete(&self, key: ObjectKey) -> Result<()> {
        self.0.get().map_or(Ok(()), |finder| finder.complete(key))
    }

    /// As [`FindStandIn::forget`].
    pub(crate) fn forget(&self, key: ObjectKey) {
        if let Some(finder) = self.0.get() {
            finder.forget(key);
        }
    }
}
