//! Which other sessions are silent.

use std::{collections::BTreeMap, time::Duration};

use crate::{SessionId, View, limits::FENCE_AFTER};

/// What a session has seen of the renewals of others, by its own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peers(BTreeMap<SessionId, Observation>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Observation {
    renewals: u64,
    /// When they were first seen at this number. The answer's arrival counts: the renewal was committed before.
    since: Duration,
}

impl Peers {
    /// Takes what a poll that was answered at this time says. Sessions that are fenced or gone are no longer observed.
    pub fn observe(&mut self, view: &View, now: Duration) {
        let before = std::mem::take(&mut self.0);
        for (&session, peer) in view.peers.iter().filter(|(_, peer)| !peer.is_fenced) {
            let renewals = peer.renewals;
            let known = before.get(&session).copied();
            let unchanged = known.filter(|known| known.renewals == renewals);
            let observation = unchanged.unwrap_or(Observation {
                renewals,
                since: now,
            });
            self.0.insert(session, observation);
        }
    }

    /// Begins all observations anew: a poll failed, or its connection was replaced. The others may have had the same trouble, and
    /// renewals that a failover lost are not missing.
    pub fn begin_anew(&mut self) {
        self.0.clear();
    }

    /// The sessions, other than `me`, that have been silent for too long, with their renewals.
    pub fn silent(&self, me: SessionId, now: Duration) -> impl Iterator<Item = (SessionId, u64)> {
        let others = self.0.iter().filter(move |(session, _)| **session != me);
        others
            .filter(move |(_, seen)| now >= seen.since + FENCE_AFTER)
            .map(|(session, seen)| (*session, seen.renewals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Peer,
        samples::{ME, NEW, OTHER},
    };

    fn view(renewals: u64, is_fenced: bool) -> View {
        let other = Peer {
            renewals,
            is_fenced,
            ..NEW
        };
        let peers = [(ME, NEW), (OTHER, other)];
        View {
            peers: peers.into(),
            ..View::default()
        }
    }

    fn silent(peers: &Peers, seconds: u64) -> Vec<(SessionId, u64)> {
        peers.silent(ME, Duration::from_secs(seconds)).collect()
    }

    #[test]
    fn silence_begins_when_the_last_renewal_was_first_seen() {
        let mut peers = Peers::default();
        peers.observe(&view(4, false), Duration::from_secs(1));
        peers.observe(&view(5, false), Duration::from_secs(2));
        peers.observe(&view(5, false), Duration::from_secs(8));
        assert_eq!(silent(&peers, 8), []);
        assert_eq!(silent(&peers, 9), [(OTHER, 5)]);
    }

    #[test]
    fn a_failed_poll_begins_the_observation_anew() {
        let mut peers = Peers::default();
        peers.observe(&view(5, false), Duration::from_secs(1));
        peers.begin_anew();
        peers.observe(&view(5, false), Duration::from_secs(7));
        assert_eq!(silent(&peers, 13), []);
        assert_eq!(silent(&peers, 14), [(OTHER, 5)]);
    }

    #[test]
    fn renewals_that_went_down_are_a_change() {
        let mut peers = Peers::default();
        peers.observe(&view(5, false), Duration::from_secs(1));
        peers.observe(&view(4, false), Duration::from_secs(7));
        assert_eq!(silent(&peers, 13), []);
    }

    #[test]
    fn a_fenced_session_is_not_fenced_again() {
        let mut peers = Peers::default();
        peers.observe(&view(5, false), Duration::from_secs(1));
        peers.observe(&view(5, true), Duration::from_secs(2));
        assert_eq!(silent(&peers, 60), []);
    }
}
