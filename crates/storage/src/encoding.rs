//! The buffers used to encode a transaction.
//!
//! An object encodes only while it commits, so each thread keeps one set: its memory stays in the processor's cache,
//! and idle objects hold none.

use crate::ident::Lsn;
use crate::limits::{KEPT_ENCODING_BYTES, MAX_KEPT_PAGES};
use crate::log::{Log, Transaction};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

#[derive(Default)]
pub(crate) struct Encoding {
    pub(crate) transaction: Transaction,
    /// The pages in the transaction, and whether each is a full image.
    pub(crate) written: Vec<(u32, bool)>,
    /// The staged pages in order.
    pub(crate) numbers: Vec<u32>,
    /// What it was encoded against; `None` if there is nothing to append.
    pub(crate) basis: Option<Basis>,
}

/// While this is unchanged, an encoded transaction can be appended as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Basis {
    pub(crate) full_image_horizon: Lsn,
    pub(crate) departures: u64,
}

thread_local! {
    static KEPT: Cell<Option<Encoding>> = const { Cell::new(None) };
}

impl Encoding {
    /// This thread's buffers, empty; or new ones.
    pub(crate) fn take(log: &Log) -> Taken<'_> {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        Taken {
            encoding: kept.unwrap_or_default(),
            log,
        }
    }

    /// Clears the buffers, and frees the memory that a large transaction needed.
    fn clear(&mut self) {
        let bytes = &mut self.transaction.bytes;
        bytes.clear();
        bytes.shrink_to(KEPT_ENCODING_BYTES);
        self.transaction.lengths.clear();
        self.written.clear();
        self.written.shrink_to(MAX_KEPT_PAGES);
        self.numbers.clear();
        self.numbers.shrink_to(MAX_KEPT_PAGES);
        self.basis = None;
    }
}

/// An encoding in use. When it is dropped, its transaction gives up its place in the queue for log space, if it has
/// one, and the thread keeps the buffers for its next commit.
pub(crate) struct Taken<'a> {
    encoding: Encoding,
    log: &'a Log,
}

impl Deref for Taken<'_> {
    type Target = Encoding;

    fn deref(&self) -> &Encoding {
        &self.encoding
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Encoding {
        &mut self.encoding
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.log.give_up(&mut self.encoding.transaction);
        let mut encoding = std::mem::take(&mut self.encoding);
        encoding.clear();
        // A thread that is ending keeps nothing.
        let _ = KEPT.try_with(|kept| kept.set(Some(encoding)));
    }
}
