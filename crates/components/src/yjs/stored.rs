//! A document in memory, and the rows that it is read from.
//!
//! Contract: one task has the document at a time, in the order in which they asked. Whenever no task has it, memory and rows are
//! equal, or memory is empty. Long work takes the document out of its place, so it is read again if the task ends early.

use std::time::Duration;

use abide::{Ctx, Error, Result, storage::MemoryCharge};
use tokio::sync::{Mutex, MutexGuard};

use super::{
    DocumentOptions, Size,
    limits::{INLINE_DOCUMENT_BYTES, INLINE_TIME, INLINE_UPDATE_BYTES, LOAD_TIME, MEMORY_PER_BYTE},
    refusal::Refusal,
    replica::{Applied, Replica},
    rows::{UpdateRows, damaged},
    work::{Budget, allowance, elsewhere},
};

/// A document and its rows.
pub(super) struct Stored {
    ctx: Ctx,
    rows: UpdateRows,
    pub(super) options: DocumentOptions,
    /// `None` until it is needed, and whenever memory may differ from the rows.
    live: Mutex<Option<Live>>,
}

/// The document in memory, and how it is stored.
pub(super) struct Live {
    pub(super) replica: Replica,
    /// The last row that it has.
    last: i64,
    pub(super) size: Size,
    /// Updates are merged when they are this many times what the options say: more after each snapshot that failed.
    patience: u64,
    /// Processor time that it takes to read the rows, about.
    work: Duration,
    /// A short update took long, so others may, too.
    is_slow: bool,
    memory: MemoryCharge,
}

/// The document, while one task has it.
pub(super) struct Turn<'a> {
    stored: &'a Stored,
    slot: MutexGuard<'a, Option<Live>>,
}

impl Stored {
    pub(super) fn open(ctx: &Ctx, options: DocumentOptions) -> Result<Self> {
        let deleted = ctx.clone();
        // Memory has the document, and so have the clients.
        ctx.on_delete_all(move || deleted.restart());
        Ok(Self {
            ctx: ctx.clone(),
            rows: UpdateRows::open(ctx.storage())?,
            options,
            live: Mutex::new(None),
        })
    }

    /// Waits for the tasks that asked before.
    pub(super) async fn in_order(&self) {
        drop(self.live.lock().await);
    }

    /// The document, read if it is not in memory.
    pub(super) async fn turn(&self) -> Result<Result<Turn<'_>, Refusal>> {
        let mut slot = self.live.lock().await;
        if slot.is_none() {
            match self.load().await? {
                Ok(live) => *slot = Some(live),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(Turn { stored: self, slot }))
    }

    async fn load(&self) -> Result<Result<Live, Refusal>> {
        if self.rows.is_quarantined()? {
            return Ok(Err(Refusal::Quarantined));
        }
        let snapshot = self.rows.snapshot()?;
        let updates = self.rows.read()?;
        let mut size = Size::default();
        for (id, update) in &updates {
            let bytes = update.len() as u64;
            if *id == snapshot {
                size.snapshot_bytes = bytes;
            } else {
                size.updates += 1;
                size.update_bytes += bytes;
            }
        }
        let last = updates.last().map_or(0, |(id, _)| *id);
        let memory = self.ctx.charge_memory(size.total() * MEMORY_PER_BYTE);
        let read = move || {
            let budget = Budget::begin(LOAD_TIME, size.total());
            let mut replica = Replica::new();
            for (id, update) in updates {
                match replica.apply(&update, &budget) {
                    Ok(Applied { is_cut: false, .. }) => {}
                    Err(Refusal::TooMuchWork) => return Err(None),
                    _ => return Err(Some(id)),
                }
            }
            Ok((replica, budget.spent()))
        };
        let is_short = size.total() <= INLINE_DOCUMENT_BYTES;
        let read = if is_short {
            read()
        } else {
            elsewhere(read).await?
        };
        match read {
            Ok((replica, work)) => {
                let mut live = Live {
                    replica,
                    last,
                    size,
                    patience: 1,
                    work,
                    is_slow: false,
                    memory,
                };
                live.measure();
                Ok(Ok(live))
            }
            Err(Some(id)) => Err(damaged(&format!(
                "the update that ends at row {id} does not fit"
            ))),
            Err(None) => {
                tracing::error!(
                    id = %self.ctx.id(), bytes = size.total(),
                    "a stored Yjs document takes too long to read, so it is quarantined: restore an earlier state"
                );
                self.rows.quarantine()?;
                Ok(Err(Refusal::Quarantined))
            }
        }
    }
}

impl Live {
    fn measure(&mut self) {
        self.memory.resize(self.replica.memory());
    }

    /// Whether reading the rows takes nearly as long as it may.
    fn is_costly(&self) -> bool {
        self.work > allowance(LOAD_TIME, self.size.total()) / 2
    }

    fn is_compaction_due(&self, options: &DocumentOptions) -> bool {
        let size = self.size;
        let bytes = options.compact_after_bytes.max(size.snapshot_bytes);
        size.updates >= options.compact_after_updates.saturating_mul(self.patience)
            || size.update_bytes >= bytes.saturating_mul(self.patience)
            || (self.is_costly() && size.updates >= self.patience)
    }
}

