//! The shards whose records the log accepts.

use super::Log;
use super::tenures::{Owned, Tenure};
use crate::ident::{Lsn, Shard};

impl Log {
    /// What objects of a shard begin with; `None` if its records are not accepted.
    pub(crate) fn owned(&self, shard: Shard) -> Option<Owned> {
        self.state.lock().tenures.owned(shard)
    }

    /// Returns whether a shard is free and was not open in this generation or a later one.
    pub(crate) fn may_open_shard(&self, tenure: Tenure) -> bool {
        self.state.lock().tenures.may_open(tenure)
    }

    /// Accepts records of a shard from now on.
    pub(crate) fn open_shard(&self, shard: Shard, owned: Owned) {
        self.state.lock().tenures.open(shard, owned);
    }

    /// Accepts no more records of a shard. Returns the end of the log: all records of the shard are before it. `None` if
    /// the shard was not open.
    pub(crate) fn close_shard(&self, shard: Shard) -> Option<Lsn> {
        let mut state = self.state.lock();
        state.tenures.close(shard).then_some(state.appended)
    }

    /// Returns whether a shard was closed and is not free yet.
    pub(crate) fn has_closed_shard(&self, shard: Shard) -> bool {
        self.state.lock().tenures.is_closed(shard)
    }

    /// Lets a shard that was closed be opened again: nothing of it is left.
    pub(crate) fn free_shard(&self, shard: Shard) {
        self.state.lock().tenures.free(shard);
    }
}
