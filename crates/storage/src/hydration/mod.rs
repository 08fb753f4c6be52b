//! Hydration: writing the files of objects from the archive, after their directory was restored lazily.
//!
//! A lazy restore writes no object files. The manifest says instead that the objects have their states in the archive
//! ([`HydrationState`](crate::manifest::HydrationState)). An object without a file is **cold** if the archive has it, and its newest commit there is one of
//! before the restore ([`crate::hydrating`]). Its file is written before it is opened, or in the background ([`Pass`]), in the order of the
//! first bytes of the ids.
//!
//! - A file is written under another name, synced, and renamed, and its directory is synced: an object that has a file has a
//!   whole one. Only then may the object be opened, because its next commit builds on the file.
//! - When an object ends, a checkpoint removes its file. It first leaves an empty file next to it, because the archive may not
//!   know of the end yet.
//! - The thread that writes a file has claimed the object, and others that need it wait ([`claim`]).
//! - A large object may be opened before it has its file: then its pages are read from the archive as they are needed
//!   ([`PagedFile`]). A checkpoint writes its whole file before it brings it up to date.
//! - Until all objects have their files, the archive is the only copy of the others. No runs are merged or removed meanwhile.
//!
//! Where stores share runs ([`crate::shards`]), every object of a shard that is claimed may be cold, and gets its file when it is opened. A
//! thread claims the object before it asks who owns the shard, and a shard is forgotten once no object of it is claimed: no file
//! outlives the tenure.

mod claim;
mod paged_file;
mod paged_files;
mod pass;

use crate::ident::{NamespaceNo, ObjectKey};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
pub(crate) use claim::{Claim, Claims};
pub(crate) use paged_file::PagedFile;
use paged_files::PagedFiles;
pub(crate) use pass::Pass;

/// How far the hydration of an open store is.
pub(crate) struct Hydration {
    /// Objects get their files only when they are opened.
    is_on_demand: bool,
    /// Objects whose ids begin with a lower byte have their files.
    next: AtomicU32,
    pub(crate) claims: Claims,
    pub(crate) paged: PagedFiles,
    /// Locked during a step in the background.
    pub(crate) pass: Mutex<Pass>,
    /// Files written since the store was opened.
    written: AtomicU64,
}

/// The number of first bytes of ids.
pub(crate) const BYTES: u32 = 256;

impl Hydration {
    /// `next` is the manifest's; `None` if all objects have their files.
    pub(crate) fn new(next: Option<u8>, is_on_demand: bool) -> Self {
        Self {
            is_on_demand,
            next: AtomicU32::new(next.map_or(BYTES, u32::from)),
            claims: Claims::default(),
            paged: PagedFiles::default(),
            pass: Mutex::default(),
            written: AtomicU64::new(0),
        }
    }

    /// Returns whether an object may lack its file. Does not ask the disk.
    pub(crate) fn may_lack(&self, key: ObjectKey) -> bool {
        u32::from(key.id[0]) >= self.next.load(Ordering::Acquire)
    }

    /// The first bytes of the ids of objects that may lack their files.
    pub(crate) fn parts(&self) -> impl Iterator<Item = u8> + use<> {
        let next = self.next.load(Ordering::Acquire);
        (next..BYTES).map(|byte| byte as u8)
    }

    /// Returns once no file of a namespace is being written.
    pub(crate) fn wait_for(&self, namespace: NamespaceNo) {
        self.claims.wait_for(|key| key.namespace == namespace);
    }

    /// The first byte of the ids of the objects that are written next in the background; [`BYTES`] at the end.
    pub(crate) fn next(&self) -> u32 {
        if self.is_on_demand {
            return BYTES;
        }
        self.next.load(Ordering::Acquire)
    }

    /// All objects whose ids begin with a byte have their files.
    pub(crate) fn has_ended(&self, byte: u8) {
        self.next.store(u32::from(byte) + 1, Ordering::Release);
    }

    /// Counts files.
    pub(crate) fn note_written(&self, files: u64) {
        self.written.fetch_add(files, Ordering::Relaxed);
    }

    /// How many of 256 equal parts of all objects are yet to be looked at; 0 if all objects have their files.
    pub(crate) fn parts_left(&self) -> u32 {
        BYTES - self.next()
    }

    /// Files written since the store was opened.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}
