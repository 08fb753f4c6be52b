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

/// What an object begins with in a tenure of its shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) generation: Generation,
    /// How many bytes the logs of earlier owners had, at least. Numbers that an object takes from the length of the log begin above
    /// it: the object may have had others in earlier tenures.
    pub(crate) floor: u64,
}

impl From<Generation> for Owned {
    /// There was no other log.
    fn from(generation: Generation) -> Self {
        Self {
            generation,
            floor: 0,
        }
    }
}

/// The newest tenure of each shard in this log.
pub(super) struct Tenures(Box<[Newest]>);

#[derive(Clone, Copy)]
struct Newest {
    owned: Owned,
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
            owned: generation.into(),
            ownership,
        };
        Self(vec![newest; usize::from(Shard::SHARDS)].into())
    }

    fn newest(&mut self, shard: Shard) -> &mut Newest {
        &mut self.0[usize::from(shard.get())]
    }

    /// What begins with an open tenure.
    pub(super) fn owned(&self, shard: Shard) -> Option<Owned> {
        let newest = self.0[usize::from(shard.get())];
        (newest.ownership == Ownership::Open).then_some(newest.owned)
    }

    /// Returns whether a tenure is open.
    pub(super) fn has(&self, tenure: Tenure) -> bool {
        let owned = self.owned(tenure.shard);
        owned.is_some_and(|owned| owned.generation == tenure.generation)
    }

    /// Returns whether a shard is free and was not open in this generation or a later one.
    pub(super) fn may_open(&self, tenure: Tenure) -> bool {
        let newest = self.0[usize::from(tenure.shard.get())];
        newest.ownership == Ownership::Free && tenure.generation > newest.owned.generation
    }

    /// Opens a tenure.
    pub(super) fn open(&mut self, shard: Shard, owned: Owned) {
        *self.newest(shard) = Newest {
            owned,
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
        let owned = Owned {
            generation: Generation(4),
            floor: 70,
        };
        tenures.open(shard, owned);
        assert_eq!(tenures.owned(shard), Some(owned));
        assert!(tenures.has(tenure(4)) && !tenures.has(tenure(3)));
        assert!(!tenures.may_open(tenure(5)), "it is open");
        assert!(tenures.close(shard) && !tenures.close(shard));
        assert_eq!(tenures.owned(shard), None);
        assert!(tenures.is_closed(shard) && !tenures.may_open(tenure(5)));
        tenures.free(shard);
        assert!(
            !tenures.is_closed(shard)
                && !tenures.may_open(tenure(3))
                && !tenures.may_open(tenure(4))
        );
        assert!(tenures.may_open(tenure(5)));
        assert_eq!(tenures.owned(Shard::of(&[0; 32])), None);
    }
}
