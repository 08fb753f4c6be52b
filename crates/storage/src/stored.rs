//! How much the objects store, and the limits on it.
//!
//! The length of each object's database counts, as of its newest commit and including free pages: the size of its file
//! after the next checkpoint. The log, the archive and temporary files have their own limits.
//!
//! There are two limits: one for each object, enforced on every statement ([`crate::database`]), and one for all
//! objects together. Each has a reserve for writes that finish or delete something: updates and deletes, alarms,
//! remembered calls, and an object's own work ([`crate::ObjectDb::use_reserve`]). The total of all objects is
//! maintained only if it has a limit: files are counted when the store is opened, and commits update the total.

use crate::error::{Error, Result};
use crate::limits::{
    MAX_OBJECT_BYTES, MAX_OBJECT_RESERVE_BYTES, MAX_TRANSACTION_BYTES, MIN_RESERVE_BYTES,
    PAGE_BYTES, RESERVE_SHARE, STORE_RESERVE_BYTES,
};
use crate::sync::atomic::{AtomicU64, Ordering};

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

pub(crate) struct Stored {
    /// Pages of all objects, if they have a limit.
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

    /// Records that an object changed from `before` to `after` pages.
    pub(crate) fn changed(&self, before: u32, after: u32) {
        if self.all_bytes.is_some() && before != after {
            let change = u64::from(after).wrapping_sub(u64::from(before));
            self.pages.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Returns whether the size of all objects counts.
    pub(crate) fn counts(&self) -> bool {
        self.all_bytes.is_some()
    }

    /// Records that an object of this many pages was deleted. It may not have been counted, if its file could not be examined.
    pub(crate) fn gone(&self, pages: u32) {
        if self.all_bytes.is_some() {
            let less = |counted: u64| Some(counted.saturating_sub(u64::from(pages)));
            let _ = self
                .pages
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
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
