//! Where the members of a cluster are.

use abide_cluster::{SessionId, Shard, View};
use tokio::sync::watch;

/// What a member has seen last of the others. Does not keep the member.
#[derive(Clone, Debug)]
pub struct Owners {
    me: SessionId,
    views: watch::Receiver<View>,
}

impl Owners {
    pub(crate) fn new(me: SessionId, views: watch::Receiver<View>) -> Self {
        Self { me, views }
    }

    /// Where clients reach the owner of a shard, if that is another member and as far as it is known. A member that was lost may be named
    /// until it is fenced. Fast.
    pub fn address(&self, shard: Shard) -> Option<String> {
        let view = self.views.borrow();
        let is_own = view.shards.get(&shard)?.session == Some(self.me);
        let address = view.address(shard).filter(|_| !is_own);
        address.map(str::to_owned)
    }
}
