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
pub(super) struct Tenures(Box<[State]>);

#[derive(Clone, Copy)]
struct State {
    generation: Generation,
    is_open: bool,
}

impl Tenures {
    /// The log owns all shards, in the same generation.
    pub(super) fn of_all(generation: Generation) -> Self {
        Self::new(State {
            generation,
            is_open: true,
        })
    }

    /// The log owns no shard.
    pub(super) fn of_none() -> Self {
        Self::new(State {
            generation: Generation(0),
            is_open: false,
        })
    }

    fn new(state: State) -> Self {
        Self(vec![state; usize::from(Shard::SHARDS)].into())
    }

    /// The generation of an open tenure.
    pub(super) fn generation(&self, shard: Shard) -> Option<Generation> {
        let state = self.0[usize::from(shard.get())];
        state.is_open.then_some(state.generation)
    }

    /// Returns whether a tenure is open.
    pub(super) fn has(&self, tenure: Tenure) -> bool {
        self.generation(tenure.shard) == Some(tenure.generation)
    }

    /// Returns whether a shard is closed and was not open in this generation or a later one.
    pub(super) fn may_open(&self, tenure: Tenure) -> bool {
        let state = self.0[usize::from(tenure.shard.get())];
        !state.is_open && tenure.generation > state.generation
    }

    /// Opens a tenure.
    pub(super) fn open(&mut self, tenure: Tenure) {
        self.0[usize::from(tenure.shard.get())] = State {
            generation: tenure.generation,
            is_open: true,
        };
    }

    /// Closes a shard. Returns false if it was not open.
    pub(super) fn close(&mut self, shard: Shard) -> bool {
        let state = &mut self.0[usize::from(shard.get())];
        std::mem::replace(&mut state.is_open, false)
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
        assert!(!tenures.may_open(tenure(3)) && !tenures.may_open(tenure(4)));
        assert!(tenures.may_open(tenure(5)));
        assert_eq!(tenures.generation(Shard::of(&[0; 32])), None);
    }
}
