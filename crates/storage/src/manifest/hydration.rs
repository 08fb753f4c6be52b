//! Objects that have no files yet, because their directory was restored lazily, or because stores share runs.

use super::MOST_PLACES;
use crate::ident::ObjectKey;
use serde::{Deserialize, Serialize};

/// Which objects may lack their files. Their states are in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HydrationState {
    /// Objects whose ids begin with a lower byte have their files.
    pub(crate) next: u8,
    /// The commits of objects without files are before this position.
    pub(crate) before: u64,
}

impl HydrationState {
    /// Every object that a log or a file does not have may be in a run that another store has written.
    pub(crate) const OF_SHARED_RUNS: Self = Self {
        next: 0,
        before: MOST_PLACES,
    };

    /// Returns whether an object may lack its file.
    pub(crate) fn may_lack(&self, key: ObjectKey) -> bool {
        key.id[0] >= self.next
    }

    /// What follows once the objects with the next byte have their files; `None` if all have.
    pub(crate) fn advanced(self) -> Option<Self> {
        let next = self.next.checked_add(1)?;
        Some(Self { next, ..self })
    }
}
