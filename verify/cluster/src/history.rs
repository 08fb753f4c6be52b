//! What clients have seen, and what it must be.
//!
//! Each shard is a list. Clients add values, all different, and read the list. A list tells its whole past, so a history is linearizable
//! exactly if there is one list of which each read is a beginning, and that respects the order of operations that did not overlap.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use abide_cluster::{SessionId, Shard};

/// The operations of all clients.
#[derive(Clone, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
}

/// An operation of a client.
#[derive(Clone, Debug, Hash)]
pub struct Operation {
    /// The list.
    pub shard: Shard,
    /// What was asked for.
    pub request: Request,
    /// When it was sent.
    pub sent: Duration,
    /// When it was answered, by which session, and with which list. None if it was not.
    pub reply: Option<(Duration, SessionId, Vec<u64>)>,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Adds a value.
    Add(u64),
    /// Reads the list.
    Read,
}

impl History {
    /// A client has sent a request. Returns its number.
    pub fn sent(&mut self, shard: Shard, request: Request, now: Duration) -> usize {
        self.operations.push(Operation {
            shard,
            request,
            sent: now,
            reply: None,
        });
        self.operations.len() - 1
    }

    /// A client has a reply.
    pub fn answered(&mut self, number: usize, by: SessionId, list: Vec<u64>, now: Duration) {
        if let Some(operation) = self.operations.get_mut(number) {
            operation.reply = Some((now, by, list));
        }
    }

    /// How many have a reply.
    pub fn answers(&self) -> usize {
        let answered = self.operations.iter().filter(|op| op.reply.is_some());
        answered.count()
    }

    /// A hash of all operations.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.operations.hash(&mut hasher);
        hasher.finish()
    }

    /// Compares the history of a shard with its list in the end.
    ///
    /// # Errors
    /// What contradicts the promise.
    pub fn check(&self, shard: Shard, list: &[u64]) -> Result<(), String> {
        let mut index = BTreeMap::new();
        for (at, value) in list.iter().enumerate() {
            if index.insert(*value, at).is_some() {
                return Err(format!("{shard:?}: {value} is in the list twice"));
            }
        }
        let own = || self.operations.iter().filter(|op| op.shard == shard);
        // The length that the list had, for all to see, at a time.
        let mut lengths: Vec<(Duration, usize)> = Vec::new();
        for operation in own() {
            let Some((at, by, seen)) = &operation.reply else {
                continue;
            };
            let length = match operation.request {
                Request::Add(value) => {
                    let place = index.get(&value).ok_or_else(|| {
                        format!(
                            "{shard:?}: {value} was acknowledged by {by:?} at {at:?} and is lost"
                        )
                    })?;
                    place + 1
                }
                Request::Read if list.starts_with(seen) => seen.len(),
                Request::Read => {
                    return Err(format!(
                        "{shard:?}: {by:?} answered {seen:?} at {at:?}; the list is {list:?}"
                    ));
                }
            };
            lengths.push((*at, length));
        }
        lengths.sort_unstable();
        let mut most = 0;
        for (_, length) in &mut lengths {
            most = most.max(*length);
            *length = most;
        }
        for operation in own() {
            let before = lengths.partition_point(|(at, _)| *at < operation.sent);
            let least = before.checked_sub(1).map_or(0, |last| lengths[last].1);
            let length = match (operation.request, &operation.reply) {
                (Request::Read, None) => continue,
                (Request::Read, Some((_, _, seen))) => seen.len(),
                (Request::Add(value), _) => match index.get(&value) {
                    Some(place) => *place,
                    None => continue,
                },
            };
            if length < least {
                return Err(format!(
                    "{shard:?}: {operation:?} does not see the {least} values that were there before"
                ));
            }
        }
        Ok(())
    }

    /// The sessions that have acknowledged what is not in the list.
    pub fn losers(&self, shard: Shard, list: &[u64]) -> Vec<SessionId> {
        let own = self.operations.iter().filter(|op| op.shard == shard);
        let losers = own.filter_map(|operation| match (operation.request, &operation.reply) {
            (Request::Add(value), Some((_, by, _))) if !list.contains(&value) => Some(*by),
            _ => None,
        });
        losers.collect()
    }
}
