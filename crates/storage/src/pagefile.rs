//! One object's database file, as SQLite sees it through the VFS. Reads come from the staged pages, the overlay, the
//! file or the template, in this order. Writes are staged. The commit point turns the staged pages into one transaction
//! of the log.
//!
//! Nothing reaches the log, the overlay or the file before the commit point. Cache spills, savepoints and rollbacks all
//! end in the staging area; a page that was staged and then restored compares equal at the commit and is omitted.
//!
//! A restore or a fork that is too large for one transaction puts the whole new state into a separate file, a
//! [`Replacement`]. Reads then come from there instead of the overlay and the file. The next commit refers to it, and makes
//! it the object's file.
//!
//! Every page of the database has been in a commit since it was last added: the log alone determines its content.
//! SQLite does not write a page that one transaction adds and frees, so the commit that adds it stages zeros. Otherwise
//! such a page would read as whatever the file still holds after an earlier end, which neither replay nor the archive
//! knows.

mod commit;
mod spare;

use crate::alarm_entry::AlarmChange;
use crate::bookmark::Bookmark;
use crate::disk::DiskFile;
use crate::encoding::Encoding;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Generation, Lsn, ObjectKey, Page, Position, ZERO_PAGE};
use crate::limits::{MAX_TRANSACTION_BYTES, PAGE_BYTES};
use crate::objects::reading;
use crate::overlay::{Object, Pages};
use crate::quarantine;
use crate::sql_limits::SqlLimits;
use crate::stored::{Bound, BoundOf};
use crate::timeline::{Mark, Raise, TimelineId};
use crate::vfs::{PageIo, Vfs};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// See the module.
pub(crate) struct PageFile {
    engine: Arc<Engine>,
    object: Arc<Object>,
    staged: RefCell<FxHashMap<u32, Arc<Page>>>,
    /// The state that the next commit continues, instead of the newest one.
    replacement: RefCell<Option<Replacement>>,
    /// The size after an uncommitted truncation or growth.
    staged_size: Cell<Option<u32>>,
    /// The change that the next commit makes to the object's alarm.
    alarm: Cell<Option<AlarmChange>>,
    /// The position of the newest commit through this connection.
    committed: Cell<Option<Lsn>>,
    /// A bookmark of the next commit was issued, so that commit must happen.
    needs_commit: Cell<bool>,
    /// The end of the log when the file was opened: a new object begins after it.
    opened_at: Lsn,
    /// The newest commit has deleted everything, so the object ends with this connection.
    ends: Cell<bool>,
    /// A commit was rejected. SQLite then restores pages, in what looks like one more commit.
    refused: Cell<bool>,
    /// Why the last commit or write was rejected: SQLite itself reports only a number.
    error: RefCell<Option<Error>>,
    /// Pages read so far.
    reads: Cell<u64>,
}

/// A new state of the whole object in a file that is durable, as is its name: see [`crate::catalog::replacement_path`].
#[derive(Clone)]
pub(crate) struct Replacement {
    pub(crate) file: Arc<dyn DiskFile>,
    /// Its size in pages.
    pub(crate) size: u32,
}

impl PageFile {
    pub(crate) fn new(engine: Arc<Engine>, object: Arc<Object>) -> Self {
        Self {
            opened_at: engine.shared.log.appended(),
            engine,
            object,
            staged: RefCell::default(),
            replacement: RefCell::default(),
            staged_size: Cell::new(None),
            alarm: Cell::new(None),
            committed: Cell::new(None),
            needs_commit: Cell::new(false),
            ends: Cell::new(false),
            refused: Cell::new(false),
            error: RefCell::default(),
            reads: Cell::new(0),
        }
    }

    /// The VFS of the store.
    pub(crate) fn vfs(&self) -> &Vfs {
        &self.engine.shared.vfs
    }

    /// True if there is no object yet, or no more: nothing is committed.
    pub(crate) fn is_new(&self) -> bool {
        self.object.pages().size == 0
    }

    /// SQLite's `max_page_count`.
    pub(crate) fn max_page_count(&self) -> u64 {
        self.engine.stored.max_page_count(self.size())
    }

    /// The size to which a new transaction may grow the database, unless it cannot exceed the limit.
    pub(crate) fn bound(&self) -> Option<Bound> {
        self.engine.stored.bound(self.object.pages().size)
    }

    /// The error for a write that would exceed a limit.
    pub(crate) fn refusal(&self, of: BoundOf) -> Error {
        self.engine.stored.refusal(of)
    }

    /// Returns whether all objects together have reached their limit.
    pub(crate) fn store_is_full(&self) -> bool {
        self.engine.stored.is_full()
    }

    /// The position of the object's newest commit.
    pub(crate) fn newest(&self) -> Lsn {
        self.object.pages().newest
    }

    /// Sets the change that the next commit makes to the object's alarm: its record carries the change to the index.
    pub(crate) fn set_alarm(&self, change: Option<AlarmChange>) {
        self.alarm.set(change);
    }

