//! The shards that a session owns.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Ended, Generation, Grant, Lsn, Owner, Part, SessionId, Shard, Tenancy, View};

/// All tenures of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenures {
    own: BTreeMap<Shard, Tenure>,
    /// The last generation of each shard that the session gave away. It never has this generation again.
    given: BTreeMap<Shard, Generation>,
}

/// A shard and a generation that a session owns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenure {
    /// The generation.
    pub generation: Generation,
    /// The position in the session's lane at or after which its own records of the shard are.
    pub since: Lsn,
    /// See [`Grant::floor`].
    pub floor: u64,
    /// What it has inherited and has not archived.
    pub parts: Vec<Part>,
    /// Whether its objects' events run.
    pub state: State,
}

impl Tenure {
    fn check(&self, me: SessionId, row: &Owner) -> Result<(), Ended> {
        let is_own = row.session == Some(me);
        let is_same = row.generation == self.generation && row.since == self.since;
        let is_newer = row.generation > self.generation;
        let is_closed = matches!(self.state, State::Closed { .. });
        if (is_own && is_same) || (is_closed && is_newer) {
            Ok(())
        } else if is_newer {
            Err(Ended::Fenced)
        } else {
            Err(Ended::LostCommits)
        }
    }
}

/// The state of a tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// What earlier owners have left is being read. No event runs.
    Adopting,
    /// Events run.
    Serving,
    /// The shard is closed and is given away. No event runs, and no record is appended.
    Closed {
        /// Where the shard was closed.
        until: Lsn,
        /// The next owner. The session itself, if the other did not take it.
        to: SessionId,
    },
}

impl Tenures {
    /// The tenure of a shard.
    pub fn get(&self, shard: Shard) -> Option<&Tenure> {
        self.own.get(&shard)
    }

    /// All of them, by shard.
    pub fn iter(&self) -> impl Iterator<Item = (Shard, &Tenure)> {
        self.own.iter().map(|(shard, tenure)| (*shard, tenure))
    }

    /// Whether a record of this shard and generation may be given a position now.
    pub fn admits(&self, tenancy: Tenancy) -> bool {
        let tenure = self.own.get(&tenancy.shard);
        tenure.is_some_and(|tenure| {
            tenure.generation == tenancy.generation && tenure.state == State::Serving
        })
    }

    /// Takes confirmed grants. With each, a new tenure begins, or one that is known has these parts left.
    ///
    /// # Errors
    /// The session has given such a tenure away, or has had a newer one, or this one from another position on.
    pub(crate) fn take(&mut self, grants: Vec<Grant>) -> Result<(), Ended> {
        grants
            .into_iter()
            .try_for_each(|grant| self.take_one(grant))
    }

    fn take_one(&mut self, grant: Grant) -> Result<(), Ended> {
        let Tenancy { shard, generation } = grant.tenancy;
        let given = self.given.get(&shard).copied();
        let known = self.own.get_mut(&shard);
        let newest = known.as_ref().map(|tenure| tenure.generation).max(given);
        match known {
            _ if newest > Some(generation) || given == Some(generation) => {
                return Err(Ended::LostCommits);
            }
            Some(tenure) if tenure.generation == generation && tenure.since != grant.since => {
                return Err(Ended::LostCommits);
            }
            Some(tenure) if tenure.generation == generation => tenure.parts = grant.parts,
            _ => self.begin(grant),
        }
        Ok(())
    }

    fn begin(&mut self, grant: Grant) {
        let tenure = Tenure {
            generation: grant.tenancy.generation,
            since: grant.since,
            floor: grant.floor,
            parts: grant.parts,
            state: State::Adopting,
        };
        self.own.insert(grant.tenancy.shard, tenure);
    }

    /// Another session has the shard.
    pub(crate) fn give(&mut self, shard: Shard) {
        if let Some(tenure) = self.own.remove(&shard) {
            self.given.insert(shard, tenure.generation);
        }
    }

    /// Takes all that the session owns. What is missing was given away, or taken.
    ///
    /// # Errors
    /// See [`Tenures::take`]; a shard that is served is missing.
    pub(crate) fn take_all(&mut self, grants: Vec<Grant>) -> Result<(), Ended> {
        let owned: BTreeSet<Shard> = grants.iter().map(|grant| grant.tenancy.shard).collect();
        let missing = self.own.iter().filter(|(shard, _)| !owned.contains(shard));
        let missing: Vec<_> = missing.map(|(shard, own)| (*shard, own.state)).collect();
        for (shard, state) in missing {
            if !matches!(state, State::Closed { .. }) {
                return Err(Ended::LostCommits);
            }
            self.give(shard);
        }
        self.take(grants)
    }

    /// Compares what is owned, and what was given away, with the row of each shard.
    ///
    /// # Errors
    /// A shard was taken from the session, or the database has lost commits.
    pub(crate) fn check(&self, me: SessionId, view: &View) -> Result<(), Ended> {
        let row = |shard| view.shards.get(shard).ok_or(Ended::LostCommits);
        for (shard, tenure) in &self.own {
            tenure.check(me, row(shard)?)?;
        }
        for (shard, given) in &self.given {
            if row(shard)?.generation <= *given {
                return Err(Ended::LostCommits);
            }
        }
        Ok(())
    }

    /// Changes the state of a tenure, and returns false if there is no such tenure in the state that must be left.
    pub(crate) fn change(&mut self, tenancy: Tenancy, from: State, to: State) -> bool {
        let tenure = self.own.get_mut(&tenancy.shard);
        let tenure = tenure.filter(|own| own.generation == tenancy.generation && own.state == from);
        tenure.map(|tenure| tenure.state = to).is_some()
    }

    /// The parts of a shard are archived.
    pub(crate) fn archived(&mut self, shard: Shard, part: &Part) {
        if let Some(tenure) = self.own.get_mut(&shard) {
            tenure.parts.retain(|own| own != part);
        }
    }

    /// A closed shard whose records are durable up to a position.
    pub(crate) fn leaving(&self, durable: Lsn) -> Option<(Tenancy, SessionId, Lsn)> {
        self.iter().find_map(|(shard, tenure)| {
            let generation = tenure.generation;
            match tenure.state {
                State::Closed { until, to } if until <= durable => {
                    Some((Tenancy { shard, generation }, to, until))
                }
                _ => None,
            }
        })
    }

    /// The tenures that began before a position.
    pub(crate) fn before(&self, until: Lsn) -> Vec<Tenancy> {
        let before = self.iter().filter(|(_, tenure)| tenure.since < until);
        before
            .map(|(shard, tenure)| Tenancy {
                shard,
                generation: tenure.generation,
            })
            .collect()
    }
}
