//! One shard of the alarm index, with its own lock: the alarms of one class on one worker.

use crate::alarm_entry::{AlarmChange, AlarmEntry, Isolation};
use crate::ident::{Lsn, NamespaceNo, ObjectKey};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Which alarms to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmState {
    /// Pending: will fire, or is firing now.
    Pending,
    /// Pending, and the last attempt failed or ended with its process.
    Failing,
    /// Given up after the last attempt.
    Failed,
}

/// See the module.
#[derive(Default)]
pub(super) struct Shard {
    pub(super) entries: FxHashMap<ObjectKey, AlarmEntry>,
    /// Objects without a pending alarm.
    pub(super) failed: usize,
    /// Objects with an alarm that was given up.
    pub(super) given_up: usize,
    /// The number of failing alarms of each namespace. Namespaces without any are omitted.
    pub(super) failing: BTreeMap<NamespaceNo, u64>,
    pub(super) in_flight: FxHashSet<ObjectKey>,
    /// How often an alarm was taken or put back.
    pub(super) moves: u64,
    /// The sum of the wall clock's steps back by which the queues are sorted.
    set_back: i64,
    /// Changed since the last run.
    pub(super) changed: FxHashSet<ObjectKey>,
    /// The position after the newest change.
    pub(super) newest: Lsn,
    /// Pending alarms that are not taken, by time, one queue for each isolation. `None` until the shard has a taker.
    queues: Option<[BTreeSet<(i64, ObjectKey)>; 3]>,
    /// Suspects: alarms whose attempt an earlier process began and never ended, with their isolation.
    suspects: FxHashMap<ObjectKey, Isolation>,
}

/// The effect of a change on what a scheduler waits for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// The change is due earlier than everything else with the same isolation.
    pub(super) earlier: Option<Isolation>,
    /// This many suspects were cleared.
    pub(super) cleared: usize,
}

/// The isolation that an alarm needs if an earlier process began an attempt and did not record its end; otherwise `None`.
fn suspicion(entry: &AlarmEntry) -> Option<Isolation> {
    match entry.begun? {
        _ if entry.failed => None,
        Isolation::Free => Some(Isolation::Few),
        Isolation::Few | Isolation::Alone => Some(Isolation::Alone),
    }
}

impl Shard {
    /// Builds the queues. Alarms taken earlier can be taken again; attempts that had begun become suspects.
    pub(super) fn open_queues(&mut self, set_back: i64) {
        self.in_flight.clear();
        self.suspects = FxHashMap::default();
        #[allow(clippy::iter_over_hash_type, reason = "each becomes a suspect or not")]
        for (key, entry) in &mut self.entries {
            entry.cut_off = entry.begun.is_some();
            if let Some(isolation) = suspicion(entry) {
                self.suspects.insert(*key, isolation);
            }
        }
        self.sort_queues(set_back);
    }

    fn sort_queues(&mut self, set_back: i64) {
        self.set_back = set_back;
        let mut queues = [const { Vec::new() }; 3];
        #[allow(clippy::iter_over_hash_type, reason = "the queues are sorted")]
        for (key, entry) in &self.entries {
            if !entry.failed && !self.in_flight.contains(key) {
                let isolation = self.isolation(key);
                queues[isolation as usize].push((entry.due_at(set_back), *key));
            }
        }
        // Building a tree from a sorted list is many times faster than inserting.
        self.queues = Some(queues.map(|mut queue| {
            queue.sort_unstable();
            queue.into_iter().collect()
        }));
    }

    pub(super) fn suspects(&self) -> usize {
        self.suspects.len()
    }

    pub(super) fn next_due(&self, isolation: Isolation) -> Option<i64> {
        let queue = &self.queues.as_ref()?[isolation as usize];
        queue.first().map(|(due, _)| *due)
    }

    /// Takes the earliest alarm of a queue if it is due.
    pub(super) fn take(
        &mut self,
        isolation: Isolation,
        now: i64,
    ) -> Option<(ObjectKey, AlarmEntry)> {
        let queue = &mut self.queues.as_mut()?[isolation as usize];
        if queue.first()?.0 > now {
            return None;
        }
        let (_, key) = queue.pop_first()?;
        self.in_flight.insert(key);
        self.moves += 1;
        Some((key, *self.entries.get(&key)?))
    }