    /// The sum of the wall clock's steps back.
    pub(crate) fn set_back(&self) -> i64 {
        self.engine.alarms.set_back()
    }

    pub(crate) fn sql_limits(&self) -> SqlLimits {
        self.engine.shared.options.sql.allowed()
    }

    /// The key of the object.
    pub(crate) fn key(&self) -> ObjectKey {
        self.object.key
    }

    /// The time of a commit made now, in milliseconds since 1970.
    pub(crate) fn unix_millis(&self) -> u64 {
        self.engine.shared.unix_millis()
    }

    /// The generation of the object's shard.
    pub(crate) fn generation(&self) -> Generation {
        self.object.owned.generation
    }

    /// The timeline that begins with the object's creation, if this connection creates it.
    pub(crate) fn first_timeline(&self) -> TimelineId {
        let at = self.raised(self.object.position(self.opened_at));
        TimelineId::first(self.object.key, at)
    }

    /// The timeline that begins with a restore, which leaves a state.
    pub(crate) fn timeline_after(&self, left: Bookmark) -> TimelineId {
        let position = self.raised(left.position);
        TimelineId::leaving(Bookmark { position, ..left })
    }

    /// Raises timelines that begin from now on above a position of another log. Durable when it returns.
    pub(crate) fn raise_timelines(&self, above: Position) -> Result<()> {
        let at = self.object.raised(self.object.position(self.opened_at));
        let present = self.raise();
        if present.above(above, at)? == present {
            return Ok(());
        }
        let mut raised = Ok(());
        self.engine
            .shared
            .publish(|manifest| match manifest.raise.above(above, at) {
                Ok(raise) => manifest.raise = raise,
                Err(error) => raised = Err(error),
            })?;
        raised
    }

    /// A position as timelines have it, above those of all other logs in which the object was.
    fn raised(&self, position: Position) -> Position {
        self.raise().of(self.object.raised(position))
    }

    fn raise(&self) -> Raise {
        self.engine.shared.catalog.current().raise
    }

    /// The newest restore of the whole directory.
    pub(crate) fn restored(&self) -> Option<Mark> {
        self.engine.shared.restored
    }

    /// Sets whether the newest commit has deleted everything.
    pub(crate) fn set_ends(&self, ends: bool) {
        self.ends.set(ends);
    }

    /// The number of the next commit.
    fn next_commit(&self, pages: &Pages) -> CommitNo {
        match pages.size {
            0 => {
                let begins = self.object.raised(self.object.position(self.opened_at));
                CommitNo::first(begins.lsn)
            }
            _ => pages.commit.next(),
        }
    }

    /// The bookmark of the newest commit.
    pub(crate) fn bookmark(&self) -> Bookmark {
        self.object.bookmark(&self.object.pages())
    }

    /// The bookmark of the next commit. That commit will happen even if nothing has changed.
    pub(crate) fn next_bookmark(&self) -> Bookmark {
        self.needs_commit.set(true);
        let pages = self.object.pages();
        Bookmark {
            commit: self.next_commit(&pages),
            ..self.object.bookmark(&pages)
        }
    }

    /// Rejects a bookmark of another object.
    pub(crate) fn must_be_own(&self, bookmark: &Bookmark) -> Result<()> {
        bookmark.must_be_of(self.object.key)
    }

    /// Returns whether a bookmark of the next commit was issued.
    pub(crate) fn needs_commit(&self) -> bool {
        self.needs_commit.get()
    }

    /// The position of the newest commit since the last call.
    pub(crate) fn take_committed(&self) -> Option<Lsn> {
        self.committed.take()
    }

