//! The index of a node's alarms: which object's alarm is due when.
//!
//! - A commit that touches an alarm changes the index right after it was appended, while its object is still locked: the
//!   changes of one object come in the order of the log.
//! - Whoever takes a due alarm has it alone until it says [`AlarmIndex::finished`]; changes meanwhile are noted, and
//!   decide when it is due again.
//! - What has changed since the last run is kept apart, so that a checkpoint writes that and no more; if the run cannot
//!   be published it is kept for the next one.

use super::{AlarmChange, AlarmEntry};
use crate::broken::{Variant, broken};
use crate::ident::{Lsn, ObjectKey};
use crate::sync::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::{PoisonError, RwLock};

/// An alarm that was taken because it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueAlarm {
    /// Whose it is.
    pub key: ObjectKey,
    /// What was known of it.
    pub entry: AlarmEntry,
}

/// How many alarms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlarmCounts {
    /// Those that will go off, or are going off now.
    pub pending: u64,
    /// Those that were given up.
    pub failed: u64,
    /// Those of the pending ones that were taken and are not finished.
    pub in_flight: u64,
}

/// Which alarms to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmState {
    /// Those that will go off, or are going off now.
    Pending,
    /// Those that were given up.
    Failed,
}

/// A place in a list of alarms, which is in the order of their times.
pub type AlarmCursor = (i64, ObjectKey);

type Listener = Box<dyn Fn() + Send + Sync>;
type PartOf = Box<dyn Fn(&ObjectKey) -> Option<usize> + Send + Sync>;

/// The alarms of all objects of a store, opened or not.
#[derive(Default)]
pub struct AlarmIndex {
    state: Mutex<State>,
    listener: RwLock<Option<Listener>>,
}

impl std::fmt::Debug for AlarmIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlarmIndex")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    entries: FxHashMap<ObjectKey, AlarmEntry>,
    failed: usize,
    in_flight: FxHashSet<ObjectKey>,
    /// The pending alarms that nobody has taken, by time; none before [`AlarmIndex::divide`].
    queues: Vec<BTreeSet<(i64, ObjectKey)>>,
    part_of: Option<PartOf>,
    /// What the next run must say.
    changed: FxHashSet<ObjectKey>,
    /// The position behind the newest change.
    newest: Lsn,
}

impl AlarmIndex {
    /// Says into how many queues due alarms are sorted, and into which an object's belongs. Alarms of objects for which
    /// there is none stay pending. Before this is called no alarm can be taken. What somebody took before and did not
    /// finish can be taken again: there is one taker at a time.
    pub fn divide(
        &self,
        parts: usize,
        part_of: impl Fn(&ObjectKey) -> Option<usize> + Send + Sync + 'static,
    ) {
        let mut state = self.state.lock();
        state.in_flight.clear();
        let mut queues = vec![Vec::new(); parts];
        let waiting = state.entries.iter().filter(|(_, entry)| !entry.failed);
        for (key, entry) in waiting {
            if let Some(part) = part_of(key) {
                queues[part].push((entry.due, *key));
            }
        }
        // A tree that is made of a sorted list at once is made many times faster.
        state.queues = queues
            .into_iter()
            .map(|mut queue| {
                queue.sort_unstable();
                queue.into_iter().collect()
            })
            .collect();
        state.part_of = Some(Box::new(part_of));
    }

    /// Tells `listener`, from the thread that commits, that something is due earlier than all else in its part. It must
    /// be quick and must not call the store. It takes the place of the listener before it.
    pub fn subscribe(&self, listener: impl Fn() + Send + Sync + 'static) {
        *self
            .listener
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(Box::new(listener));
    }

    /// When the earliest alarm of a part is due that nobody has taken.
    pub fn next_due(&self, part: usize) -> Option<i64> {
        let state = self.state.lock();
        state.queues.get(part)?.first().map(|(due, _)| *due)
    }

    /// Takes the earliest alarm of a part if it is due.
    pub fn take_due(&self, part: usize, now: i64) -> Option<DueAlarm> {
        let mut state = self.state.lock();
        let queue = state.queues.get_mut(part)?;
        if queue.first()?.0 > now {
            return None;
        }
        let (_, key) = queue.pop_first()?;
        state.in_flight.insert(key);
        let entry = *state.entries.get(&key)?;
        Some(DueAlarm { key, entry })
    }

    /// Gives back what [`Self::take_due`] gave: from now on its entry says again when it is due.
    pub fn finished(&self, key: ObjectKey) {
        let earlier = {
            let mut state = self.state.lock();
            state.in_flight.remove(&key);
            match state.entries.get(&key) {
                Some(&entry) if !broken(Variant::AlarmNotPutBack) => state.enqueue(key, entry),
                _ => false,
            }
        };
        self.tell(earlier);
    }

    /// What is known of an object's alarm.
    pub fn get(&self, key: ObjectKey) -> Option<AlarmEntry> {
        self.state.lock().entries.get(&key).copied()
    }

    /// How many there are.
    pub fn counts(&self) -> AlarmCounts {
        let state = self.state.lock();
        AlarmCounts {
            pending: (state.entries.len() - state.failed) as u64,
            failed: state.failed as u64,
            in_flight: state.in_flight.len() as u64,
        }
    }

