//! Opens the database of an object of an open store.

use super::ObjectDb;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::ObjectKey;
use crate::pagefile::PageFile;
use std::rc::Rc;
use std::sync::Arc;

impl Engine {
    /// Opens an object as a file for a connection.
    pub(crate) fn page_file(self: &Arc<Self>, key: ObjectKey) -> Result<Rc<PageFile>> {
        let owned = self.must_own(key)?;
        self.hydrate(key)?;
        let opened = self.objects.open(key);
        let object = opened.inspect_err(|_| self.recount_quarantined())?;
        let is_same_tenure = object.owned == owned;
        let file = Rc::new(PageFile::new(self.clone(), object));
        // In another tenure, it may have no file yet.
        is_same_tenure
            .then_some(file)
            .ok_or_else(|| Error::moved(key))
    }

    /// Opens an object's database.
    pub(crate) fn open_database(self: &Arc<Self>, key: ObjectKey) -> Result<ObjectDb> {
        ObjectDb::open(self.page_file(key)?, self.shared.options.cache_kib)
    }
}