    /// Why the last call of SQLite failed.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.error.take()
    }

    fn fail(&self, error: Error) {
        *self.error.borrow_mut() = Some(error);
    }

    fn base_size(&self, pages: &Pages) -> u32 {
        if let Some(replacement) = &*self.replacement.borrow() {
            return replacement.size;
        }
        match pages.size {
            0 => self.engine.template.len() as u32,
            size => size,
        }
    }

    /// A number that changes when SQLite's page cache may have grown: it has read a page, or the database has grown.
    pub(crate) fn growth(&self) -> u64 {
        self.reads.get() + u64::from(self.size())
    }

    fn read_page(&self, page_no: u32, within: usize, out: &mut [u8]) -> Result<()> {
        self.reads.set(self.reads.get() + 1);
        let range = within..within + out.len();
        if let Some(page) = self.staged.borrow().get(&page_no) {
            out.copy_from_slice(&page[range]);
            return Ok(());
        }
        let mut pages = self.object.pages();
        self.must_be_sound(&pages)?;
        let offset = (u64::from(page_no) - 1) * PAGE_BYTES as u64 + within as u64;
        if let Some(replacement) = &*self.replacement.borrow() {
            let read = replacement.file.read_at(out, offset);
            let read = read.map_err(|error| reading(&self.object, &error))?;
            out[read..].fill(0);
            return Ok(());
        }
        if let Some(page) = pages.overlay.get(&page_no) {
            out.copy_from_slice(&page.image[range]);
            return Ok(());
        }
        if pages.size == 0 {
            let page = self.engine.template.get(page_no as usize - 1);
            out.copy_from_slice(&page.map_or(&ZERO_PAGE, |page| &**page)[range]);
            return Ok(());
        }
        let read = match self.engine.objects.file(&self.object, &mut pages)? {
            Some(file) => file
                .read_at(out, offset)
                .map_err(|error| reading(&self.object, &error))?,
            None => 0,
        };
        out[read..].fill(0);
        Ok(())
    }

    /// Fails if a checkpoint has quarantined the object while it was open.
    fn must_be_sound(&self, pages: &Pages) -> Result<()> {
        match &pages.quarantined {
            Some(why) => Err(quarantine::refusal(self.object.key, why)),
            None => Ok(()),
        }
    }

    /// Puts a new state of the whole object in place of the newest one, for the next commit.
    pub(crate) fn replace(&self, replacement: Replacement) {
        *self.replacement.borrow_mut() = Some(replacement);
    }

    /// Takes the new state back, unless the commit was made. Returns whether it did.
    pub(crate) fn take_replacement(&self) -> bool {
        self.replacement.take().is_some()
    }

    /// The object.
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The number that the next commit has.
    pub(crate) fn next_number(&self) -> CommitNo {
        self.next_commit(&self.object.pages())
    }

    /// Rejects a commit after which the object would have this many pages, if all objects together would exceed their limit.
    pub(crate) fn must_admit(&self, size: u32) -> Result<()> {
        let present = self.object.pages().size;
        self.engine.stored.admit(present, size)
    }

    /// Discards the staged pages.
    pub(crate) fn discard(&self) {
        self.staged.borrow_mut().clear();
        self.staged_size.set(None);
        self.alarm.set(None);
        self.needs_commit.set(false);
        self.refused.set(false);
    }
}

impl PageIo for PageFile {
    fn read(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let end = u64::from(self.size()) * PAGE_BYTES as u64;
        let available = (end.saturating_sub(offset) as usize).min(buf.len());
        buf[available..].fill(0);
        let mut done = 0;
        while done < available {
            let at = offset + done as u64;
            let page_no = (at / PAGE_BYTES as u64) as u32 + 1;
            let within = (at % PAGE_BYTES as u64) as usize;
            let n = (PAGE_BYTES - within).min(available - done);
            self.read_page(page_no, within, &mut buf[done..done + n])
                .inspect_err(|error| self.fail(error.clone()))?;
            done += n;
        }
        Ok(available)
    }

    /// Stages whole pages.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let (chunks, rest) = bytes.as_chunks::<PAGE_BYTES>();
        if !rest.is_empty() || !offset.is_multiple_of(PAGE_BYTES as u64) {
            let error = Error::new(
                ErrorKind::Io,
                "SQLite wrote something other than whole pages",
            );
            self.fail(error.clone());
            return Err(error);
        }
        let mut staged = self.staged.borrow_mut();
        let first = (offset / PAGE_BYTES as u64) as u32 + 1;
        for (page_no, chunk) in (first..).zip(chunks) {
            // Pages that are already staged may be restored: SQLite does that when it rolls back.
            let more = !staged.contains_key(&page_no);
            if more && (staged.len() + 1) * PAGE_BYTES > MAX_TRANSACTION_BYTES {
                let error = Error::limit(format!(
                    "a transaction may change at most {} MiB of pages: write less between two awaits",
                    MAX_TRANSACTION_BYTES >> 20
                ));
                self.fail(error.clone());
                return Err(error);
            }
            match staged.get_mut(&page_no).and_then(Arc::get_mut) {
                Some(page) => *page = *chunk,
                None => drop(staged.insert(page_no, spare::page(chunk))),
            }
        }
        let end = first + chunks.len() as u32 - 1;
        if end > self.size() {
            self.staged_size.set(Some(end));
        }
        Ok(())
    }

    /// Stages a new size.
    fn truncate(&self, bytes: u64) {
        let size = (bytes / PAGE_BYTES as u64) as u32;
        self.staged
            .borrow_mut()
            .retain(|&page_no, _| page_no <= size);
        self.staged_size.set(Some(size));
    }

    fn size(&self) -> u32 {
        self.staged_size
            .get()
            .unwrap_or_else(|| self.base_size(&self.object.pages()))
    }

    /// The commit point: appends the staged pages to the log and moves them to the overlay.
    fn commit(&self) -> Result<()> {
        if self.refused.get() {
            // SQLite discards the staged pages when it is done.
            return Ok(());
        }
        let mut encoding = Encoding::take(&self.engine.shared.log);
        self.append(&mut encoding).inspect_err(|error| {
            self.refused.set(true);
            self.fail(error.clone());
        })
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        if self.ends.get() {
            self.engine.end_object(&self.object);
        }
        self.engine.objects.close(&self.object);
    }
}
