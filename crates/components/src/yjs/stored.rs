//! A document in memory, and the rows that it is read from.
//!
//! Contract: between calls, memory and rows are equal. After a transaction around a change was rolled back, memory is ahead of the
//! rows; then the next call drops it and reads them again.

use std::cell::{RefCell, RefMut};

use abide::{Error, ErrorKind, Result, Storage};

use super::{
    Options, Size,
    refusal::Refusal,
    replica::Replica,
    rows::{UpdateRows, damaged},
};
use crate::broken::{Variant, broken};

/// A document and its rows.
pub(super) struct Stored {
    rows: UpdateRows,
    pub(super) options: Options,
    /// `None` until it is needed, and whenever memory may differ from the rows.
    live: RefCell<Option<Live>>,
}

/// The document in memory, and how it is stored.
pub(super) struct Live {
    pub(super) replica: Replica,
    /// The last row that it has.
    last: i64,
    pub(super) size: Size,
}

impl Stored {
    pub(super) fn open(storage: &Storage, options: Options) -> Result<Self> {
        Ok(Self {
            rows: UpdateRows::open(storage)?,
            options,
            live: RefCell::new(None),
        })
    }

    /// Stores an update that memory has already, and compacts if it is time. If the update is refused, or storing it fails, memory is read
    /// again.
    pub(super) fn store(&self, update: &[u8]) -> Result<Result<(), Refusal>> {
        let stored = self.try_store(update);
        if !matches!(stored, Ok(Ok(()))) && !broken(Variant::RefusedKept) {
            self.forget();
        }
        stored
    }

    fn try_store(&self, update: &[u8]) -> Result<Result<(), Refusal>> {
        let mut slot = self.live.borrow_mut();
        let Some(live) = slot.as_mut() else {
            return Err(in_use());
        };
        let bytes = update.len() as u64;
        let limit = self.options.max_document_bytes;
        if live.size.total() + bytes > limit && !broken(Variant::DocumentUnbounded) {
            // Perhaps it fits when all is merged.
            let snapshot = live.replica.whole();
            if snapshot.len() as u64 > limit {
                return Ok(Err(Refusal::Full { limit }));
            }
            return self.replace(live, &snapshot).map(|replaced| {
                let refused = Refusal::Full { limit };
                if replaced { Ok(()) } else { Err(refused) }
            });
        }
        live.last = self.rows.append(live.last, update)?;
        live.size.updates += 1;
        live.size.update_bytes += bytes;
        if self.is_compaction_due(live.size) {
            self.compact(live)?;
        }
        Ok(Ok(()))
    }

    /// Merges all updates into a snapshot, if there are any.
    pub(super) fn compact_now(&self) -> Result<Size> {
        let mut live = self.live()?;
        if live.size.updates > 0 {
            self.compact(&mut live)?;
        }
        Ok(live.size)
    }

    fn is_compaction_due(&self, size: Size) -> bool {
        if broken(Variant::UpdatesUnmerged) {
            return false;
        }
        let enough = self.options.compact_after_bytes.max(size.snapshot_bytes);
        size.updates >= self.options.compact_after_updates || size.update_bytes >= enough
    }

    /// Merges all updates into a snapshot.
    fn compact(&self, live: &mut Live) -> Result<()> {
        let snapshot = live.replica.whole();
        self.replace(live, &snapshot).map(drop)
    }

    /// Puts a snapshot in the place of the updates, if it is the same document.
    fn replace(&self, live: &mut Live, snapshot: &[u8]) -> Result<bool> {
        let Some(replica) = live.replica.verified(snapshot) else {
            // The updates are correct; they only take more space.
            tracing::warn!("a snapshot of a Yjs document differs from it, so its updates are kept");
            return Ok(false);
        };
        live.last = self.rows.replace(live.last, snapshot)?;
        live.replica = replica;
        live.size = Size {
            snapshot_bytes: snapshot.len() as u64,
            updates: 0,
            update_bytes: 0,
        };
        Ok(true)
    }

    /// The document as the rows have it.
    pub(super) fn live(&self) -> Result<RefMut<'_, Live>> {
        let last = self.rows.last()?;
        let mut slot = self.live.try_borrow_mut().map_err(|_| in_use())?;
        let is_current = |live: &Live| live.last == last || broken(Variant::LiveTrusted);
        if !slot.as_ref().is_some_and(is_current) {
            *slot = None;
            *slot = Some(self.load()?);
        }
        RefMut::filter_map(slot, Option::as_mut).map_err(|_| in_use())
    }

    fn load(&self) -> Result<Live> {
        let snapshot = self.rows.snapshot()?;
        let mut live = Live {
            replica: Replica::new(),
            last: 0,
            size: Size::default(),
        };
        self.rows.read(|id, update| {
            let applied = live.replica.apply(update);
            if !applied.is_ok_and(|applied| !applied.is_cut) {
                return Err(damaged(&format!(
                    "the update that ends at row {id} does not fit"
                )));
            }
            live.last = id;
            let bytes = update.len() as u64;
            if id == snapshot {
                live.size.snapshot_bytes = bytes;
            } else {
                live.size.updates += 1;
                live.size.update_bytes += bytes;
            }
            Ok(())
        })?;
        Ok(live)
    }

    /// Drops what is in memory: it may differ from what is stored.
    pub(super) fn forget(&self) {
        *self.live.borrow_mut() = None;
    }
}

/// A function that the document calls has called the document.
pub(super) fn in_use() -> Error {
    Error::with_kind(
        ErrorKind::Input,
        "the document is in use: inside `Document::read` and `Document::transact`, use only what the function is given",
    )
}
