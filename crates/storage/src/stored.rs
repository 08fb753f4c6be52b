//! How much the objects store, and how much they may.
//!
//! What counts is the length of each object's database as of its newest commit, free pages included: what its file has after
//! the next checkpoint. The log, the archive and temporary files have bounds of their own.
//!
//! Two bounds: of one object, which each statement is held to ([`crate::database`]), and of all objects together. Behind each
//! there is a reserve for what must be written to finish or to delete: updates and deletes, alarms, remembered calls, and
//! what an object does by itself ([`crate::ObjectDb::use_reserve`]). The count of all objects is kept only if they have a
//! bound: files are looked at when the store is opened, and from then on commits tell what they change.

use crate::broken::{Variant, broken};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ident::{NamespaceNo, ObjectKey};
use crate::limits::{
    MAX_OBJECT_BYTES, MAX_OBJECT_RESERVE_BYTES, MAX_TRANSACTION_BYTES, MIN_RESERVE_BYTES,
    PAGE_BYTES, RESERVE_SHARE, STORE_RESERVE_BYTES,
};
use crate::parallel;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::timing;
use std::io;
use std::path::Path;

const PAGE: u64 = PAGE_BYTES as u64;

/// Which bound of stored bytes was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoundOf {
    Object,
    All,
}

/// The most pages that a database may have at the end of a transaction, but for the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) pages: u32,
    pub(crate) of: BoundOf,
}

pub(crate) struct Stored {
    /// Pages of all objects, if they have a bound.
    pages: AtomicU64,
    object_bytes: u64,
    all_bytes: Option<u64>,
    refused_object: AtomicU64,
    refused_all: AtomicU64,
}

impl Stored {
    pub(crate) fn new(object_bytes: u64, all_bytes: Option<u64>) -> Self {
        Self {
            pages: AtomicU64::new(0),
            object_bytes: object_bytes.min(MAX_OBJECT_BYTES),
            all_bytes,
            refused_object: AtomicU64::new(0),
            refused_all: AtomicU64::new(0),
        }
    }

    /// SQLite's `max_page_count` for an object of so many pages: its bound with the reserve. One that was written under a
    /// larger bound has the reserve, too.
    pub(crate) fn max_page_count(&self, pages: u32) -> u64 {
        let reserve = reserve(self.object_bytes, MAX_OBJECT_RESERVE_BYTES);
        (self.object_bytes.max(u64::from(pages) * PAGE) + reserve) / PAGE
    }

    /// What an object of so many pages may grow to in one transaction; `None` if none can be as large. An object without a
    /// commit is held to the bound of all when it commits: until then it may have to make its tables to be read.
    pub(crate) fn bound(&self, committed: u32) -> Option<Bound> {
        let of_object = self.object_bytes / PAGE;
        let of_all = self
            .all_bytes
            .filter(|_| committed > 0 && !broken(Variant::StoreBoundIgnored));
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

    /// Refuses a commit after which all objects would have more than they may, with the reserve if the object has been
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
        if grown * PAGE <= bytes.saturating_add(reserve) || broken(Variant::StoreBoundIgnored) {
            return Ok(());
        }
        Err(self.refusal(BoundOf::All))
    }