impl Turn<'_> {
    pub(super) fn live(&mut self) -> Result<&mut Live> {
        self.slot.as_mut().ok_or_else(not_in_memory)
    }

    /// Works on the replica: on this thread if the work is short. While the replica is on another thread, memory is
    /// empty.
    pub(super) async fn work<R: Send + 'static>(
        &mut self,
        is_short: bool,
        work: impl FnOnce(&mut Replica) -> R + Send + 'static,
    ) -> Result<R> {
        if is_short {
            return Ok(work(&mut self.live()?.replica));
        }
        let live = self.slot.take();
        let mut live = live.ok_or_else(not_in_memory)?;
        let (live, done) = elsewhere(move || {
            let done = work(&mut live.replica);
            (live, done)
        })
        .await?;
        *self.slot = Some(live);
        Ok(done)
    }

    pub(super) fn is_short(&self) -> bool {
        let live = self.slot.as_ref();
        live.is_some_and(|live| !live.is_slow && live.size.total() <= INLINE_DOCUMENT_BYTES)
    }

    /// Applies an update to memory. The caller stores it, or forgets it, before it awaits anything else.
    pub(super) async fn apply(&mut self, update: &[u8]) -> Result<Result<Applied, Refusal>> {
        let time = self.stored.options.update_time;
        let live = self.live()?;
        if live.is_costly() && live.patience > 1 {
            // A snapshot does not help.
            return Ok(Err(Refusal::TooMuchWork));
        }
        let is_short = !live.is_slow && update.len() <= INLINE_UPDATE_BYTES;
        let bytes = update.len() as u64;
        let (applied, spent) = if is_short {
            let budget = Budget::begin(time, bytes);
            (live.replica.apply(update, &budget), budget.spent())
        } else {
            let _memory = self.stored.ctx.charge_memory(bytes * MEMORY_PER_BYTE);
            let update = update.to_vec();
            let apply = move |replica: &mut Replica| {
                let budget = Budget::begin(time, bytes);
                (replica.apply(&update, &budget), budget.spent())
            };
            self.work(false, apply).await?
        };
        if applied.is_err() {
            self.forget();
        } else {
            let live = self.live()?;
            live.work += spent;
            live.is_slow |= is_short && spent > INLINE_TIME;
            live.measure();
        }
        Ok(applied)
    }

    /// Stores an update that memory has already. If it is refused, or storing it fails, memory is read again.
    pub(super) async fn store(&mut self, update: &[u8]) -> Result<Result<(), Refusal>> {
        let stored = self.try_store(update).await;
        if !matches!(stored, Ok(Ok(()))) {
            self.forget();
        }
        stored
    }

    async fn try_store(&mut self, update: &[u8]) -> Result<Result<(), Refusal>> {
        let limit = self.stored.options.max_document_bytes;
        let bytes = update.len() as u64;
        let rows = &self.stored.rows;
        let live = self.live()?;
        if live.size.total() + bytes > limit {
            // Perhaps it fits when all is merged.
            let refused = Err(Refusal::Full { limit });
            return Ok(if self.compact(limit).await? {
                Ok(())
            } else {
                refused
            });
        }
        live.last = rows.append(live.last, update)?;
        live.size.updates += 1;
        live.size.update_bytes += bytes;
        Ok(Ok(()))
    }

    /// Merges the updates into a snapshot if it is time.
    pub(super) async fn compact_if_due(&mut self) -> Result<()> {
        let options = self.stored.options;
        if self.live()?.is_compaction_due(&options) {
            self.compact(u64::MAX).await?;
        }
        Ok(())
    }

    /// Replaces all updates by one snapshot of at most `limit` bytes. False if the result is not the same document,
    /// or cannot be read in time; then the updates are kept.
    pub(super) async fn compact(&mut self, limit: u64) -> Result<bool> {
        let is_short = self.is_short();
        let merge = move |replica: &mut Replica| {
            let snapshot = replica.whole();
            if snapshot.len() as u64 > limit {
                return None;
            }
            // Half of the time, so that changes can still be added.
            let budget = Budget::begin(LOAD_TIME / 2, snapshot.len() as u64 / 2);
            let copy = replica.verified(&snapshot, &budget);
            Some((snapshot, copy, budget.spent()))
        };
        let Some((snapshot, copy, work)) = self.work(is_short, merge).await? else {
            return Ok(false);
        };
        let rows = &self.stored.rows;
        let slot = self.slot.as_mut();
        let Some(live) = slot else { return Ok(false) };
        let Ok(Some(replica)) = copy else {
            // The updates are correct; they only take more space.
            tracing::warn!(
                is_slow = copy.is_err(),
                "a snapshot of a Yjs document is not used, so its updates are kept"
            );
            live.patience = live.patience.saturating_mul(2);
            return Ok(false);
        };
        live.last = rows.replace(live.last, &snapshot)?;
        live.replica = replica;
        live.size = Size {
            snapshot_bytes: snapshot.len() as u64,
            updates: 0,
            update_bytes: 0,
        };
        live.work = work;
        live.is_slow = false;
        live.patience = 1;
        live.measure();
        Ok(true)
    }

    /// Drops what is in memory: it may differ from what is stored.
    pub(super) fn forget(&mut self) {
        *self.slot = None;
    }
}

fn not_in_memory() -> Error {
    Error::new("the document is not in memory")
}