    /// Alarms by time, behind a place in the list. Looks at every alarm: not for hot paths.
    pub fn list(
        &self,
        state: AlarmState,
        after: Option<AlarmCursor>,
        limit: usize,
    ) -> Vec<(ObjectKey, AlarmEntry)> {
        let known = self.state.lock();
        let wanted = known
            .entries
            .iter()
            .filter(|(_, entry)| entry.failed == (state == AlarmState::Failed))
            .map(|(key, entry)| (entry.due, *key))
            .filter(|place| after.is_none_or(|after| *place > after));
        // The largest of the smallest `limit` is on top.
        let mut first = BinaryHeap::new();
        for place in wanted {
            if first.len() < limit {
                first.push(place);
            } else if first.peek().is_some_and(|last| place < *last) {
                first.pop();
                first.push(place);
            }
        }
        first
            .into_sorted_vec()
            .into_iter()
            .filter_map(|(_, key)| Some((key, *known.entries.get(&key)?)))
            .collect()
    }

    /// A commit, or its replay, has changed an object's alarm. `end` is the position behind it.
    pub(crate) fn apply(&self, key: ObjectKey, change: AlarmChange, end: Lsn) {
        let earlier = {
            let mut state = self.state.lock();
            state.changed.insert(key);
            state.newest = state.newest.max(end);
            match change {
                AlarmChange::Set(entry) => state.set(key, entry),
                AlarmChange::Cleared => {
                    state.clear(key);
                    false
                }
            }
        };
        self.tell(earlier);
    }

    /// An entry of a run, when a store is opened. Later runs come later.
    pub(crate) fn load(&self, key: ObjectKey, change: AlarmChange) {
        let mut state = self.state.lock();
        match change {
            AlarmChange::Set(entry) => drop(state.set(key, entry)),
            AlarmChange::Cleared => state.clear(key),
        }
    }

    fn tell(&self, earlier: bool) {
        if earlier {
            let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(listener) = &*listener {
                listener();
            }
        }
    }

    /// Takes what the next run is to say; see [`Unsaved`].
    pub(crate) fn unsaved(&self) -> Unsaved<'_> {
        let mut state = self.state.lock();
        Unsaved {
            index: self,
            keys: std::mem::take(&mut state.changed),
            newest: state.newest,
        }
    }
}

/// What has changed since the last run. If it is dropped before [`Self::saved`], it is unsaved again.
pub(crate) struct Unsaved<'a> {
    index: &'a AlarmIndex,
    keys: FxHashSet<ObjectKey>,
    /// What was taken reaches up to this position: the log must be durable so far before it is saved.
    pub(crate) newest: Lsn,
}

impl Unsaved<'_> {
    /// The number of changes.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The changes, by key, and the position up to which they reach.
    pub(crate) fn changes(&mut self) -> Vec<(ObjectKey, AlarmChange)> {
        let state = self.index.state.lock();
        self.newest = state.newest;
        let change = |key: &ObjectKey| match state.entries.get(key) {
            Some(entry) => (*key, AlarmChange::Set(*entry)),
            None => (*key, AlarmChange::Cleared),
        };
        sorted(self.keys.iter().map(change).collect(), state)
    }

    /// The whole index, by key, and the position up to which it reaches.
    pub(crate) fn everything(&mut self) -> Vec<(ObjectKey, AlarmChange)> {
        let state = self.index.state.lock();
        self.newest = state.newest;
        let set = |(key, entry): (&ObjectKey, &AlarmEntry)| (*key, AlarmChange::Set(*entry));
        sorted(state.entries.iter().map(set).collect(), state)
    }

    /// It is in a run that the manifest names.
    pub(crate) fn saved(mut self) {
        self.keys.clear();
    }
}

/// Sorts a copy of the index after letting go of it.
fn sorted(
    mut list: Vec<(ObjectKey, AlarmChange)>,
    state: std::sync::MutexGuard<'_, State>,
) -> Vec<(ObjectKey, AlarmChange)> {
    drop(state);
    list.sort_unstable_by_key(|(key, _)| *key);
    list
}

impl Drop for Unsaved<'_> {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            self.index.state.lock().changed.extend(self.keys.drain());
        }
    }
}

impl State {
    /// True if it is now the earliest of its part.
    fn set(&mut self, key: ObjectKey, entry: AlarmEntry) -> bool {
        let old = self.entries.insert(key, entry);
        self.left(key, old);
        self.failed += usize::from(entry.failed);
        self.enqueue(key, entry)
    }

    fn clear(&mut self, key: ObjectKey) {
        let old = self.entries.remove(&key);
        self.left(key, old);
    }

    /// An entry is no more what it was.
    fn left(&mut self, key: ObjectKey, old: Option<AlarmEntry>) {
        let Some(old) = old else { return };
        self.failed -= usize::from(old.failed);
        if let Some(queue) = self.queue(&key) {
            queue.remove(&(old.due, key));
        }
    }

