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

use crate::alarm_entry::AlarmChange;
use crate::bookmark::Bookmark;
use crate::delta::{self, Encoded};
use crate::disk::DiskFile;
use crate::encoding::{Basis, Encoding};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Epoch, Life, Lsn, ObjectKey, Page, ZERO_PAGE};
use crate::limits::{MAX_KEPT_PAGES, MAX_RECORD_PAYLOAD, MAX_TRANSACTION_BYTES, PAGE_BYTES};
use crate::log::record::{ALIGN, HEADER_BYTES, Header};
use crate::log::{Appended, Refused, Shortage, Transaction};
use crate::objects::reading;
use crate::overlay::{Object, OverlayPage, Pages, Replaced, header};
use crate::quarantine;
use crate::sql_limits::SqlLimits;
use crate::stored::{Bound, BoundOf};
use crate::timeline::{Mark, TimelineId};
use crate::vfs::{PageIo, Vfs};
use rustc_hash::FxHashMap;
use std::cell::{Cell, LazyCell, RefCell};
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

    /// The epoch of the store.
    pub(crate) fn epoch(&self) -> Epoch {
        self.engine.shared.log.epoch
    }

    /// The timeline that begins with the object's creation, if this connection creates it.
    pub(crate) fn first_timeline(&self) -> TimelineId {
        let at = self.engine.shared.log.position(self.opened_at);
        TimelineId::first(self.object.key, at)
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
            0 => CommitNo::first(self.opened_at),
            _ => pages.commit.next(),
        }
    }

    /// The bookmark of the newest commit.
    pub(crate) fn bookmark(&self) -> Bookmark {
        self.engine
            .bookmark_of(self.object.key, &self.object.pages())
    }

    /// The bookmark of the next commit. That commit will happen even if nothing has changed.
    pub(crate) fn next_bookmark(&self) -> Bookmark {
        self.needs_commit.set(true);
        let pages = self.object.pages();
        Bookmark {
            commit: self.next_commit(&pages),
            ..self.engine.bookmark_of(self.object.key, &pages)
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

    fn append(&self, encoding: &mut Encoding) -> Result<()> {
        if self.needs_commit.get() {
            self.stage_first_page()?;
        }
        let mut waiting = None;
        loop {
            match self.try_commit(encoding) {
                Ok(()) => return Ok(()),
                Err(Refused::Stale) => {}
                Err(Refused::NoRoom(shortage)) => {
                    let reason = self.engine.wait_reason(shortage);
                    waiting
                        .get_or_insert_with(|| self.engine.waits.begin(reason))
                        .continues(reason);
                    self.engine.make_room(shortage, &encoding.transaction)?;
                }
                Err(Refused::Failed(error)) => return Err(error),
            }
        }
    }

    /// A commit that changes nothing contains page 1: without a page it would not reach the object's file.
    fn stage_first_page(&self) -> Result<()> {
        let mut page = ZERO_PAGE;
        self.read_page(1, 0, &mut page)?;
        let mut staged = self.staged.borrow_mut();
        staged.entry(1).or_insert_with(|| Arc::new(page));
        Ok(())
    }

    fn try_commit(&self, encoding: &mut Encoding) -> Result<(), Refused> {
        if self.engine.objects.overlay_is_full() {
            return Err(Refused::NoRoom(Shortage::Overlay));
        }
        // Before anything is locked: if the clock was set back, that is saved first.
        let now = self.engine.commit_time().map_err(Refused::Failed)?;
        encoding.transaction.time = now;
        let mut staged = self.staged.borrow_mut();
        // The object stays locked from here until its overlay has the commit: a checkpoint that begins after the append
        // must find it there.
        let mut pages = self.object.pages();
        self.must_be_sound(&pages).map_err(Refused::Failed)?;
        let replacement = self.replacement.borrow().clone();
        let base_size = replacement.as_ref().map_or(pages.size, |of| of.size);
        if base_size == 0 {
            for (page_no, page) in (1..).zip(&self.engine.template) {
                staged.entry(page_no).or_insert_with(|| page.clone());
            }
        }
        let size = match staged.get(&1) {
            Some(first) => header::size(&first[..]),
            None => base_size,
        };
        let admitted = self.engine.stored.admit(pages.size, size);
        admitted.map_err(Refused::Failed)?;
        stage_added(&mut staged, base_size, size);
        let basis = Basis {
            full_image_horizon: self.engine.shared.log.full_image_horizon(),
            departures: pages.departures,
        };
        // Otherwise it was rejected only for lack of space.
        if encoding.basis != Some(basis) {
            self.encode(encoding, &staged, &pages, size, basis.full_image_horizon);
            encoding.basis = Some(basis);
        }
        if encoding.transaction.bytes.is_empty() {
            drop(pages);
            self.engine.shared.log.give_up(&mut encoding.transaction);
            staged.clear();
            self.staged_size.set(None);
            return Ok(());
        }
        let appended = self.engine.shared.log.append(&mut encoding.transaction)?;
        let Appended { start, end } = appended;
        let bytes = end.0 - start.0;
        self.engine.shared.count_append(bytes);
        let before = pages.overlay.len();
        if let Some(Replacement { file, .. }) = replacement {
            // From here on, the object's file is that of the replacement.
            let objects = &self.engine.objects;
            objects.close_file(&self.object, &mut pages);
            pages.overlay.clear();
            pages.departures += 1;
            pages.has_file = true;
            pages.replaced = Some(Replaced {
                commit: self.next_commit(&pages),
                end,
            });
            objects.file_was_made(&self.object, &mut pages, file);
            self.replacement.take();
        }
        for &(page_no, full) in &encoding.written {
            let Some(image) = staged.remove(&page_no) else {
                continue;
            };
            let full_at = match pages.overlay.get(&page_no) {
                Some(old) if !full => old.full_at,
                _ => start,
            };
            let page = OverlayPage {
                image,
                lsn: end,
                full_at,
            };
            if let Some(old) = pages.overlay.insert(page_no, page) {
                spare::keep(old.image);
            }
        }
        self.engine
            .stored
            .changed(self.object.key, pages.size, size);
        pages.commit = self.next_commit(&pages);
        pages.resize(size);
        pages.newest = end;
        pages.ended = false;
        self.ends.set(false);
        // Before the next commit of this object, and before a checkpoint that begins now examines the object.
        if let Some(change) = self.alarm.take() {
            self.engine.alarms.apply(self.object.key, change, end);
        }
        self.engine.count_overlay(before, pages.overlay.len());
        drop(pages);
        staged.clear();
        // Free the memory that a large transaction needed.
        staged.shrink_to(MAX_KEPT_PAGES);
        self.staged_size.set(None);
        self.needs_commit.set(false);
        self.committed.set(Some(end));
        Ok(())
    }

    /// Encodes the staged pages that differ from the committed ones, as one record or a chain.
    fn encode(
        &self,
        encoding: &mut Encoding,
        staged: &FxHashMap<u32, Arc<Page>>,
        pages: &Pages,
        size: u32,
        full_image_horizon: Lsn,
    ) {
        let encodings = &self.engine.shared.log.stats.encodings;
        encodings.add(1);
        let Encoding {
            transaction,
            written,
            numbers,
            ..
        } = encoding;
        transaction.bytes.clear();
        transaction.lengths.clear();
        transaction.full_image_horizon = full_image_horizon;
        written.clear();
        numbers.clear();
        numbers.extend(staged.keys().filter(|page_no| **page_no <= size));
        numbers.sort_unstable();
        let replaces = self.replacement.borrow().is_some();
        let mut part = Part::begin(&mut transaction.bytes);
        for &page_no in &*numbers {
            if transaction.bytes.len() - part.start >= MAX_RECORD_PAYLOAD {
                self.finish(transaction, &part, pages, size, false);
                part = Part::begin(&mut transaction.bytes);
            }
            let previous = pages
                .overlay
                .get(&page_no)
                .filter(|old| old.full_at >= full_image_horizon && !replaces);
            let encoded = delta::encode(
                &mut transaction.bytes,
                page_no,
                &staged[&page_no],
                previous.map(|old| &*old.image),
            );
            if encoded != Encoded::Unchanged {
                part.entries += 1;
                written.push((page_no, encoded == Encoded::Full));
            }
        }
        if written.is_empty() && size == pages.size {
            if !self.needs_commit.get() {
                transaction.bytes.clear();
                return;
            }
            delta::encode(&mut transaction.bytes, 1, &staged[&1], None);
            part.entries += 1;
            written.push((1, true));
        }
        self.finish(transaction, &part, pages, size, true);
    }

    fn finish(
        &self,
        transaction: &mut Transaction,
        part: &Part,
        pages: &Pages,
        size: u32,
        last_part: bool,
    ) {
        let bytes = &mut transaction.bytes;
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        let length = bytes.len() - part.start;
        let is_first = transaction.lengths.is_empty();
        let payload_crc = crc32c::crc32c(&bytes[part.start + HEADER_BYTES..]);
        let header = Header {
            length,
            lsn: Lsn::ZERO,
            durable: Lsn::ZERO,
            epoch: self.engine.shared.log.epoch,
            key: self.object.key,
            commit: self.next_commit(pages),
            database_pages: size,
            last_part,
            life: match pages.size {
                0 => Life::Begins,
                _ => Life::Continues,
            },
            replaces: is_first && self.replacement.borrow().is_some(),
            alarm: self.alarm.get().filter(|_| last_part),
            entries: part.entries,
            unix_millis: 0,
            payload_crc,
        };
        header.write(&mut bytes[part.start..]);
        transaction.lengths.push(length);
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

/// Stages zeros for the pages that a commit adds and SQLite has not written. They are free pages, and no more than fit
/// its cache.
fn stage_added(staged: &mut FxHashMap<u32, Arc<Page>>, old_size: u32, size: u32) {
    let zeros = LazyCell::new(|| Arc::new(ZERO_PAGE));
    for page_no in old_size + 1..=size {
        staged.entry(page_no).or_insert_with(|| zeros.clone());
    }
}

/// A record being encoded.
struct Part {
    start: usize,
    entries: u32,
}

impl Part {
    fn begin(bytes: &mut Vec<u8>) -> Self {
        let start = bytes.len();
        bytes.resize(start + HEADER_BYTES, 0);
        Self { start, entries: 0 }
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

/// Page images that commits have replaced, kept by each thread for reuse: an allocation of this size is slow.
mod spare {
    use crate::ident::Page;
    use std::cell::RefCell;
    use std::sync::Arc;

    /// The most that a thread keeps.
    const MAX: usize = 64;

    thread_local! {
        static PAGES: RefCell<Vec<Arc<Page>>> = const { RefCell::new(Vec::new()) };
    }

    /// A page with this content.
    pub(super) fn page(content: &Page) -> Arc<Page> {
        let spare = PAGES.with_borrow_mut(Vec::pop);
        match spare {
            Some(mut page) => {
                // There is no other holder, so this copies into it.
                *Arc::make_mut(&mut page) = *content;
                page
            }
            None => Arc::new(*content),
        }
    }

    /// Keeps a page, unless a checkpoint is still writing it.
    pub(super) fn keep(mut page: Arc<Page>) {
        if Arc::get_mut(&mut page).is_some() {
            PAGES.with_borrow_mut(|pages| {
                if pages.len() < MAX {
                    pages.push(page);
                }
            });
        }
    }
}
