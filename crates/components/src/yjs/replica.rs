//! The document in memory, a replica of `yrs`: updates are checked first, and a panic of `yrs` refuses the update.

use std::panic::{AssertUnwindSafe, catch_unwind};

use yrs::{
    Doc, OffsetKind, Options, ReadTxn, StateVector, Transact, TransactionMut, Update,
    block::ClientID,
    updates::{decoder::Decode, encoder::Encode},
};

use super::{
    inspect::{inspect, state_vector},
    limits::{LEVELS_WITHOUT_STACK, MAX_NESTED_TYPES, STACK_PER_LEVEL},
    refusal::Refusal,
};
use crate::broken::{Variant, broken};

/// An update that changes nothing: no blocks, no deletions.
const NOTHING: [u8; 2] = [0, 0];

/// A document in memory. After an error its content is not to be trusted, so its owner drops it.
pub(super) struct Replica {
    doc: Doc,
    /// Types within types, at most: what was deleted counts until the next snapshot.
    nested_types: u64,
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
        }
    }

    pub(super) fn doc(&self) -> &Doc {
        &self.doc
    }

    /// Applies as much of an update as can be applied now.
    pub(super) fn apply(&mut self, update: &[u8]) -> Result<Applied, Refusal> {
        let vector = self.doc.transact().state_vector();
        let inspected = inspect(update, |client| vector.get(&ClientID::new(client)));
        let inspected = inspected.map_err(|_| Refusal::MalformedUpdate)?;
        let nested_types = self.nested_types + inspected.nested_types;
        if nested_types > MAX_NESTED_TYPES {
            return Err(Refusal::TooManyTypes);
        }
        let change = guarded(nested_types, || {
            let update = Update::decode_v1(&inspected.update).ok()?;
            let mut transaction = self.doc.transact_mut();
            transaction.apply_update(update).ok()?;
            let is_whole = !transaction.has_missing_updates();
            is_whole.then(|| change(&transaction))
        })?;
        self.nested_types = nested_types;
        Ok(Applied {
            change,
            is_cut: inspected.is_cut(),
        })
    }

    /// Changes the document from here; what has changed.
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
        }
        (result, change)
    }

    /// The state vector: what this replica has.
    pub(super) fn state_vector(&self) -> Vec<u8> {
        self.doc.transact().state_vector().encode_v1()
    }

    /// What somebody with this state vector lacks, as an update.
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

    /// A replica made of a snapshot, if it is the same document as this one.
    pub(super) fn verified(&self, snapshot: &[u8]) -> Option<Self> {
        let mut copy = Self::new();
        let applied = copy.apply(snapshot).ok()?;
        let is_same = self.doc.transact().snapshot() == copy.doc.transact().snapshot();
        (is_same && !applied.is_cut).then_some(copy)
    }
}

/// What a transaction has changed so far.
fn change(transaction: &TransactionMut<'_>) -> Option<Vec<u8>> {
    let change = transaction.encode_update_v1();
    (change != NOTHING || broken(Variant::RepeatStored)).then_some(change)
}

/// Runs what `yrs` does with somebody's bytes: with stack enough for so many levels, and with its panics as refusals.
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