    /// Puts a taken alarm back, at the time of its entry. Returns the queue in which it is now the earliest, if any.
    pub(super) fn give_back(&mut self, key: ObjectKey) -> Option<Isolation> {
        self.in_flight.remove(&key);
        self.moves += 1;
        match self.entries.get(&key) {
            Some(&entry) => self.enqueue(key, entry),
            None => None,
        }
    }

    pub(super) fn change(&mut self, key: ObjectKey, change: AlarmChange) -> Effect {
        let old = match change {
            AlarmChange::Set(entry) => self.entries.insert(key, entry),
            AlarmChange::Cleared => self.entries.remove(&key),
        };
        if let Some(old) = old {
            self.uncount(key, &old);
        }
        let AlarmChange::Set(entry) = change else {
            let cleared = usize::from(self.suspects.remove(&key).is_some());
            return Effect {
                earlier: None,
                cleared,
            };
        };
        // The earlier attempt still counts if the alarm was moved, or if another alarm of the object fired.
        let cleared = usize::from(!entry.cut_off && self.suspects.remove(&key).is_some());
        self.given_up += usize::from(entry.failed || entry.some_failed);
        self.failed += usize::from(entry.failed);
        if entry.failing {
            *self.failing.entry(key.namespace).or_default() += 1;
        }
        Effect {
            earlier: self.enqueue(key, entry),
            cleared,
        }
    }

    /// Adds the alarm of an object that another process owned; the index must not have it. Returns the effect, and how many suspects
    /// were added (0 or 1).
    pub(super) fn adopt(&mut self, key: ObjectKey, mut entry: AlarmEntry) -> (Effect, usize) {
        entry.cut_off = entry.begun.is_some();
        // Without queues there are no suspects yet: `open_queues` finds this one.
        let suspicion = suspicion(&entry).filter(|_| self.queues.is_some());
        if let Some(isolation) = suspicion {
            self.suspects.insert(key, isolation);
        }
        (
            self.change(key, AlarmChange::Set(entry)),
            usize::from(suspicion.is_some()),
        )
    }

    /// An entry was replaced or removed.
    fn uncount(&mut self, key: ObjectKey, old: &AlarmEntry) {
        self.given_up -= usize::from(old.failed || old.some_failed);
        self.failed -= usize::from(old.failed);
        if old.failing
            && let Some(count) = self.failing.get_mut(&key.namespace)
        {
            *count -= 1;
            if *count == 0 {
                self.failing.remove(&key.namespace);
            }
        }
        let isolation = self.isolation(&key);
        if let Some(queues) = &mut self.queues {
            queues[isolation as usize].remove(&(old.due_at(self.set_back), key));
        }
    }

    fn isolation(&self, key: &ObjectKey) -> Isolation {
        self.suspects.get(key).copied().unwrap_or_default()
    }

    /// Queues an alarm by its time. Returns the queue in which it is now the earliest, if any.
    fn enqueue(&mut self, key: ObjectKey, entry: AlarmEntry) -> Option<Isolation> {
        if entry.failed || self.in_flight.contains(&key) {
            return None;
        }
        let isolation = self.isolation(&key);
        let due = entry.due_at(self.set_back);
        let queues = self.queues.as_mut()?;
        let queue = &mut queues[isolation as usize];
        let earliest = queue.first().is_none_or(|first| due < first.0);
        queue.insert((due, key));
        earliest.then_some(isolation)
    }

    pub(super) fn is_in(&self, state: AlarmState, key: &ObjectKey, entry: &AlarmEntry) -> bool {
        match state {
            AlarmState::Pending => !entry.failed,
            AlarmState::Failed => entry.failed || entry.some_failed,
            AlarmState::Failing => {
                !entry.failed && (entry.failing || self.suspects.contains_key(key))
            }
        }
    }

    /// Sorts the queues by another sum of the wall clock's steps back.
    pub(super) fn clock_set_back(&mut self, set_back: i64) {
        if self.queues.is_some() {
            self.sort_queues(set_back);
        }
    }

    /// The current entry of this key as a change of a run.
    pub(super) fn change_of(&self, key: &ObjectKey) -> AlarmChange {
        match self.entries.get(key) {
            Some(entry) => AlarmChange::Set(*entry),
            None => AlarmChange::Cleared,
        }
    }
}
