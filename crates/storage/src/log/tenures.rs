//! The shards whose records the log accepts.
//!
//! A node of a cluster owns a shard for a *tenure*, which has a generation. When it hands the shard over, the log is closed to
//! it. That happens under the lock that assigns positions: no record of the shard is at or after the position where it was
//! closed, and a commit that was encoded before is refused.

use crate::ident::{Generation, Shard};

/// One owner's tenure of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tenure {
    pub(crate) shard: Shard,
    pub(crate) generation: Generation,
}

/// The newest tenure of each shard in this log.
pub(super) struct Tenures(Box<[Newest]>);

#[derive(Clone, Copy)]
struct Newest {
    generation: Generation,
    ownership: Ownership,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// It has nothing of the shard.
    Free,
    Open,
    /// Pages, alarms and files of the shard may remain.
    Closed,
}

impl Tenures {
    /// The log owns all shards, in the same generation.
    pub(super) fn of_all(generation: Generation) -> Self {
        Self::new(generation, Ownership::Open)
    }

    /// The log owns no shard.
    pub(super) fn of_none() -> Self {
        Self::new(Generation(0), Ownership::Free)
    }

    fn new(generation: Generation, ownership: Ownership) -> Self {
        let newest = Newest {
            generation,
            ownership,
        };
        Self(vec![newest; usize::from(Shard::SHARDS)].into())
    }

    fn newest(&mut self, shard: Shard) -> &mut Newest {
        &mut self.0[usize::from(shard.get())]
    }

    /// The generation of an open tenure.
    pub(super) fn generation(&self, shard: Shard) -> Option<Generation> {
        let newest = self.0[usize::from(shard.get())];
        (newest.ownership == Ownership::Open).then_some(newest.generation)
    }

    /// Returns whether a tenure is open.
    pub(super) fn has(&self, tenure: Tenure) -> bool {
        self.generation(tenure.shard) == Some(tenure.generation)
    }

    /// Returns whether a shard is free and was not open in this generation or a later one.
    pub(super) fn may_open(&self, tenure: Tenure) -> bool {
        let newest = self.0[usize::from(tenure.shard.get())];
        newest.ownership == Ownership::Free && tenure.generation > newest.generation
    }

    /// Opens a tenure.
    pub(super) fn open(&mut self, tenure: Tenure) {
        *self.newest(tenure.shard) = Newest {
            generation: tenure.generation,
            ownership: Ownership::Open,
        };
    }

    /// Closes a shard. Returns false if it was not open.
    pub(super) fn close(&mut self, shard: Shard) -> bool {
        let ownership = &mut self.newest(shard).ownership;
        let was_open = *ownership == Ownership::Open;
        if was_open {
            *ownership = Ownership::Closed;
        }
        was_open
    }

    /// Returns whether a shard was closed and is not free yet.
    pub(super) fn is_closed(&self, shard: Shard) -> bool {
        self.0[usize::from(shard.get())].ownership == Ownership::Closed
    }

    /// Frees a shard that was closed.
    pub(super) fn free(&mut self, shard: Shard) {
        self.newest(shard).ownership = Ownership::Free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_opens_again_only_in_a_later_generation() {
        let shard = Shard::of(&[200; 32]);
        let tenure = |generation| Tenure {
            shard,
            generation: Generation(generation),
        };
        let mut tenures = Tenures::of_none();
        assert!(!tenures.may_open(tenure(0)) && tenures.may_open(tenure(4)));
        tenures.open(tenure(4));
        assert!(tenures.has(tenure(4)) && !tenures.has(tenure(3)));
        assert!(!tenures.may_open(tenure(5)), "it is open");
        assert!(tenures.close(shard) && !tenures.close(shard));
        assert_eq!(tenures.generation(shard), None);
        assert!(tenures.is_closed(shard) && !tenures.may_open(tenure(5)));
        tenures.free(shard);
        assert!(
            !tenures.is_closed(shard)
                && !tenures.may_open(tenure(3))
                && !tenures.may_open(tenure(4))
        );
        assert!(tenures.may_open(tenure(5)));
        assert_eq!(tenures.generation(Shard::of(&[0; 32])), None);
    }
}
