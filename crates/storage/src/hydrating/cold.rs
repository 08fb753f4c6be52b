//! Which objects are cold: they exist, and have no files yet.

use crate::archive::index::IndexEntry;
use crate::archive::lookup::Lookup;
use crate::archive::newest::NewestEntries;
use crate::catalog;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Engine {
    /// What the archive has of an object, if it is cold.
    ///
    /// # Errors
    /// A run, or a directory, cannot be read.
    pub(crate) fn cold(&self, key: ObjectKey) -> Result<Option<IndexEntry>> {
        let manifest = self.shared.catalog.current();
        // First: what is asked next is of the tenure in which the shard is owned.
        let is_owned = self.shared.log.owned(key.shard()).is_some();
        if !is_owned || self.needs_no_file(&manifest, key) {
            return Ok(None);
        }
        Ok(self.cold_on_disk(key)?.map(|(_, newest)| newest))
    }

    /// The same, with the path that its file will have. Does not ask whether the object is quarantined: its caller may have locked
    /// it.
    pub(super) fn cold_on_disk(&self, key: ObjectKey) -> Result<Option<(PathBuf, IndexEntry)>> {
        let manifest = self.shared.catalog.current();
        let Some(state) = manifest.hydration.filter(|state| state.may_lack(key)) else {
            return Ok(None);
        };
        let Some(path) = self.shared.catalog.object_path(key) else {
            return Ok(None);
        };
        if self.has_file_or_end(&path)? {
            return Ok(None);
        }
        let mut lookup = Lookup::new(&self.archive);
        let newest = lookup.newest(key);
        match lookup.into_lost() {
            // It may have a later state.
            Some(error) => Err(error),
            None => Ok(newest
                .filter(|newest| is_before(newest, state.before))
                .map(|newest| (path, newest))),
        }
    }

    /// The cold objects of all parts.
    pub(crate) fn cold_objects(&self) -> ColdObjects<'_> {
        let manifest = self.shared.catalog.current();
        let has_any = manifest.hydration.is_some();
        let newest = has_any.then(|| self.archive.newest_entries());
        ColdObjects {
            engine: self,
            manifest,
            newest,
        }
    }

    /// The names of the files beside each other in which the objects of a namespace are whose ids begin with this byte.
    pub(super) fn names_in_part(&self, namespace: NamespaceNo, byte: u8) -> Result<Vec<String>> {
        let Some(dir) = self.shared.catalog.namespace_dir(namespace) else {
            return Ok(Vec::new());
        };
        let part = dir.join(hex::encode([byte]));
        let names = self.shared.disk.list(&part);
        names.map_err(|error| Error::io(format_args!("reading {}", part.display()), &error))
    }

    /// Returns whether the log has only changes of an object, whose file was not looked at.
    pub(super) fn lacks_base(&self, key: ObjectKey) -> bool {
        let object = self.objects.find(key);
        object.is_some_and(|object| object.pages().continues_file())
    }

    /// Returns whether an object needs no file: it is unavailable, or memory has all of it.
    fn needs_no_file(&self, manifest: &Manifest, key: ObjectKey) -> bool {
        let is_shared = self.shared.options.has_shared_runs();
        let in_memory = || {
            let object = self.objects.find(key);
            object.is_some_and(|object| {
                let pages = object.pages();
                // Not so of a large one after a lazy restore: its pages are read one by one until it has its file.
                let is_whole = pages.ended || (pages.size > 0 && !pages.continues_file());
                pages.quarantined.is_some() || (is_shared && is_whole)
            })
        };
        manifest.quarantine_of(key).is_some() || in_memory()
    }

    /// Returns whether an object has its file, or has ended.
    pub(super) fn has_file_or_end(&self, path: &Path) -> Result<bool> {
        Ok(self.exists(path)? || self.exists(&catalog::ended_path(path))?)
    }

    pub(super) fn exists(&self, path: &Path) -> Result<bool> {
        match self.shared.disk.file_len(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io(
                format_args!("reading {}", path.display()),
                &error,
            )),
        }
    }
}

/// The cold objects, in the order of the first byte of their ids.
pub(crate) struct ColdObjects<'a> {
    engine: &'a Engine,
    manifest: Arc<Manifest>,
    /// `None` if every object has its file.
    newest: Option<NewestEntries>,
}

impl ColdObjects<'_> {
    /// Those whose ids begin with this byte. Bytes are asked for in ascending order.
    ///
    /// # Errors
    /// As [`Engine::cold`].
    pub(crate) fn with_first_byte(&mut self, byte: u8) -> Result<BTreeMap<ObjectKey, IndexEntry>> {
        let (engine, manifest) = (self.engine, &*self.manifest);
        let (Some(state), Some(newest)) = (manifest.hydration, &mut self.newest) else {
            return Ok(BTreeMap::new());
        };
        if byte < state.next {
            return Ok(BTreeMap::new());
        }
        newest.skip_to(byte);
        let known = newest.with_first_byte(byte);
        if let Some((_, error)) = newest.unread().first() {
            return Err(error.clone());
        }
        let mut has_file = BTreeSet::new();
        for namespace in (1..=manifest.namespaces.len() as u32).map(NamespaceNo) {
            for name in engine.names_in_part(namespace, byte)? {
                let id = catalog::id_in(&name);
                has_file.extend(id.map(|id| ObjectKey { namespace, id }));
            }
        }
        let is_cold = |(key, newest): &(ObjectKey, IndexEntry)| {
            is_before(newest, state.before)
                && manifest.unique_key(key.namespace).is_some()
                && engine.shared.log.owned(key.shard()).is_some()
                && !has_file.contains(key)
                && !engine.needs_no_file(manifest, *key)
        };
        Ok(known.into_iter().filter(is_cold).collect())
    }
}

/// Returns whether an object exists according to the archive, as of a commit before a position. An object with later commits
/// had a file: if that is gone, it was not the store that removed it.
fn is_before(newest: &IndexEntry, before: u64) -> bool {
    newest.newest.pages > 0 && newest.last.lsn.get() < before
}
