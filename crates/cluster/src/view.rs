//! The tables at one moment.

use std::collections::BTreeMap;

use crate::{Generation, Lsn, SessionId, Shard};

/// What a poll has read. It may show commits that a failover of the database then loses, so nothing but observation follows from
/// it without a write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// The sessions that are not forgotten.
    pub peers: BTreeMap<SessionId, Peer>,
    /// All shards.
    pub shards: BTreeMap<Shard, Owner>,
    /// Where clients reach the sessions that have announced it. Nothing is decided by it.
    pub addresses: BTreeMap<SessionId, String>,
}

/// A row of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// How often it has renewed its lease.
    pub renewals: u64,
    /// Where its lane is.
    pub lsn: Lsn,
    /// The number of the last run that it has listed.
    pub listed: u64,
    /// Whether it is fenced.
    pub is_fenced: bool,
}

/// A row of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The owner. A shard that was never claimed has none.
    pub session: Option<SessionId>,
    /// The newest generation.
    pub generation: Generation,
    /// Where the owner's lane was when the generation began.
    pub since: Lsn,
}

impl View {
    /// Where clients reach the owner of a shard, if it is live and has announced it.
    pub fn address(&self, shard: Shard) -> Option<&str> {
        let owner = self.shards.get(&shard)?;
        let address = self.addresses.get(&owner.session?)?;
        (!self.is_orphan(*owner)).then_some(address)
    }

    /// The sessions that are not fenced.
    pub fn live(&self) -> impl Iterator<Item = SessionId> {
        let live = self.peers.iter().filter(|(_, peer)| !peer.is_fenced);
        live.map(|(session, _)| *session)
    }

    /// Whether a shard may be claimed: it has no owner, or one that is fenced or gone.
    pub fn is_orphan(&self, owner: Owner) -> bool {
        let peer = owner.session.and_then(|session| self.peers.get(&session));
        peer.is_none_or(|peer| peer.is_fenced)
    }
}
