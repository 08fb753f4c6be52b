//! Large cold objects, whose pages are read as they are needed.

use crate::disk::DiskFile;
use crate::engine::Engine;
use crate::error::Result;
use crate::hydration::PagedFile;
use crate::ident::ObjectKey;
use crate::stand_ins::FindStandIn;
use std::sync::{Arc, Weak};

/// Shares an engine, whose large cold objects may be opened from now on.
pub(crate) fn shared(engine: Engine) -> Arc<Engine> {
    let engine = Arc::new(engine);
    let finder = PagesOf(Arc::downgrade(&engine));
    engine.shared.stand_ins.find_with(finder);
    engine
}

/// The large cold objects of an engine.
struct PagesOf(Weak<Engine>);

impl FindStandIn for PagesOf {
    fn open(&self, key: ObjectKey) -> Result<Option<Arc<dyn DiskFile>>> {
        let Some(engine) = self.0.upgrade() else {
            return Ok(None);
        };
        let file = engine.paged_file(key)?;
        Ok(file.map(|file| file as Arc<dyn DiskFile>))
    }

    fn complete(&self, key: ObjectKey) -> Result<()> {
        match self.0.upgrade() {
            Some(engine) if engine.is_large(key) || engine.lacks_base(key) => {
                engine.write_file(key)
            }
            _ => Ok(()),
        }
    }

    fn forget(&self, key: ObjectKey) {
        if let Some(engine) = self.0.upgrade() {
            engine.hydration.paged.forget(key);
        }
    }
}

impl Engine {
    /// Returns whether an object may have to be read page by page, because it is large and may be cold. Does not ask the disk.
    pub(crate) fn is_large(&self, key: ObjectKey) -> bool {
        self.hydration.may_lack(key) && {
            let manifest = self.shared.catalog.current();
            !manifest.large.is_empty() && manifest.large.contains(&key.to_string())
        }
    }

    /// See [`crate::Store::large_cold_objects`].
    pub(crate) fn large_cold_objects(&self) -> Vec<ObjectKey> {
        let manifest = self.shared.catalog.current();
        let listed = manifest.large.iter();
        let listed = listed.filter_map(|key| ObjectKey::parse(key));
        // One that cannot be looked up now may be cold.
        let is_cold =
            |key: &ObjectKey| self.hydration.may_lack(*key) && !matches!(self.cold(*key), Ok(None));
        listed.filter(is_cold).collect()
    }

    /// What stands for the file of a large cold object, unless its pages cannot be read one by one.
    ///
    /// # Errors
    /// As [`Engine::cold`].
    pub(crate) fn paged_file(&self, key: ObjectKey) -> Result<Option<Arc<PagedFile>>> {
        if !self.is_large(key) {
            return Ok(None);
        }
        let known = self.hydration.paged.find(key);
        if known.is_some() {
            return Ok(known);
        }
        let Some((path, newest)) = self.cold_on_disk(key)? else {
            return Ok(None);
        };
        let Some(paged) = self.archive.paged(&newest)? else {
            return Ok(None);
        };
        let file = PagedFile::new(self.shared.disk.clone(), path.clone(), paged);
        let file = self.hydration.paged.add(key, file);
        // The file may have been put in its place before the other was added.
        if self.exists(&path)? {
            file.is_written();
        }
        Ok(Some(file))
    }
}
