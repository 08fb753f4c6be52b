//! The state of one object's pages beyond its file: the overlay of committed pages that the file does not have yet. It
//! outlives the object's connection and is shared with the checkpointer.
//!
//! Invariants kept here: a page leaves the overlay only when exactly that version is durable in the file; a delta is
//! only encoded against an image whose full version is after the log's full-image horizon.

use crate::bookmark::{self, Bookmark};
use crate::catalog;
use crate::delta::Entry;
use crate::disk::DiskFile;
use crate::ident::{CommitNo, Life, Lsn, ObjectKey, Page, Position, ZERO_PAGE};
use crate::log::record::Header;
use crate::log::tenures::{Owned, Tenure};
use crate::sync::atomic::AtomicU64;
use crate::sync::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One object in one tenure of its shard, shared between its connection and the checkpointer.
pub(crate) struct Object {
    pub(crate) key: ObjectKey,
    /// What it begins with in this tenure.
    pub(crate) owned: Owned,
    pub(crate) path: PathBuf,
    pub(crate) file_use: FileUse,
    pages: Mutex<Pages>,
}

#[allow(clippy::struct_excessive_bools, reason = "they are separate facts")]
pub(crate) struct Pages {
    pub(crate) overlay: FxHashMap<u32, OverlayPage>,
    /// Pages of the database as of the newest commit; 0 if there is no object.
    pub(crate) size: u32,
    pub(crate) commit: CommitNo,
    /// The position after the newest commit.
    pub(crate) newest: Lsn,
    pub(crate) file: FileState,
    /// A file was found, or was written and synced: from then on a missing file is an error.
    pub(crate) has_file: bool,
    /// Consecutive checkpoints that could not write the file.
    pub(crate) failed_writes: u32,
    /// The newest commit has ended the object. Its file, which may still be there, does not count; the next checkpoint
    /// removes it.
    pub(crate) ended: bool,
    /// The newest commit that continues a replacement, while that is in a file beside the object's.
    pub(crate) replaced: Option<Replaced>,
    /// What the log's tail has of the object; `None` once it is known that the file goes with it.
    pub(crate) tail: Option<Tail>,
    /// Why the object is unavailable. Its pages no longer change.
    pub(crate) quarantined: Option<String>,
    /// A connection is open.
    pub(crate) open: bool,
    /// Counts how often pages have left the overlay: a transaction encoded before that may have lost its base.
    pub(crate) departures: u64,
    /// The object has left the table of live objects: look it up again.
    pub(crate) retired: bool,
}

/// A commit that continues a replacement.
#[derive(Clone, Copy)]
pub(crate) struct Replaced {
    pub(crate) commit: CommitNo,
    /// The position after it.
    pub(crate) end: Lsn,
}

/// The commits of an object in the log's tail.
#[derive(Clone, Copy)]
pub(crate) struct Tail {
    /// The number of the first of them.
    pub(crate) first: CommitNo,
    /// The object began in the tail: nothing of its file is needed.
    pub(crate) is_whole: bool,
}

pub(crate) struct OverlayPage {
    pub(crate) image: Arc<Page>,
    /// The position after the commit that wrote this version.
    pub(crate) lsn: Lsn,
    /// The position of the record that holds the newest full image; `None` if it is in another log.
    pub(crate) full_at: Option<Lsn>,
}

/// When an object's file was used, for [`crate::open_files`].
#[derive(Default)]
pub(crate) struct FileUse {
    pub(crate) last: AtomicU64,
    /// The key under which the table lists the file; 0 if it does not. Changed under the shard's lock.
    pub(crate) listed: AtomicU64,
}

/// The state of the object's file.
#[derive(Clone, Default)]
pub(crate) enum FileState {
    /// It has not been opened yet, or was closed to save descriptors.
    #[default]
    Unknown,
    Missing,
    Open(Arc<dyn DiskFile>),
}

impl Object {
    pub(crate) fn new(key: ObjectKey, owned: Owned, path: PathBuf) -> Self {
        Self {
            key,
            owned,
            path,
            file_use: FileUse::default(),
            pages: Mutex::new(Pages {
                overlay: FxHashMap::default(),
                size: 0,
                commit: CommitNo(0),
                newest: Lsn::ZERO,
                file: FileState::Unknown,
                has_file: false,
                failed_writes: 0,
                ended: false,
                replaced: None,
                tail: None,
                quarantined: None,
                open: false,
                departures: 0,
                retired: false,
            }),
        }
    }

    /// The tenure in which the object's commits are made.
    pub(crate) fn tenure(&self) -> Tenure {
        Tenure {
            shard: self.key.shard(),
            generation: self.owned.generation,
        }
    }

    /// A position of the log in the object's life.
    pub(crate) fn position(&self, lsn: Lsn) -> Position {
        Position::at(self.owned.generation, lsn)
    }

    /// A position of the log above all that earlier owners' logs had.
    pub(crate) fn raised(&self, position: Position) -> Position {
        let lsn = Lsn(position.lsn.0.saturating_add(self.owned.floor));
        Position::at(position.generation, lsn)
    }

    /// The bookmark of the newest commit.
    pub(crate) fn bookmark(&self, pages: &Pages) -> Bookmark {
        Bookmark {
            position: self.position(pages.newest),
            // One that has ended is as one that never was.
            commit: if pages.size == 0 {
                CommitNo(0)
            } else {
                pages.commit
            },
            object: bookmark::mark(self.key),
        }
    }

    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock()
    }

    /// Where the object's file is. A replacement of it gets its name with the next checkpoint.
    pub(crate) fn file_path(&self, pages: &Pages) -> Cow<'_, Path> {
        match pages.replaced {
            Some(of) => Cow::Owned(catalog::replacement_path(&self.path, of.commit)),
            None => Cow::Borrowed(&self.path),
        }
    }

    /// The pages, unless another thread has them locked.
    pub(crate) fn try_pages(&self) -> Option<MutexGuard<'_, Pages>> {
        self.pages.try_lock()
    }
}

