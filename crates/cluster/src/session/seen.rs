//! What follows from the last look at the tables.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Ended, Generation, Lsn, Peers, SessionId, Shard, Statement, Tenancy, Tenures, View,
    limits::CLAIM_FOR_OTHERS_AFTER, share,
};

/// What the database had confirmed at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// The lane was durable up to this position.
    pub(super) durable: Lsn,
    /// The run of this number was listed.
    pub(super) listed: u64,
}

/// What others do, as last seen, and what is to be said about it. Each is said once: the next look tells what is still to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    peers: Peers,
    /// Since when shards have been without an owner, in which generation.
    orphans: BTreeMap<Shard, (Generation, Duration)>,
    /// What the session owns is to be confirmed by a write.
    is_hold_due: bool,
    silent: Vec<(SessionId, u64)>,
    claimable: Vec<Tenancy>,
}

impl Seen {
    /// A poll failed: whatever follows from observation over time begins anew.
    pub(super) fn begin_anew(&mut self) {
        let is_hold_due = self.is_hold_due;
        *self = Self {
            is_hold_due,
            ..Self::default()
        };
    }

    /// What the session owns is to be confirmed.
    pub(super) fn hold(&mut self) {
        self.is_hold_due = true;
    }

    /// It is confirmed.
    pub(super) fn held(&mut self) {
        self.is_hold_due = false;
    }

    /// Whether the session does not know for sure what it owns.
    pub(super) fn is_hold_due(&self) -> bool {
        self.is_hold_due
    }

    /// Takes a view that was answered at this time, and what was known when it was asked for.
    ///
    /// # Errors
    /// The view shows that the session is fenced, or that commits are lost.
    pub(super) fn take(
        &mut self,
        me: SessionId,
        known: Known,
        tenures: &Tenures,
        view: &View,
        now: Duration,
    ) -> Result<(), Ended> {
        let own = view.peers.get(&me).ok_or(Ended::Fenced)?;
        if own.lsn < known.durable || own.listed < known.listed {
            return Err(Ended::LostCommits);
        }
        if own.is_fenced {
            return Err(Ended::Fenced);
        }
        tenures.check(me, view)?;
        self.peers.observe(view, now);
        self.silent = self.peers.silent(me, now).collect();
        // The answer of a claim was lost, or another session gave it.
        self.is_hold_due |= view
            .shards
            .iter()
            .any(|(shard, owner)| owner.session == Some(me) && tenures.get(*shard).is_none());
        self.observe_orphans(view, now);
        self.claimable = self.claimable(me, view, now);
        Ok(())
    }

    fn observe_orphans(&mut self, view: &View, now: Duration) {
        let before = std::mem::take(&mut self.orphans);
        let orphans = view
            .shards
            .iter()
            .filter(|(_, owner)| view.is_orphan(**owner));
        for (&shard, owner) in orphans {
            let known = before.get(&shard).copied();
            let known = known.filter(|(generation, _)| *generation == owner.generation);
            let orphan = known.unwrap_or((owner.generation, now));
            self.orphans.insert(shard, orphan);
        }
    }

    /// Its share of the orphans at once, and those of others that did not take theirs.
    fn claimable(&self, me: SessionId, view: &View, now: Duration) -> Vec<Tenancy> {
        let orphans = self.orphans.iter().filter(|(shard, (_, since))| {
            share::of(**shard, view.live()) == Some(me) || now >= *since + CLAIM_FOR_OTHERS_AFTER
        });
        orphans
            .map(|(&shard, &(generation, _))| Tenancy { shard, generation })
            .collect()
    }

    /// The next thing to say.
    pub(super) fn statement(&mut self) -> Option<Statement> {
        if self.is_hold_due {
            return Some(Statement::Hold);
        }
        if let Some((session, renewals)) = self.silent.pop() {
            return Some(Statement::Fence { session, renewals });
        }
        if !self.claimable.is_empty() {
            return Some(Statement::Claim(std::mem::take(&mut self.claimable)));
        }
        None
    }
}
