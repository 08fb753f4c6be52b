//! How much the objects store, and the limits on it.
//!
//! The length of each object's database counts, as of its newest commit and including free pages: the size of its file
//! after the next checkpoint. The log, the archive and temporary files have their own limits.
//!
//! There are two limits: one for each object, enforced on every statement ([`crate::database`]), and one for all
//! objects together. Each has a reserve for writes that finish or delete something: updates and deletes, alarms,
//! remembered calls, and an object's own work ([`crate::ObjectDb::use_reserve`]). The total of all objects is
//! maintained only if it has a limit: files are counted when the store is opened, and commits update the total. It is kept for
//! each folder of files, so that a folder can be counted again, and a class be deleted, whatever has happened to its files.

use crate::error::{Error, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::{
    MAX_OBJECT_BYTES, MAX_OBJECT_RESERVE_BYTES, MAX_TRANSACTION_BYTES, MIN_RESERVE_BYTES,
    PAGE_BYTES, RESERVE_SHARE, STORE_RESERVE_BYTES,
};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use rustc_hash::FxHashMap;

const PAGE: u64 = PAGE_BYTES as u64;

/// Which storage limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundOf {
    Object,
    All,
}

/// The most pages that a database may have at the end of a transaction, without the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) pages: u32,
    pub(crate) of: BoundOf,
}

/// A directory of object files: those of a namespace whose ids begin with the same byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Folder {
    pub(crate) namespace: NamespaceNo,
    pub(crate) first: u8,
}

impl Folder {
    pub(crate) fn of(key: ObjectKey) -> Self {
        Self {
            namespace: key.namespace,
            first: key.id[0],
        }
    }
}

/// What is counted for a folder.
#[derive(Default)]
struct Counted {
    pages: u64,
    changes: u64,
}

pub(crate) struct Stored {
    /// Pages of all objects, if they have a limit. Changed only with `folders`, whose sum it is.
    pages: AtomicU64,
    folders: Mutex<FxHashMap<Folder, Counted>>,
    object_bytes: u64,
    all_bytes: Option<u64>,
    refused_object: AtomicU64,
    refused_all: AtomicU64,
}

impl Stored {
    pub(crate) fn new(object_bytes: u64, all_bytes: Option<u64>) -> Self {
        Self {
            pages: AtomicU64::new(0),
            folders: Mutex::default(),
            object_bytes: object_bytes.min(MAX_OBJECT_BYTES),
            all_bytes,
            refused_object: AtomicU64::new(0),
            refused_all: AtomicU64::new(0),
        }
    }

    /// SQLite's `max_page_count` for an object of this many pages: its limit plus the reserve. An object written under
    /// a larger limit gets the reserve, too.
    pub(crate) fn max_page_count(&self, pages: u32) -> u64 {
        let reserve = reserve(self.object_bytes, MAX_OBJECT_RESERVE_BYTES);
        (self.object_bytes.max(u64::from(pages) * PAGE) + reserve) / PAGE
    }

    /// The size to which an object of this many pages may grow in one transaction; `None` if it cannot reach the limit.
    /// An object without a commit is held to the total limit only when it commits: until then it may have to create its
    /// tables to be read.
    pub(crate) fn bound(&self, committed: u32) -> Option<Bound> {
        let of_object = self.object_bytes / PAGE;
        let of_all = self.all_bytes.filter(|_| committed > 0);
        let of_all = of_all.map(|bytes| {
            let free = (bytes / PAGE).saturating_sub(self.pages.load(Ordering::Relaxed));
            u64::from(committed) + free
        });
        let (pages, of) = match of_all {
            Some(pages) if pages < of_object => (pages, BoundOf::All),
            _ => (of_object, BoundOf::Object),
        };
        let reach = u64::from(committed) + (MAX_TRANSACTION_BYTES / PAGE_BYTES) as u64;
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        (u64::from(pages) < reach).then_some(Bound { pages, of })
    }

    /// Rejects a commit after which all objects would exceed the total limit, plus the reserve if the object has been
    /// committed before.
    pub(crate) fn admit(&self, before: u32, after: u32) -> Result<()> {
        let Some(bytes) = self.all_bytes.filter(|_| after > before) else {
            return Ok(());
        };
        let reserve = match before {
            0 => 0,
            _ => reserve(bytes, STORE_RESERVE_BYTES),
        };
        let grown = self.pages.load(Ordering::Relaxed) + u64::from(after - before);
        if grown * PAGE <= bytes.saturating_add(reserve) {
            return Ok(());
        }
        Err(self.refusal(BoundOf::All))
    }

    /// Records that an object changed from `before` to `after` pages. Call it with the object's pages locked.
    pub(crate) fn changed(&self, key: ObjectKey, before: u32, after: u32) {
        if self.all_bytes.is_some() && before != after {
            let mut folders = self.folders.lock();
            let counted = folders.entry(Folder::of(key)).or_default();
            counted.changes += 1;
            // An object whose file could not be examined was counted as nothing.
            let pages = (counted.pages + u64::from(after)).saturating_sub(u64::from(before));
            self.replace(counted, pages);
        }
    }

