//! The document in memory, a replica of `yrs`: updates are checked first, and a panic of `yrs` refuses the update.

use std::panic::{AssertUnwindSafe, catch_unwind};

use yrs::{
    Doc, OffsetKind, Options, ReadTxn, StateVector, Transact, TransactionMut, Update,
    block::ClientID,
    updates::{decoder::Decode, encoder::Encode},
};

use super::{
    inspect::{inspect, state_vector},
    limits::{BYTES_PER_BLOCK, LEVELS_WITHOUT_STACK, MAX_NESTED_TYPES, STACK_PER_LEVEL},
    pieces::Pieces,
    refusal::Refusal,
    work::Budget,
};

/// An update that changes nothing: no blocks, no deletions.
const NOTHING: [u8; 2] = [0, 0];

/// A document in memory. After an error its content is not to be trusted, so its owner drops it.
pub(super) struct Replica {
    doc: Doc,
    /// Most nested types: deleted ones count until the next snapshot.
    nested_types: u64,
    /// Blocks and bytes of all updates that were applied, for an estimate of its memory.
    blocks: u64,
    bytes: u64,
}

/// What came of an update.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// What has changed, as an update; `None` if nothing has.
    pub(super) change: Option<Vec<u8>>,
    /// Some of it depends on what is not there yet, and was left out.
    pub(super) is_cut: bool,
}

impl Replica {
    pub(super) fn new() -> Self {
        Self {
            // Positions are those of Yjs.
            doc: Doc::with_options(Options {
                offset_kind: OffsetKind::Utf16,
                ..Options::default()
            }),
            nested_types: 0,
            blocks: 0,
            bytes: 0,
        }
    }

    /// Bytes that it takes in memory, about.
    pub(super) fn memory(&self) -> u64 {
        self.blocks * BYTES_PER_BLOCK + 2 * self.bytes
    }

    pub(super) fn doc(&self) -> &Doc {
        &self.doc
    }

    /// Applies as much of an update as can be applied now, within a budget.
    pub(super) fn apply(&mut self, update: &[u8], budget: &Budget) -> Result<Applied, Refusal> {
        let vector = self.doc.transact().state_vector();
        let known = |client| vector.get(&ClientID::new(client));
        let inspected = inspect(update, known).map_err(|_| Refusal::MalformedUpdate)?;
        let nested_types = self.nested_types + inspected.nested_types;
        if nested_types > MAX_NESTED_TYPES {
            return Err(Refusal::TooManyTypes);
        }
        let mut pieces = Pieces::of(&inspected, known);
        let change = guarded(nested_types, || {
            let mut transaction = self.doc.transact_mut();
            while let Some(piece) = pieces.next().ok()? {
                if budget.is_spent() {
                    return Some(Err(Refusal::TooMuchWork));
                }
                let update = Update::decode_v1(&piece).ok()?;
                transaction.apply_update(update).ok()?;
            }
            let is_whole = !transaction.has_missing_updates();
            is_whole.then(|| Ok(change(&transaction)))
        })??;
        self.nested_types = nested_types;
        self.blocks += inspected.kept.iter().sum::<usize>() as u64;
        self.bytes += update.len() as u64;
        Ok(Applied {
            change,
            is_cut: inspected.is_cut,
        })
    }

    /// Whether an update has blocks that this replica lacks.
    pub(super) fn lacks(&self, update: &[u8]) -> Result<bool, Refusal> {
        let vector = self.doc.transact().state_vector();
        let inspected = inspect(update, |_| u32::MAX).map_err(|_| Refusal::MalformedUpdate)?;
        let mut runs = inspected.runs.iter();
        Ok(runs.any(|run| run.end_of(run.blocks.len()) > vector.get(&ClientID::new(run.client))))
    }

    /// Changes the document from the program; returns the change.
    pub(super) fn transact<R>(
        &mut self,
        edit: impl FnOnce(&mut TransactionMut<'_>) -> R,
    ) -> (R, Option<Vec<u8>>) {
        let mut transaction = self.doc.transact_mut();
        let result = edit(&mut transaction);
        let change = change(&transaction);
        drop(transaction);
        // All of it is there, so nothing is cut off.
        let inspected = change
            .as_deref()
            .map(|change| inspect(change, |_| u32::MAX));
        if let Some(Ok(inspected)) = inspected {
            self.nested_types += inspected.nested_types;
            self.blocks += inspected.kept.iter().sum::<usize>() as u64;
            self.bytes += inspected.update.len() as u64;
        }
        (result, change)
    }

    /// The state vector: what this replica has.
    pub(super) fn state_vector(&self) -> Vec<u8> {
        self.doc.transact().state_vector().encode_v1()
    }

    /// What a client with this state vector lacks, as an update.
    pub(super) fn beyond(&self, vector: &[u8]) -> Result<Vec<u8>, Refusal> {
        state_vector(vector).map_err(|_| Refusal::Malformed)?;
        guarded(0, || {
            let vector = StateVector::decode_v1(vector).ok()?;
            Some(self.doc.transact().encode_state_as_update_v1(&vector))
        })
        .map_err(|_| Refusal::Malformed)
    }

    /// Everything, as one update.
    pub(super) fn whole(&self) -> Vec<u8> {
        let transaction = self.doc.transact();
        transaction.encode_state_as_update_v1(&StateVector::default())
    }

    /// A replica made of a snapshot; `None` if it is not the same document as this one.
    ///
    /// # Errors
    /// [`Refusal::TooMuchWork`] if the budget does not suffice.
    pub(super) fn verified(
        &self,
        snapshot: &[u8],
        budget: &Budget,
    ) -> Result<Option<Self>, Refusal> {
        let mut copy = Self::new();
        let applied = match copy.apply(snapshot, budget) {
            Ok(applied) => applied,
            Err(Refusal::TooMuchWork) => return Err(Refusal::TooMuchWork),
            Err(_) => return Ok(None),
        };
        let is_same = self.doc.transact().snapshot() == copy.doc.transact().snapshot();
        Ok((is_same && !applied.is_cut).then_some(copy))
    }
}

/// What a transaction has changed so far.
fn change(transaction: &TransactionMut<'_>) -> Option<Vec<u8>> {
    let change = transaction.encode_update_v1();
    (change != NOTHING).then_some(change)
}

/// Runs `yrs` on bytes of a client: with enough stack for the nested types, and with its panics as refusals.
fn guarded<R>(nested_types: u64, work: impl FnOnce() -> Option<R>) -> Result<R, Refusal> {
    let caught = || catch_unwind(AssertUnwindSafe(work));
    let result = if nested_types <= LEVELS_WITHOUT_STACK {
        caught()
    } else {
        let levels = usize::try_from(nested_types).unwrap_or(usize::MAX);
        stacker::grow(levels.saturating_mul(STACK_PER_LEVEL), caught)
    };
    result.ok().flatten().ok_or(Refusal::MalformedUpdate)
}