    /// Notes that an object went from `before` to `after` pages.
    pub(crate) fn changed(&self, before: u32, after: u32) {
        if self.all_bytes.is_some() && before != after && !broken(Variant::GrowthNotCounted) {
            let change = u64::from(after).wrapping_sub(u64::from(before));
            self.pages.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// True if all objects have as much as they may.
    pub(crate) fn is_full(&self) -> bool {
        let bytes = self.pages.load(Ordering::Relaxed) * PAGE;
        self.all_bytes.is_some_and(|most| bytes >= most)
    }

    /// The refusal of a write, which is counted.
    pub(crate) fn refusal(&self, of: BoundOf) -> Error {
        match of {
            BoundOf::Object => {
                self.refused_object.fetch_add(1, Ordering::Relaxed);
                Error::full(format!(
                    "the object's database has reached {} bytes, which is all that storage.max_object_bytes allows; nothing \
                     was written: delete some of what it stores, or raise the setting",
                    self.object_bytes
                ))
            }
            BoundOf::All => {
                self.refused_all.fetch_add(1, Ordering::Relaxed);
                Error::full(format!(
                    "all objects together have reached {} bytes, which is all that storage.max_bytes allows; nothing was \
                     written: delete objects that are not needed, or raise the setting",
                    self.all_bytes.unwrap_or_default()
                ))
            }
        }
    }

    /// Bytes of all objects, if they have a bound.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let pages = self.pages.load(Ordering::Relaxed);
        self.all_bytes.map(|_| pages * PAGE)
    }

    /// Writes that were refused because of the bound of one object, and of that of all.
    pub(crate) fn refused(&self) -> [u64; 2] {
        [&self.refused_object, &self.refused_all].map(|count| count.load(Ordering::Relaxed))
    }
}

fn reserve(bytes: u64, most: u64) -> u64 {
    (bytes / RESERVE_SHARE).clamp(MIN_RESERVE_BYTES, most)
}

impl Engine {
    /// Counts what all objects have, if they have a bound. Nobody commits meanwhile.
    pub(crate) fn count_stored(&self) -> Result<()> {
        if self.stored.all_bytes.is_none() {
            return Ok(());
        }
        let begun = timing::now();
        let namespaces = self.shared.catalog.current().namespaces.len();
        let disk = &*self.shared.disk;
        let list = |dir: &Path| {
            let names = disk.list(dir);
            names.map_err(|error| Error::io(format_args!("reading {}", dir.display()), &error))
        };
        let mut folders = Vec::new();
        for namespace in (1..).map(NamespaceNo).take(namespaces) {
            if let Some(dir) = self.shared.catalog.namespace_dir(namespace) {
                let names = list(&dir)?.into_iter();
                folders.extend(names.map(|name| (namespace, dir.join(name))));
            }
        }
        let files = AtomicU64::new(0);
        parallel::for_each(
            self.shared.parallel_threads(),
            &folders,
            |(namespace, folder)| {
                for name in list(folder)? {
                    let id = name.strip_suffix(".sqlite").and_then(ObjectKey::parse_id);
                    let Some(id) = id else { continue };
                    files.fetch_add(1, Ordering::Relaxed);
                    let namespace = *namespace;
                    let key = ObjectKey { namespace, id };
                    // Those that recovery has found are counted by what the log says.
                    if self.objects.find(key).is_none() {
                        let pages = self.pages_at(key, &folder.join(name));
                        self.stored.changed(0, pages);
                    }
                }
                Ok(())
            },
        )?;
        for object in self.objects.all() {
            let size = object.pages().size;
            self.stored.changed(0, size);
        }
        tracing::info!(
            files = files.load(Ordering::Relaxed),
            bytes = self.stored.bytes(),
            seconds = begun.elapsed().as_secs_f64(),
            "counted what the objects store"
        );
        Ok(())
    }

    /// The pages that count for an object that is not open.
    pub(crate) fn counted_pages(&self, key: ObjectKey) -> u32 {
        let live = self.objects.find(key).map(|object| object.pages().size);
        match live {
            Some(size) if size > 0 => size,
            _ => self.pages_in_file(key),
        }
    }

    /// The length of an object's file. One that cannot be looked at counts for nothing: it must not keep the others from
    /// being served.
    pub(crate) fn pages_in_file(&self, key: ObjectKey) -> u32 {
        let path = self.shared.catalog.object_path(key);
        path.map_or(0, |path| self.pages_at(key, &path))
    }

    fn pages_at(&self, key: ObjectKey, path: &Path) -> u32 {
        match self.shared.disk.file_len(path) {
            Ok(bytes) => u32::try_from(bytes / PAGE).unwrap_or(u32::MAX),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => {
                tracing::warn!(object = %key, %error, "an object's file cannot be looked at; it does not count for storage.max_bytes");
                0
            }
        }
    }
}