    /// Returns whether the size of all objects counts.
    pub(crate) fn counts(&self) -> bool {
        self.all_bytes.is_some()
    }

    /// Records that a namespace was deleted with its objects.
    pub(crate) fn forget(&self, namespace: NamespaceNo) {
        self.folders.lock().retain(|folder, counted| {
            let stays = folder.namespace != namespace;
            if !stays {
                self.replace(counted, 0);
            }
            stays
        });
    }

    /// Counts a folder again. Returns false if an object in it changed meanwhile: nothing was corrected.
    pub(crate) fn recount(
        &self,
        folder: Folder,
        count: impl FnOnce() -> Result<u64>,
    ) -> Result<bool> {
        let changes = |counted: &Counted| counted.changes;
        let before = self.folders.lock().get(&folder).map(changes);
        let found = count()?;
        let mut folders = self.folders.lock();
        match folders.get_mut(&folder) {
            // Nothing is counted for it.
            None => Ok(true),
            Some(counted) if Some(counted.changes) == before => {
                self.replace(counted, found);
                Ok(true)
            }
            Some(_) => Ok(false),
        }
    }

    /// Sets what is counted for a folder, which is locked.
    fn replace(&self, counted: &mut Counted, pages: u64) {
        let change = pages.wrapping_sub(counted.pages);
        counted.pages = pages;
        self.pages.fetch_add(change, Ordering::Relaxed);
    }

    /// Returns whether all objects together have reached their limit.
    pub(crate) fn is_full(&self) -> bool {
        let bytes = self.pages.load(Ordering::Relaxed) * PAGE;
        self.all_bytes.is_some_and(|most| bytes >= most)
    }

    /// The error for a rejected write, which is counted.
    pub(crate) fn refusal(&self, of: BoundOf) -> Error {
        match of {
            BoundOf::Object => {
                self.refused_object.fetch_add(1, Ordering::Relaxed);
                Error::full(format!(
                    "the object's database has reached {} bytes, the limit set by storage.max_object_bytes; nothing \
                     was written: delete some of its data or raise the setting",
                    self.object_bytes
                ))
            }
            BoundOf::All => {
                self.refused_all.fetch_add(1, Ordering::Relaxed);
                Error::full(format!(
                    "all objects together have reached {} bytes, the limit set by storage.max_bytes; nothing was \
                     written: delete unneeded objects or raise the setting",
                    self.all_bytes.unwrap_or_default()
                ))
            }
        }
    }

    /// Bytes of all objects, if they have a limit.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let pages = self.pages.load(Ordering::Relaxed);
        self.all_bytes.map(|_| pages * PAGE)
    }

    /// Writes rejected because of the limit of one object, and because of the total limit.
    pub(crate) fn refused(&self) -> [u64; 2] {
        [&self.refused_object, &self.refused_all].map(|count| count.load(Ordering::Relaxed))
    }
}

fn reserve(bytes: u64, most: u64) -> u64 {
    (bytes / RESERVE_SHARE).clamp(MIN_RESERVE_BYTES, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Option<u64> = Some(1 << 30);

    fn key(namespace: u32, id: u8) -> ObjectKey {
        ObjectKey {
            namespace: NamespaceNo(namespace),
            id: [id; 32],
        }
    }

    fn pages(stored: &Stored) -> u64 {
        stored.bytes().unwrap() / PAGE
    }

    #[test]
    fn a_folder_that_changes_while_it_is_counted_is_left_as_it_was() {
        let stored = Stored::new(1 << 20, ALL);
        stored.changed(key(1, 1), 0, 10);
        stored.changed(key(1, 2), 0, 20);
        let folder = Folder::of(key(1, 1));
        let changed = stored.recount(folder, || {
            stored.changed(key(1, 1), 10, 15);
            stored.changed(key(1, 1), 15, 10);
            Ok(7)
        });
        assert!(!changed.unwrap());
        assert_eq!(pages(&stored), 30);
        stored
            .recount(folder, || Err(Error::input("no")))
            .unwrap_err();
        let others = stored.recount(folder, || {
            stored.changed(key(1, 2), 20, 25);
            Ok(7)
        });
        assert!(others.unwrap());
        assert_eq!(pages(&stored), 32);
    }

    #[test]
    fn a_namespace_that_is_deleted_while_it_is_counted_counts_nothing() {
        let stored = Stored::new(1 << 20, ALL);
        for id in 1..=3 {
            stored.changed(key(1, id), 0, 10);
            stored.changed(key(2, id), 0, 1);
        }
        let folder = Folder::of(key(1, 1));
        let counted = stored.recount(folder, || {
            stored.forget(NamespaceNo(1));
            Ok(10)
        });
        assert!(counted.unwrap());
        assert_eq!(pages(&stored), 3);
    }

    #[test]
    fn an_object_that_was_not_counted_gives_nothing_back() {
        let stored = Stored::new(1 << 20, ALL);
        stored.changed(key(1, 1), 100, 3);
        stored.changed(key(1, 2), 0, 5);
        assert_eq!(pages(&stored), 5);
    }
}