impl Pages {
    /// Returns whether the log's tail has only changes of the object, and its file was not looked at.
    pub(crate) fn continues_file(&self) -> bool {
        self.tail.is_some_and(|tail| !tail.is_whole)
    }

    /// Returns whether a commit that is replayed may be the next one of the object. Called for its first record.
    pub(crate) fn may_be_next(&self, record: &Header) -> bool {
        let is_first = self.size == 0 && !self.ended && self.tail.is_none();
        match record.life {
            _ if is_first => true,
            Life::Begins => self.ended,
            Life::Continues | Life::Ends => !self.ended && record.commit == self.commit.next(),
        }
    }

    /// Applies one replayed record of a transaction that ends at `end`. The error says why the object can no longer be
    /// trusted.
    pub(crate) fn apply(
        &mut self,
        record: &Header,
        end: Lsn,
        mut payload: &[u8],
    ) -> Result<(), String> {
        let replaced = self.replaced.map(|replaced| replaced.commit);
        let is_replacing = record.replaces || replaced == Some(record.commit);
        if record.replaces {
            self.overlay.clear();
            self.replaced = Some(Replaced {
                commit: record.commit,
                end,
            });
            self.tail = None;
        } else if record.life != Life::Continues && !is_replacing {
            self.replaced = None;
        }
        let begins = record.life == Life::Begins && !is_replacing;
        let is_whole = begins || self.tail.is_some_and(|tail| tail.is_whole);
        let first = self.tail.map_or(record.commit, |tail| tail.first);
        self.tail = Some(Tail { first, is_whole });
        for _ in 0..record.entries {
            let (entry, rest) = Entry::decode(payload).ok_or("a page entry cannot be read")?;
            payload = rest;
            if entry.full {
                let mut image = Arc::new(ZERO_PAGE);
                entry.apply(Arc::make_mut(&mut image));
                let page = OverlayPage {
                    image,
                    lsn: end,
                    full_at: Some(record.lsn),
                };
                self.overlay.insert(entry.page_no, page);
                continue;
            }
            let page = self.overlay.get_mut(&entry.page_no);
            let page = page.ok_or_else(|| {
                format!("page {} has a change but no image before it", entry.page_no)
            })?;
            entry.apply(Arc::make_mut(&mut page.image));
            page.lsn = end;
        }
        self.commit = record.commit;
        self.newest = end;
        self.ended = record.life == Life::Ends;
        self.resize(record.database_pages);
        Ok(())
    }

    /// Gives pages that were read from other logs one position in this log, which has a full image of none of them.
    pub(crate) fn move_to(&mut self, lsn: Lsn) {
        #[allow(clippy::iter_over_hash_type, reason = "each is changed alike")]
        for page in self.overlay.values_mut() {
            page.lsn = lsn;
            page.full_at = None;
        }
        self.newest = lsn;
    }

    /// Sets the database's new size; pages after it are dropped.
    pub(crate) fn resize(&mut self, size: u32) -> usize {
        let before = self.overlay.len();
        if size < self.size {
            self.overlay.retain(|&page_no, _| page_no <= size);
        }
        self.size = size;
        before - self.overlay.len()
    }
}

/// The fields of SQLite's database header that the engine reads and sets
/// (<https://www.sqlite.org/fileformat2.html#the_database_header>).
pub(crate) mod header {
    use super::{CommitNo, Page};
    use crate::limits::PAGE_BYTES;
    use bytes::{Buf, BufMut};

    /// Its length.
    pub(crate) const BYTES: usize = 100;

    /// "The size of the database file in pages", offset 28.
    pub(crate) fn size(page: &[u8]) -> u32 {
        (&page[28..]).get_u32()
    }

    /// The file change counter, offset 24, which holds the object's commit number in object files.
    pub(crate) fn commit(page: &[u8]) -> CommitNo {
        CommitNo((&page[24..]).get_u32())
    }

    /// Returns whether it begins like a SQLite database.
    pub(crate) fn is_database(page: &[u8]) -> bool {
        page.starts_with(b"SQLite format 3\0")
    }

    /// Why a file with this header is not one of an object; `None` if it may be.
    pub(crate) fn fault(page: &[u8]) -> Option<&'static str> {
        let number = |at: usize| (&page[at..]).get_u32();
        let page_bytes = (&page[16..]).get_u16();
        Some(match () {
            () if !is_database(page) => "it is not a SQLite database",
            () if usize::from(page_bytes) != PAGE_BYTES => "its page size is not 4096",
            () if page[18..20] != [1, 1] => "it is in WAL mode",
            () if page[20] != 0 => "its pages have reserved bytes",
            () if number(52) != 0 => "it has auto_vacuum",
            () if number(56) != 1 => "its text encoding is not UTF-8",
            // Otherwise SQLite ignores the size.
            () if number(24) != number(92) => "its size in the header is not valid",
            () => return None,
        })
    }

    /// Sets the change counter and the "version-valid-for" number, offset 92, so that every other reader of the file
    /// notices the change and accepts the size in the header. (In exclusive locking mode SQLite does not set them.)
    pub(crate) fn set_commit(page: &mut Page, commit: CommitNo, size: u32) {
        (&mut page[24..]).put_u32(commit.0);
        (&mut page[28..]).put_u32(size);
        (&mut page[92..]).put_u32(commit.0);
    }
}
