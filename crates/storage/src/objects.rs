//! The table of live objects: those that are open or have pages that their files lack.
//!
//! An object in the table is not retired, and a retired one is not in the table. Both change together, under the lock
//! of the object's pages.

use crate::broken::{Variant, broken};
use crate::disk::{DiskFile, OpenMode};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::ObjectKey;
use crate::limits::{OPEN_FILES, OVERLAY_FACTOR, PAGE_BYTES};
use crate::overlay::{FileState, Object, Pages, header};
use crate::shared::Shared;
use crate::sync::Mutex;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

pub(crate) struct ObjectTable {
    shared: Arc<Shared>,
    live: Mutex<FxHashMap<ObjectKey, Arc<Object>>>,
    open_files: Mutex<VecDeque<Weak<Object>>>,
    /// Pages in all overlays.
    overlay_pages: AtomicU64,
}

impl ObjectTable {
    /// `objects` are those that recovery has found in the log's tail.
    pub(crate) fn new(shared: Arc<Shared>, objects: FxHashMap<ObjectKey, Arc<Object>>) -> Self {
        let overlays = objects.values().map(|o| o.pages().overlay.len() as u64);
        Self {
            overlay_pages: AtomicU64::new(overlays.sum()),
            shared,
            live: Mutex::new(objects),
            open_files: Mutex::default(),
        }
    }

    /// Gives access to an object that is in the table, and to its pages. It stays there while it is open or has pages
    /// in the overlay; see [`Self::forget_if_idle`].
    pub(crate) fn with<R>(
        &self,
        key: ObjectKey,
        access: impl FnOnce(&Arc<Object>, &mut Pages) -> R,
    ) -> Result<R> {
        loop {
            let object = self.get(key)?;
            let mut pages = object.pages();
            // Whoever had the pages until now may have taken it from the table.
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
        let object = live
            .entry(key)
            .or_insert_with(|| Arc::new(Object::new(key, path)));
        Ok(object.clone())
    }

    /// All live objects.
    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.live.lock().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.live.lock().len()
    }

    /// Takes an object for a connection: learns its size and commit number, and refuses it if it is damaged.
    pub(crate) fn open(&self, key: ObjectKey) -> Result<Arc<Object>> {
        if let Some(why) = self
            .shared
            .catalog
            .current()
            .quarantined
            .get(&key.to_string())
        {
            return Err(quarantined(key, why));
        }
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
        let shared = broken(Variant::OpenedTwice);
        if pages.open && !shared {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("the object {key} is open already; an object has one connection"),
            ));
        }
        self.look_at_file(object, pages)?;
        if let Some(why) = &pages.quarantined {
            return Err(quarantined(key, why));
        }
        pages.open = true;
        Ok(())
    }

    /// Reads size and commit number from the file, and compares them with the log's tail.
    pub(crate) fn look_at_file(&self, object: &Arc<Object>, pages: &mut Pages) -> Result<()> {
        if pages.size > 0 && pages.tail.is_none() {
            return Ok(());
        }
        let in_file = match self.file(object, pages)? {
            None => None,
            Some(file) => {
                let mut head = [0; 100];
                let read = file.read_at(&mut head, 0);
                let read = read.map_err(|e| {
                    Error::io(format_args!("reading {}", object.path.display()), &e)
                })?;
                // A file that was made but never synced can be found empty after a crash; the log then has it all.
                (read == head.len()).then_some((header::commit(&head), header::size(&head)))
            }
        };
        match (in_file, pages.tail.take()) {
            (Some((commit, _)), Some(first)) if first.is_after(commit.next()) => {
                pages.quarantined = Some(format!(
                    "its file ends with commit {}, the log goes on with commit {}",
                    commit.0, first.0
                ));
            }
            (Some((commit, _)), Some(_)) if commit.is_after(pages.commit) => {
                pages.quarantined = Some(format!(
                    "its file has commit {}, the log ends with commit {}",
                    commit.0, pages.commit.0
                ));
            }
            (None, Some(first)) if first.0 != 1 => {
                pages.quarantined = Some(format!(
                    "its file is missing, the log goes on with commit {}",
                    first.0
                ));
            }
            (Some((commit, size)), None) => {
                pages.commit = commit;
                pages.size = size;
                // Where it ends is not known; files hold nothing that was not durable.
                pages.newest = pages.newest.max(self.shared.log.durable());
            }
            _ => {}
        }
        Ok(())
    }

    /// A connection has closed.
    pub(crate) fn close(&self, object: &Object) {
        object.pages().open = false;
        self.forget_if_idle(object);
    }

    /// Drops an object from the table if nobody has it open and its file has all of it. Pages are locked before the
    /// table, never after: what one object waits for must not hold up the others.
    pub(crate) fn forget_if_idle(&self, object: &Object) {
        let mut pages = object.pages();
        let idle = !pages.open && pages.overlay.is_empty() && pages.quarantined.is_none();
        if idle && !pages.retired {
            pages.retired = true;
            self.live.lock().remove(&object.key);
        }
    }

    /// The object's file, if it has one. Descriptors are given back in the order in which they were opened.
    pub(crate) fn file(
        &self,
        object: &Arc<Object>,
        pages: &mut Pages,
    ) -> Result<Option<Arc<dyn DiskFile>>> {
        match &pages.file {
            FileState::Missing => return Ok(None),
            FileState::Open(file) => return Ok(Some(file.clone())),
            FileState::Unknown => {}
        }
        match self.shared.disk.open(&object.path, OpenMode::Existing) {
            Ok(file) => {
                pages.file = FileState::Open(file.clone());
                self.give_back_descriptors(object);
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                pages.file = FileState::Missing;
                Ok(None)
            }
            Err(error) => Err(Error::io(
                format_args!("opening {}", object.path.display()),
                &error,
            )),
        }
    }

    /// The caller holds `newest` locked. Another that is locked at this moment keeps its descriptor until its file is
    /// looked up again.
    fn give_back_descriptors(&self, newest: &Arc<Object>) {
        let oldest = {
            let mut open = self.open_files.lock();
            open.push_back(Arc::downgrade(newest));
            if open.len() > OPEN_FILES {
                open.pop_front()
            } else {
                None
            }
        };
        if let Some(oldest) = oldest.and_then(|o| o.upgrade())
            && oldest.key != newest.key
            && let Some(mut pages) = oldest.try_pages()
        {
            pages.file = FileState::Unknown;
        }
    }

    /// Notes that an overlay went from `before` to `after` pages.
    pub(crate) fn count_overlay(&self, before: usize, after: usize) {
        self.overlay_pages.fetch_add(
            (after as u64).wrapping_sub(before as u64),
            Ordering::Relaxed,
        );
    }

    pub(crate) fn overlay_bytes(&self) -> u64 {
        self.overlay_pages.load(Ordering::Relaxed) * PAGE_BYTES as u64
    }

    /// True if commits must wait for a checkpoint.
    pub(crate) fn overlay_is_full(&self) -> bool {
        let bound = self.shared.options.checkpoint_bytes;
        self.overlay_bytes() >= bound.saturating_mul(OVERLAY_FACTOR)
    }
}

fn quarantined(key: ObjectKey, why: &str) -> Error {
    Error::damaged(format!(
        "the object {key} is quarantined: {why}. Restore the data directory from a backup"
    ))
}