    /// Puts an alarm where it is found when it is due. True if it is now the earliest of its part.
    fn enqueue(&mut self, key: ObjectKey, entry: AlarmEntry) -> bool {
        if entry.failed || self.in_flight.contains(&key) {
            return false;
        }
        let Some(queue) = self.queue(&key) else {
            return false;
        };
        let earliest = queue.first().is_none_or(|first| entry.due < first.0);
        queue.insert((entry.due, key));
        earliest
    }

    fn queue(&mut self, key: &ObjectKey) -> Option<&mut BTreeSet<(i64, ObjectKey)>> {
        let part = self.part_of.as_ref()?(key)?;
        self.queues.get_mut(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::NamespaceNo;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn key(id: u8) -> ObjectKey {
        ObjectKey {
            namespace: NamespaceNo(1),
            id: [id; 32],
        }
    }

    fn at(due: i64) -> AlarmChange {
        AlarmChange::Set(AlarmEntry {
            due,
            attempts: 0,
            failed: false,
        })
    }

    fn index() -> AlarmIndex {
        let index = AlarmIndex::default();
        index.divide(2, |key| {
            (key.id[0] < 100).then(|| usize::from(key.id[0] % 2))
        });
        index
    }

    fn taken(index: &AlarmIndex, part: usize, now: i64) -> Option<ObjectKey> {
        index.take_due(part, now).map(|due| due.key)
    }

    #[test]
    fn due_alarms_are_taken_earliest_first_and_by_part() {
        let index = index();
        for (id, due) in [(2, 30), (4, 10), (6, 20), (1, 5), (200, 1)] {
            index.apply(key(id), at(due), Lsn(1));
        }
        assert_eq!(index.next_due(0), Some(10));
        assert_eq!(taken(&index, 0, 25), Some(key(4)));
        assert_eq!(taken(&index, 0, 25), Some(key(6)));
        assert_eq!(taken(&index, 0, 25), None);
        assert_eq!(taken(&index, 1, 25), Some(key(1)));
        let counts = index.counts();
        assert_eq!((counts.pending, counts.in_flight), (5, 3));
    }

    #[test]
    fn an_alarm_that_was_taken_is_not_given_again_before_it_is_finished() {
        let index = index();
        index.apply(key(2), at(10), Lsn(1));
        assert_eq!(taken(&index, 0, 10), Some(key(2)));
        index.apply(key(2), at(5), Lsn(2));
        assert_eq!(taken(&index, 0, 10), None);
        index.finished(key(2));
        assert_eq!(taken(&index, 0, 10), Some(key(2)));
        index.apply(key(2), AlarmChange::Cleared, Lsn(3));
        index.finished(key(2));
        assert_eq!(taken(&index, 0, 10), None);
        assert_eq!(index.counts(), AlarmCounts::default());
    }

    #[test]
    fn a_listener_hears_of_what_is_earlier_than_all_else() {
        let index = index();
        let heard = Arc::new(AtomicUsize::new(0));
        let ears = heard.clone();
        index.subscribe(move || {
            ears.fetch_add(1, Ordering::Relaxed);
        });
        let told = |change| {
            index.apply(key(2), change, Lsn(1));
            heard.swap(0, Ordering::Relaxed)
        };
        assert_eq!(told(at(10)), 1);
        assert_eq!(told(at(8)), 1);
        assert_eq!(told(AlarmChange::Cleared), 0);
        index.apply(key(4), at(3), Lsn(1));
        assert_eq!(heard.swap(0, Ordering::Relaxed), 1);
        index.apply(key(6), at(4), Lsn(1));
        assert_eq!(heard.swap(0, Ordering::Relaxed), 0);
    }

    #[test]
    fn a_list_goes_on_where_it_ended_and_tells_failed_from_pending() {
        let index = index();
        for id in 0_u8..10 {
            let failed = id % 3 == 0;
            let entry = AlarmEntry {
                due: i64::from(20 - id / 2),
                attempts: 7,
                failed,
            };
            index.apply(key(id), AlarmChange::Set(entry), Lsn(1));
        }
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = index.list(AlarmState::Pending, after, 2);
            let Some((key, entry)) = page.last() else {
                break;
            };
            after = Some((entry.due, *key));
            listed.extend(page.iter().map(|(key, _)| key.id[0]));
        }
        assert_eq!(listed, [8, 7, 4, 5, 2, 1]);
        let failed = index.list(AlarmState::Failed, None, 100);
        assert_eq!(failed.len(), 4);
        assert_eq!(index.counts().failed, 4);
    }

    #[test]
    fn changes_that_could_not_be_saved_are_saved_the_next_time() {
        let index = index();
        index.apply(key(2), at(10), Lsn(1));
        let mut first = index.unsaved();
        assert_eq!(first.changes(), [(key(2), at(10))]);
        index.apply(key(4), at(20), Lsn(2));
        drop(first);
        let mut second = index.unsaved();
        assert_eq!(second.changes(), [(key(2), at(10)), (key(4), at(20))]);
        assert_eq!(second.newest, Lsn(2));
        second.saved();
        assert_eq!(index.unsaved().len(), 0);
    }
}
