//! The commit point: staged pages become one transaction of the log, and pages of the overlay.

use super::{PageFile, Replacement, spare};
use crate::delta::{self, Encoded};
use crate::encoding::{Basis, Encoding};
use crate::error::{Error, Result};
use crate::ident::{Life, Lsn, Page, ZERO_PAGE};
use crate::limits::{MAX_KEPT_PAGES, MAX_RECORD_PAYLOAD};
use crate::log::record::{ALIGN, HEADER_BYTES, Header};
use crate::log::{Appended, Refused, Shortage, Transaction};
use crate::overlay::{OverlayPage, Pages, Replaced, header};
use rustc_hash::FxHashMap;
use std::cell::LazyCell;
use std::sync::Arc;

impl PageFile {
    /// Appends what is staged, and waits for room.
    pub(super) fn append(&self, encoding: &mut Encoding) -> Result<()> {
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
                Err(Refused::Moved) => return Err(Error::moved(self.object.key)),
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
                _ => Some(start),
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
        transaction.tenure = self.object.tenure();
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
                .filter(|old| !replaces && old.full_at.is_some_and(|at| at >= full_image_horizon));
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
