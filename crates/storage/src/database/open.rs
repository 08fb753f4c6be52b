//! Opens the database of an object of an open store.

use super::ObjectDb;
use crate::engine::Engine;
use crate::error::Result;
use crate::ident::ObjectKey;
use crate::pagefile::PageFile;
use std::rc::Rc;
use std::sync::Arc;

impl Engine {
    /// Opens an object as a file for a connection.
    pub(crate) fn page_file(self: &Arc<Self>, key: ObjectKey) -> Result<Rc<PageFile>> {
        self.hydrate(key)?;
        let opened = self.objects.open(key);
        let object = opened.inspect_err(|_| self.recount_quarantined())?;
        Ok(Rc::new(PageFile::new(self.clone(), object)))
    }

    /// Opens an object's database.
    pub(crate) fn open_database(self: &Arc<Self>, key: ObjectKey) -> Result<ObjectDb> {
        ObjectDb::open(self.page_file(key)?, self.shared.options.cache_kib)
    }
}
