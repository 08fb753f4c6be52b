//! The table of live objects: those that are open or have pages that are not in their files yet.
//!
//! An object in the table is not retired, and a retired one is not in the table. Both change together, under the lock
//! of the object's pages.

use crate::alarms::AlarmIndex;
use crate::disk::{DiskFile, OpenMode};
use crate::error::{Error, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::{OVERLAY_FACTOR, OVERLAY_PAGE_BYTES, OVERLAY_SHARE, PAGE_BYTES};
use crate::memory::MemoryUse;
use crate::overlay::{FileState, Object, Pages, header};
use crate::quarantine::{self, QuarantinedObject};
use crate::shared::Shared;
use crate::stored::Folder;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::sync::Arc;

pub(crate) struct ObjectTable {
    shared: Arc<Shared>,
    /// An object with an alarm was written, so it must have a file.
    alarms: Arc<AlarmIndex>,
    live: Mutex<FxHashMap<ObjectKey, Arc<Object>>>,
    /// Pages in all overlays.
    overlay_pages: AtomicU64,
    /// Quarantined objects that the manifest does not list yet, and why.
    newly_quarantined: Mutex<BTreeMap<ObjectKey, String>>,
    /// The folders in which objects have been quarantined and not counted since.
    miscounted: Mutex<BTreeSet<Folder>>,
    /// The namespaces that are being deleted, or were.
    shut: Mutex<BTreeSet<NamespaceNo>>,
}

impl ObjectTable {
    /// `objects` are those that recovery found in the log's tail.
    pub(crate) fn new(
        shared: Arc<Shared>,
        alarms: Arc<AlarmIndex>,
        objects: FxHashMap<ObjectKey, Arc<Object>>,
    ) -> Self {
        let overlays = objects.values().map(|o| o.pages().overlay.len() as u64);
        let quarantined = objects.values().filter_map(|object| {
            let why = object.pages().quarantined.clone();
            why.map(|why| (object.key, why))
        });
        let overlay_pages = overlays.sum();
        let memory = &shared.memory;
        memory.take(MemoryUse::Overlay, overlay_pages * OVERLAY_PAGE_BYTES);
        Self {
            overlay_pages: AtomicU64::new(overlay_pages),
            newly_quarantined: Mutex::new(quarantined.collect()),
            miscounted: Mutex::default(),
            shut: Mutex::default(),
            shared,
            alarms,
            live: Mutex::new(objects),
        }
    }

    /// Passes an object in the table, with its pages, to a function. The object stays in the table while it is open or
    /// has pages in the overlay; see [`Self::forget_if_idle`].
    pub(crate) fn with<R>(
        &self,
        key: ObjectKey,
        access: impl FnOnce(&Arc<Object>, &mut Pages) -> R,
    ) -> Result<R> {
        loop {
            let object = self.get(key)?;
            let mut pages = object.pages();
            // The holder of the lock may have removed it from the table.
            if !pages.retired {
                return Ok(access(&object, &mut pages));
            }
        }
    }

    fn get(&self, key: ObjectKey) -> Result<Arc<Object>> {
        if let Some(object) = self.live.lock().get(&key) {
            return Ok(object.clone());
        }
        let path = self.shared.catalog.object_path(key).ok_or_else(|| {
            Error::input(format!(
                "there is no namespace number {} in this data directory",
                key.namespace.0
            ))
        })?;
        let mut live = self.live.lock();
        // Under the table's lock, so that no object of an ended tenure enters the table after `forget_shard`.
        let owned = self.shared.log.owned(key.shard());
        let owned = owned.ok_or_else(|| Error::moved(key))?;
        let object = live
            .entry(key)
            .or_insert_with(|| Arc::new(Object::new(key, owned, path)));
        Ok(object.clone())
    }

    /// The object, if it is live.
    pub(crate) fn find(&self, key: ObjectKey) -> Option<Arc<Object>> {
        self.live.lock().get(&key).cloned()
    }

    /// All live objects.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.live.lock().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.live.lock().len()
    }

    /// Opens an object for a connection: reads its size and commit number, and rejects it if it is damaged.
    pub(crate) fn open(&self, key: ObjectKey) -> Result<Arc<Object>> {
        if let Some(quarantine) = self.shared.catalog.current().quarantine_of(key) {
            return Err(quarantine::refusal(key, &quarantine.why));
        }
        self.open_for_repair(key)
    }

    /// Like [`Self::open`], for a repair, which ends a quarantine.
    pub(crate) fn open_for_repair(&self, key: ObjectKey) -> Result<Arc<Object>> {
        let (opened, object) = self.with(key, |object, pages| {
            (self.take(object, pages), object.clone())
        })?;
        if let Err(error) = opened {
            self.forget_if_idle(&object);
            return Err(error);
        }
        Ok(object)
    }

    /// See [`Self::open`].
    fn take(&self, object: &Arc<Object>, pages: &mut Pages) -> Result<()> {
        let key = object.key;
        if pages.open {
            return Err(in_use(key));
        }
        // Once the object is in the table, where `shut` and `forget_shard` look for open ones.
        let owned = self.shared.log.owned(key.shard());
        if owned != Some(object.owned) {
            return Err(Error::moved(key));
        }
        if self.shut.lock().contains(&key.namespace) {
            return Err(Error::refused(format!(
                "the class of the object {key} is being deleted"
            )));
        }
        self.look_at_file(object, pages)?;
        if let Some(why) = &pages.quarantined {
            return Err(quarantine::refusal(key, why));
        }
        pages.open = true;
        Ok(())
    }

    /// Reads size and commit number from the file, and compares them with the log's tail.
    pub(crate) fn look_at_file(&self, object: &Arc<Object>, pages: &mut Pages) -> Result<()> {
        let is_known = (pages.size > 0 || pages.ended) && pages.tail.is_none();
        if is_known || pages.quarantined.is_some() {
            return Ok(());
        }
        let found = self.file(object, pages)?;
        let in_file = match &found {
            None => None,
            Some(file) => {
                let mut head = [0; header::BYTES];
                let read = file.read_at(&mut head, 0);
                let read = read.map_err(|error| reading(object, &error))?;
                (read == head.len()).then_some(head)
            }
        };
        let numbers = in_file.map(|head| (header::commit(&head), header::size(&head)));
        let why = match (numbers, pages.tail) {
            (Some((commit, _)), Some(_)) if commit.is_after(pages.commit) => Some(format!(
                "its file has commit {}, but the log ends with commit {}",
                commit.0, pages.commit.0
            )),
            // The log has everything.
            (_, Some(tail)) if tail.is_whole || pages.ended => None,
            (Some((commit, _)), Some(tail)) if tail.first.is_after(commit.next()) => Some(format!(
                "its file ends with commit {}, but the log continues with commit {}",
                commit.0, tail.first.0
            )),
            (None, Some(tail)) => Some(format!(
                "its file is missing or empty, but the log continues with commit {}",
                tail.first.0
            )),
            (Some((commit, size)), None)
                if in_file.is_some_and(|head| header::is_database(&head)) =>
            {
                pages.commit = commit;
                pages.size = size;
                None
            }
            (_, None) if found.is_some() => {
                Some("its file is empty or is not a database".to_owned())
            }
            (None, None) if self.alarms.get(object.key).is_some() => Some(
                "its file is missing, although it has an alarm and was therefore written"
                    .to_owned(),
            ),
            _ => None,
        };
        if pages.tail.is_none() {
            // Where its newest commit ends is unknown; files hold, and lack, nothing that was not durable.
            pages.newest = pages.newest.max(self.shared.log.durable());
        }
        pages.has_file = found.is_some();
        match why {
            Some(why) => self.quarantine(object.key, pages, why),
            None => pages.tail = None,
        }
        Ok(())
    }

    /// Makes an object unavailable from now on. The next checkpoint makes that durable.
    pub(crate) fn quarantine(&self, key: ObjectKey, pages: &mut Pages, why: String) {
        tracing::error!(object = %key, why, "quarantined an object: it is unavailable until it is repaired");
        self.newly_quarantined.lock().insert(key, why.clone());
        pages.quarantined = Some(why);
        self.is_miscounted(Folder::of(key));
    }

    /// Records that a folder is to be counted again.
    pub(crate) fn is_miscounted(&self, folder: Folder) {
        self.miscounted.lock().insert(folder);
    }

    /// The folders that are to be counted again, which the caller does.
    pub(crate) fn take_miscounted(&self) -> BTreeSet<Folder> {
        mem::take(&mut *self.miscounted.lock())
    }

    /// Records that the manifest lists these objects.
    pub(crate) fn quarantine_is_listed(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        let mut new = self.newly_quarantined.lock();
        for key in keys {
            new.remove(&key);
        }
    }

    /// The objects that are unavailable until they are repaired.
    pub(crate) fn quarantined(&self) -> Vec<QuarantinedObject> {
        let mut all = self.newly_quarantined.lock().clone();
        for (key, quarantine) in &self.shared.catalog.current().quarantined {
            if let Some(key) = ObjectKey::parse(key) {
                all.insert(key, quarantine.why.clone());
            }
        }
        let object = |(key, why)| QuarantinedObject { key, why };
        all.into_iter().map(object).collect()
    }

    /// Resets the state of a quarantined object whose file has been replaced. It is not open.
    pub(crate) fn renew(&self, key: ObjectKey) -> Result<()> {
        self.with(key, |object, pages| {
            if pages.open {
                return Err(in_use(key));
            }
            self.retire(object, pages);
            Ok(())
        })?
    }

    /// Lets no object of a namespace be opened from now on.
    ///
    /// # Errors
    /// One of them is open. Nothing has changed.
    pub(crate) fn shut(&self, namespace: NamespaceNo) -> Result<()> {
        self.shut.lock().insert(namespace);
        self.must_be_closed(|key| key.namespace == namespace)
            .inspect_err(|_| self.admit(namespace))
    }

    /// Fails if one of these objects is open.
    pub(crate) fn must_be_closed(&self, which: impl Fn(&ObjectKey) -> bool) -> Result<()> {
        let mut objects = self.all().into_iter();
        match objects.find(|object| which(&object.key) && object.pages().open) {
            None => Ok(()),
            Some(object) => Err(in_use(object.key)),
        }
    }

    /// Lets objects of a namespace be opened again.
    pub(crate) fn admit(&self, namespace: NamespaceNo) {
        self.shut.lock().remove(&namespace);
    }

    /// Forgets objects, of which none is open.
    pub(crate) fn forget(&self, is_gone: impl Fn(&ObjectKey) -> bool) {
        for object in self.all() {
            if !is_gone(&object.key) {
                continue;
            }
            let mut pages = object.pages();
            if !pages.retired {
                self.retire(&object, &mut pages);
            }
            self.quarantine_is_listed([object.key]);
        }
    }

    /// Adds adopted objects. The table has none of their shard.
    pub(crate) fn adopt(&self, objects: impl IntoIterator<Item = Arc<Object>>) {
        let mut live = self.live.lock();
        for object in objects {
            self.count_overlay(0, object.pages().overlay.len());
            live.insert(object.key, object);
        }
    }

    /// Removes an object, which is not open, from the table.
    fn retire(&self, object: &Object, pages: &mut Pages) {
        self.close_file(object, pages);
        self.count_overlay(pages.overlay.len(), 0);
        pages.overlay = FxHashMap::default();
        pages.retired = true;
        self.shared.stand_ins.forget(object.key);
        self.live.lock().remove(&object.key);
    }

    /// Records that a connection has closed.
    pub(crate) fn close(&self, object: &Object) {
        object.pages().open = false;
        self.forget_if_idle(object);
    }

    /// Drops an object from the table if it is not open and its file is complete. Pages are locked before the table,
    /// never after: an object that waits must not block the others.
    pub(crate) fn forget_if_idle(&self, object: &Object) {
        let mut pages = object.pages();
        let is_written = pages.overlay.is_empty() && !pages.ended;
        let idle = !pages.open && is_written && pages.quarantined.is_none();
        if idle && !pages.retired {
            self.retire(object, &mut pages);
        }
    }

    /// The object's file, if it has one.
    pub(crate) fn file(
        &self,
        object: &Arc<Object>,
        pages: &mut Pages,
    ) -> Result<Option<Arc<dyn DiskFile>>> {
        if let Some(file) = self.shared.open_files.get(object, pages) {
            return Ok(Some(file.clone()));
        }
        if let FileState::Missing = pages.file {
            return Ok(None);
        }
        let path = object.file_path(pages);
        match self.shared.disk.open(&path, OpenMode::Existing) {
            Ok(file) => {
                self.shared.open_files.add(object, pages, file.clone());
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.without_file(object, pages, &error)
            }
            Err(error) => {
                let doing = format_args!("opening {}", path.display());
                Err(Error::of_object(object.key, doing, &error))
            }
        }
    }

    /// What stands for the file of an object that has none.
    fn without_file(
        &self,
        object: &Arc<Object>,
        pages: &mut Pages,
        error: &io::Error,
    ) -> Result<Option<Arc<dyn DiskFile>>> {
        let stand_in = match pages.replaced {
            // Only the state before it is in the archive.
            Some(_) => None,
            None => self.shared.stand_ins.open(object.key)?,
        };
        if let Some(file) = stand_in {
            self.shared.open_files.add(object, pages, file.clone());
            return Ok(Some(file));
        }
        if !pages.has_file {
            pages.file = FileState::Missing;
            return Ok(None);
        }
        let path = object.file_path(pages);
        let doing = format_args!("opening {}, which is missing", path.display());
        Err(Error::of_object(object.key, doing, error))
    }

    /// Records that a checkpoint has created the object's file.
    pub(crate) fn file_was_made(
        &self,
        object: &Arc<Object>,
        pages: &mut Pages,
        file: Arc<dyn DiskFile>,
    ) {
        self.shared.open_files.add(object, pages, file);
    }

    /// Closes the object's file. The next user reopens it.
    pub(crate) fn close_file(&self, object: &Object, pages: &mut Pages) {
        self.shared.open_files.close(object, pages);
    }

    /// Records that an overlay changed from `before` to `after` pages.
    pub(crate) fn count_overlay(&self, before: usize, after: usize) {
        self.overlay_pages.fetch_add(
            (after as u64).wrapping_sub(before as u64),
            Ordering::Relaxed,
        );
        let bytes = after.abs_diff(before) as u64 * OVERLAY_PAGE_BYTES;
        let memory = &self.shared.memory;
        if after > before {
            memory.take(MemoryUse::Overlay, bytes);
        } else {
            memory.give(MemoryUse::Overlay, bytes);
        }
    }

    pub(crate) fn overlay_bytes(&self) -> u64 {
        self.overlay_pages.load(Ordering::Relaxed) * PAGE_BYTES as u64
    }

    /// Returns whether commits must wait for a checkpoint.
    pub(crate) fn overlay_is_full(&self) -> bool {
        self.overlay_bytes() >= self.max_overlay_bytes()
    }

    /// The size of all overlays in bytes at which commits wait for a checkpoint.
    pub(crate) fn max_overlay_bytes(&self) -> u64 {
        let options = &self.shared.options;
        let of_log = options.checkpoint_bytes.saturating_mul(OVERLAY_FACTOR);
        let pages_of_memory = options.memory.limit() / OVERLAY_SHARE / OVERLAY_PAGE_BYTES;
        of_log.min(pages_of_memory * PAGE_BYTES as u64)
    }
}

fn in_use(key: ObjectKey) -> Error {
    Error::refused(format!(
        "the object {key} is already open; an object has only one connection"
    ))
}

/// An error of reading an object's file.
pub(crate) fn reading(object: &Object, error: &io::Error) -> Error {
    let doing = format_args!("reading {}", object.path.display());
    Error::of_object(object.key, doing, error)
}
