//! What a store has been asked, which its owner pays for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of requests. A listing counts once for each thousand of its entries.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    puts: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

/// Requests by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Those that create an object.
    pub puts: u64,
    /// Those that read one.
    pub gets: u64,
    /// Those that list keys.
    pub lists: u64,
    /// Those that delete an object.
    pub deletes: u64,
}

/// What a store has been asked since the process began, failures included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// The requests.
    pub requests: Requests,
    /// Bytes of objects that were sent.
    pub sent: u64,
    /// Bytes of objects that were received.
    pub received: u64,
}

impl Requests {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.puts + self.gets + self.lists + self.deletes
    }
}

impl Counters {
    pub(crate) fn put(&self, bytes: u64) {
        self.puts.fetch_add(1, Relaxed);
        self.sent.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn get(&self) {
        self.gets.fetch_add(1, Relaxed);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn list(&self, pages: u64) {
        self.lists.fetch_add(pages, Relaxed);
    }

    pub(crate) fn delete(&self, count: u64) {
        self.deletes.fetch_add(count, Relaxed);
    }

    pub(crate) fn read(&self) -> Traffic {
        Traffic {
            requests: Requests {
                puts: self.puts.load(Relaxed),
                gets: self.gets.load(Relaxed),
                lists: self.lists.load(Relaxed),
                deletes: self.deletes.load(Relaxed),
            },
            sent: self.sent.load(Relaxed),
            received: self.received.load(Relaxed),
        }
    }
}
