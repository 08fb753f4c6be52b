//! Forks an object from an earlier commit to another object, which is new or empty.

use crate::bookmark::Bookmark;
use crate::database::ObjectDb;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::idempotency::CallRow;
use crate::ident::ObjectKey;
use std::sync::Arc;

/// What an object keeps when another one is forked to it.
struct Kept {
    /// Its name.
    name: Option<String>,
    /// The results of its calls.
    calls: Vec<CallRow>,
}

impl Engine {
    /// See [`crate::Store::fork`].
    pub(crate) fn fork(
        self: &Arc<Self>,
        from: ObjectKey,
        at: &Bookmark,
        to: ObjectKey,
        name: Option<&str>,
    ) -> Result<()> {
        if from == to {
            return Err(Error::input(format!(
                "the object {to} cannot be forked to itself: restore it to that state instead"
            )));
        }
        // Nothing else can open, and write, the object until this is dropped.
        let file = self.page_file(to)?;
        let cache_kib = self.shared.options.cache_kib;
        let there = ObjectDb::open(file.clone(), cache_kib)?.kept()?;
        let Some(mut kept) = there else {
            return Err(Error::input(format!(
                "the object {to} exists and is not empty: fork to a name that was never used, or delete everything that the object has stored first"
            )));
        };
        kept.name = name.map(str::to_owned).or(kept.name);
        let image = self.image_at(from, at)?;
        let _replacing = self.replace(&file, &image, "forking")?;
        let db = ObjectDb::open(file, cache_kib)?;
        db.commit_forked(&kept, from, *at)?;
        self.wait_durable(db.newest())
    }
}

impl ObjectDb {
    /// What the object keeps when another one is forked to it; `None` if it has content, so that nothing may be.
    fn kept(&self) -> Result<Option<Kept>> {
        if !self.is_vacant()? {
            return Ok(None);
        }
        Ok(Some(Kept {
            name: self.name()?,
            calls: self.calls()?,
        }))
    }

    /// Like [`ObjectDb::commit_restored`], for an object forked from the pages of `origin` at a bookmark. It is dormant, and
    /// does not know the results of calls of its original: their callers did not call it. It keeps the results of calls that it has answered.
    fn commit_forked(&self, kept: &Kept, origin: ObjectKey, at: Bookmark) -> Result<()> {
        self.begin()?;
        self.begin_forked(origin.id, at)?;
        self.remember_only(&kept.calls)?;
        match kept.name.as_deref() {
            Some(name) => self.store_name(name)?,
            None => {
                self.internal("DELETE FROM _abide_meta WHERE key = 'name'/*abide*/", ())?;
            }
        }
        self.forget_requested_restore()?;
        self.commit_staged()
    }
}
