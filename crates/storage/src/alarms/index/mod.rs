//! The index of a node's alarms: which object has an alarm due, and when.
//!
//! - The index is divided into shards, one for each class on each worker, each with its own lock. Commits of different
//!   workers do not contend.
//! - A commit that changes an alarm updates the index right after the append, while its object is still locked. The
//!   changes of one object therefore arrive in log order.
//! - Once taken, a due alarm belongs to its taker until [`AlarmIndex::finished`]. Changes in the meantime are recorded
//!   and determine when it is due again.
//! - If an earlier process began an attempt and never ended it, the alarm is a suspect. Only
//!   [`AlarmIndex::take_suspect`] takes it, until this process has begun an attempt of it or its object has set another
//!   alarm.
//! - The index tracks the keys that have changed since the last run, and a checkpoint writes only those. If the run
//!   cannot be published, the next one includes them.
//!
//! Operations on all shards ([`AlarmIndex::counts`], [`AlarmIndex::list`], a checkpoint) lock the shards in turn. Each
//! alarm is seen once, at some moment during the operation.

mod unsaved;

pub(super) use self::unsaved::Unsaved;
use super::shard::{AlarmState, Effect, Shard};
use crate::alarm_entry::{AlarmChange, AlarmEntry, Isolation};
use crate::ident::{Lsn, NamespaceNo, ObjectKey};
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, BinaryHeap};

/// An alarm that was taken because it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueAlarm {
    /// The object it belongs to.
    pub key: ObjectKey,
    /// The entry at the time the alarm was taken.
    pub entry: AlarmEntry,
}

/// The number of objects with alarms, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlarmCounts {
    /// Objects with a pending alarm: it will fire, or is firing now.
    pub pending: u64,
    /// Objects with an alarm that was given up.
    pub failed: u64,
    /// Objects with a pending alarm whose last attempt failed, or ended with its process.
    pub failing: u64,
    /// Objects whose alarm was taken and is not finished.
    pub in_flight: u64,
    /// Objects whose alarm must run in isolation, because an earlier process ended while it ran.
    pub suspects: u64,
}

/// A position in a list of alarms, which is ordered by time.
pub type AlarmCursor = (i64, ObjectKey);

type Listener = Box<dyn Fn(usize, Isolation) + Send + Sync>;
type PartOf = Box<dyn Fn(&ObjectKey) -> Option<usize> + Send + Sync>;

/// The alarms of all objects of a store, opened or not.
#[derive(Default)]
pub struct AlarmIndex {
    /// Written when a node starts; read-only afterwards.
    layout: RwLock<Layout>,
    suspects: AtomicUsize,
    /// The sum of the wall clock's steps back.
    set_back: AtomicI64,
    /// The next run must hold the whole index, because the runs on disk cannot be read.
    whole: AtomicBool,
}

impl std::fmt::Debug for AlarmIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlarmIndex")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

struct Layout {
    /// One for each part, and one more for the objects that belong to no part.
    shards: Box<[Mutex<Shard>]>,
    part_of: Option<PartOf>,
    listener: Option<Listener>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            shards: Box::new([Mutex::default()]),
            part_of: None,
            listener: None,
        }
    }
}

impl Layout {
    fn parts(&self) -> &[Mutex<Shard>] {
        &self.shards[..self.shards.len() - 1]
    }

    fn part(&self, part: usize) -> Option<MutexGuard<'_, Shard>> {
        self.parts().get(part).map(Mutex::lock)
    }

    /// The position of the shard that holds this object's alarm.
    fn place(&self, key: &ObjectKey) -> usize {
        let part = self.part_of.as_ref().and_then(|part_of| part_of(key));
        part.unwrap_or(usize::MAX).min(self.shards.len() - 1)
    }

    fn shard(&self, key: &ObjectKey) -> MutexGuard<'_, Shard> {
        self.shards[self.place(key)].lock()
    }

    fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(Mutex::lock)
    }

    fn notify(&self, part: usize, earlier: Option<Isolation>) {
        if let (Some(isolation), Some(listener)) = (earlier, &self.listener) {
            listener(part, isolation);
        }
    }
}

impl AlarmIndex {
    /// Divides the alarms into `parts` and sets which part an object belongs to. Alarms of objects without a part stay
    /// pending. No alarm can be taken before this is called. Alarms that were taken before this call and never finished
    /// can be taken again: each part has one taker at a time.
    pub fn divide(
        &self,
        parts: usize,
        part_of: impl Fn(&ObjectKey) -> Option<usize> + Send + Sync + 'static,
    ) {
        let mut layout = self.layout_mut();
        let old = std::mem::replace(
            &mut layout.shards,
            (0..=parts).map(|_| Mutex::default()).collect(),
        );
        layout.part_of = Some(Box::new(part_of));
        #[allow(
            clippy::iter_over_hash_type,
            reason = "the result does not depend on the order"
        )]
        for shard in old {
            let shard = shard.into_inner();
            for (key, entry) in shard.entries {
                layout.shard(&key).change(key, AlarmChange::Set(entry));
            }
            for key in shard.changed {
                layout.shard(&key).changed.insert(key);
            }
            for mut other in layout.each() {
                other.newest = other.newest.max(shard.newest);
            }
        }
        let mut suspects = 0;
        for part in layout.parts() {
            let mut part = part.lock();
            part.open_queues(self.set_back());
            suspects += part.suspects();
        }
        self.suspects.store(suspects, Ordering::Relaxed);
    }

    /// Notifies `listener`, on the committing thread, when an alarm of a part becomes due earlier than all others of
    /// its isolation. The listener must return quickly and must not call the store. It replaces the previous listener.
    pub fn subscribe(&self, listener: impl Fn(usize, Isolation) + Send + Sync + 'static) {
        self.layout_mut().listener = Some(Box::new(listener));
    }

    /// The due time of the part's earliest alarm that is neither taken nor a suspect.
    pub fn next_due(&self, part: usize) -> Option<i64> {
        self.layout().part(part)?.next_due(Isolation::Free)
    }

    /// Takes the earliest alarm of a part if it is due and not a suspect.
    pub fn take_due(&self, part: usize, now: i64) -> Option<DueAlarm> {
        let (key, entry) = self.layout().part(part)?.take(Isolation::Free, now)?;
        Some(DueAlarm { key, entry })
    }

    /// The due time of the earliest suspect with this isolation.
    pub fn next_suspect(&self, isolation: Isolation) -> Option<i64> {
        let layout = self.layout();
        self.earliest_suspect(&layout, isolation)
            .map(|(due, _)| due)
    }

    /// Takes the earliest suspect of this isolation if it is due, and returns it with its part.
    pub fn take_suspect(&self, isolation: Isolation, now: i64) -> Option<(usize, DueAlarm)> {
        let layout = self.layout();
        let (_, part) = self.earliest_suspect(&layout, isolation)?;
        let (key, entry) = layout.part(part)?.take(isolation, now)?;
        Some((part, DueAlarm { key, entry }))
    }

    /// The time and the part of the earliest suspect. Free in the common case, when there is none.
    fn earliest_suspect(&self, layout: &Layout, isolation: Isolation) -> Option<(i64, usize)> {
        if self.suspects.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let next = layout
            .parts()
            .iter()
            .map(|part| part.lock().next_due(isolation));
        next.zip(0..)
            .filter_map(|(due, part)| Some((due?, part)))
            .min()
    }

    /// Returns a taken alarm to the index. Its entry determines when it is due again.
    pub fn finished(&self, key: ObjectKey) {
        let layout = self.layout();
        let earlier = layout.shard(&key).give_back(key);
        layout.notify(layout.place(&key), earlier);
    }

    /// How often an alarm has been taken or returned. Unchanged between two looks if none was on its way.
    pub fn moves(&self) -> u64 {
        self.layout().each().map(|shard| shard.moves).sum()
    }

    /// The entry of an object's alarm.
    pub fn get(&self, key: ObjectKey) -> Option<AlarmEntry> {
        self.layout().shard(&key).entries.get(&key).copied()
    }

    /// Counts the alarms.
    pub fn counts(&self) -> AlarmCounts {
        let mut counts = AlarmCounts {
            suspects: self.suspects.load(Ordering::Relaxed) as u64,
            ..AlarmCounts::default()
        };
        for shard in self.layout().each() {
            counts.pending += (shard.entries.len() - shard.failed) as u64;
            counts.failed += shard.given_up as u64;
            counts.failing += shard.failing.values().sum::<u64>();
            counts.in_flight += shard.in_flight.len() as u64;
        }
        counts
    }

    /// The number of failing alarms of each namespace. Namespaces without any are omitted.
    pub fn failing(&self) -> BTreeMap<NamespaceNo, u64> {
        let mut all = BTreeMap::new();
        for shard in self.layout().each() {
            for (namespace, count) in &shard.failing {
                *all.entry(*namespace).or_default() += count;
            }
        }
        all
    }

    /// Lists alarms by time, starting after a cursor. Visits every alarm: not for hot paths.
    pub fn list(
        &self,
        state: AlarmState,
        after: Option<AlarmCursor>,
        limit: usize,
    ) -> Vec<(ObjectKey, AlarmEntry)> {
        // The largest of the smallest `limit` is on top of the heap.
        let mut first = BinaryHeap::new();
        let set_back = self.set_back();
        for shard in self.layout().each() {
            let wanted = shard
                .entries
                .iter()
                .filter(|(key, entry)| shard.is_in(state, key, entry))
                .map(|(key, entry)| (entry.due_at(set_back), *key, *entry))
                .filter(|(due, key, _)| after.is_none_or(|after| (*due, *key) > after));
            for alarm in wanted {
                if first.len() < limit {
                    first.push(alarm);
                } else if first.peek().is_some_and(|last| alarm < *last) {
                    first.pop();
                    first.push(alarm);
                }
            }
        }
        let listed = first.into_sorted_vec().into_iter();
        listed.map(|(_, key, entry)| (key, entry)).collect()
    }

    /// Applies a change to an object's alarm, made by a commit or its replay. `end` is the position after the commit.
    pub(crate) fn apply(&self, key: ObjectKey, change: AlarmChange, end: Lsn) {
        let layout = self.layout();
        let place = layout.place(&key);
        let effect = {
            let mut shard = layout.shards[place].lock();
            shard.changed.insert(key);
            shard.newest = shard.newest.max(end);
            shard.change(key, change)
        };
        self.take_effect(&layout, place, effect);
    }

    /// Takes over the alarm of an object from another node, as of a position. If an attempt had begun there, it is a suspect.
    pub(crate) fn adopt(&self, key: ObjectKey, entry: AlarmEntry, end: Lsn) {
        let layout = self.layout();
        let place = layout.place(&key);
        let (effect, suspects) = {
            let mut shard = layout.shards[place].lock();
            shard.changed.insert(key);
            shard.newest = shard.newest.max(end);
            shard.adopt(key, entry)
        };
        self.suspects.fetch_add(suspects, Ordering::Relaxed);
        self.take_effect(&layout, place, effect);
    }

    /// Forgets the alarms of some objects. The next run does not have them.
    pub(crate) fn forget(&self, is_gone: impl Fn(&ObjectKey) -> bool) {
        let mut gone = Vec::new();
        for shard in self.layout().each() {
            let keys = shard.entries.keys().copied();
            gone.extend(keys.filter(|key| is_gone(key)));
        }
        gone.sort_unstable();
        for key in gone {
            self.apply(key, AlarmChange::Cleared, Lsn::ZERO);
        }
    }

    /// The sum of the wall clock's steps back since the store was created, in milliseconds. Waits are measured in the
    /// wall clock's time plus this.
    pub fn set_back(&self) -> i64 {
        self.set_back.load(Ordering::Acquire)
    }

    /// Adopts a new sum of the wall clock's steps back.
    pub(crate) fn clock_set_back(&self, set_back: i64) {
        let layout = self.layout();
        self.set_back.store(set_back, Ordering::Release);
        for place in 0..layout.shards.len() {
            layout.shards[place].lock().clock_set_back(set_back);
            for isolation in [Isolation::Free, Isolation::Few, Isolation::Alone] {
                layout.notify(place, Some(isolation));
            }
        }
    }

    /// Applies an entry of a run or a row while a store is opened, oldest first.
    pub(crate) fn load(&self, key: ObjectKey, change: AlarmChange) {
        self.layout().shard(&key).change(key, change);
    }

    /// Makes the next run hold the whole index.
    pub(crate) fn save_whole(&self) {
        self.whole.store(true, Ordering::Release);
    }

    fn take_effect(&self, layout: &Layout, place: usize, effect: Effect) {
        if effect.cleared > 0 {
            self.suspects.fetch_sub(effect.cleared, Ordering::Relaxed);
        }
        layout.notify(place, effect.earlier);
    }

    fn layout(&self) -> RwLockReadGuard<'_, Layout> {
        self.layout.read()
    }

    fn layout_mut(&self) -> RwLockWriteGuard<'_, Layout> {
        self.layout.write()
    }

    /// Takes the changes since the last run; see [`Unsaved`].
    pub(crate) fn unsaved(&self) -> Unsaved<'_> {
        let layout = self.layout();
        let mut unsaved = Unsaved::none(self);
        for mut shard in layout.each() {
            unsaved.keys.extend(shard.changed.drain());
            unsaved.newest = unsaved.newest.max(shard.newest);
        }
        unsaved
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
        AlarmChange::Set(AlarmEntry::at(due))
    }

    /// An alarm whose attempt has begun with this isolation.
    fn begun(due: i64, isolation: Isolation) -> AlarmChange {
        AlarmChange::Set(AlarmEntry {
            attempts: 1,
            begun: Some(isolation),
            ..AlarmEntry::at(due)
        })
    }

    /// The same of an earlier process, for another time.
    fn moved(due: i64, isolation: Isolation) -> AlarmChange {
        AlarmChange::Set(AlarmEntry {
            attempts: 1,
            begun: Some(isolation),
            cut_off: true,
            ..AlarmEntry::at(due)
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
    fn a_listener_is_told_of_a_new_earliest_alarm() {
        let index = index();
        let heard = Arc::new(AtomicUsize::new(0));
        let ears = heard.clone();
        index.subscribe(move |_, _| {
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
    fn a_list_continues_where_it_ended_and_tells_failed_from_pending() {
        let index = index();
        for id in 0_u8..10 {
            let failed = id % 3 == 0;
            let entry = AlarmEntry {
                attempts: 7,
                failed,
                failing: !failed && id > 6,
                ..AlarmEntry::at(i64::from(20 - id / 2))
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
        let failing = index.list(AlarmState::Failing, None, 100);
        let failing: Vec<_> = failing.iter().map(|(key, _)| key.id[0]).collect();
        assert_eq!(failing, [8, 7]);
        assert_eq!(index.counts().failing, 2);
        assert_eq!(index.failing(), BTreeMap::from([(NamespaceNo(1), 2)]));
        index.apply(key(7), AlarmChange::Cleared, Lsn(2));
        index.apply(key(8), at(1), Lsn(2));
        assert_eq!(index.failing(), BTreeMap::new());
    }

    #[test]
    fn changes_of_different_parts_share_no_lock() {
        let index = index();
        let layout = index.layout();
        // One worker is in the middle of a change; the other one changes its own alarms meanwhile.
        let of_one = layout.shard(&key(1));
        index.apply(key(2), at(10), Lsn(1));
        assert_eq!(taken(&index, 0, 10), Some(key(2)));
        index.apply(key(2), AlarmChange::Cleared, Lsn(2));
        index.finished(key(2));
        assert_eq!(index.get(key(2)), None);
        drop(of_one);
    }

    #[test]
    fn a_new_division_keeps_alarms_and_what_is_unsaved() {
        let index = index();
        for id in [1, 2, 3, 200] {
            index.apply(key(id), at(i64::from(id)), Lsn(u64::from(id)));
        }
        assert_eq!(taken(&index, 1, 10), Some(key(1)));
        index.divide(3, |key| Some(usize::from(key.id[0] % 3)));
        assert_eq!(index.counts().pending, 4);
        assert_eq!(taken(&index, 2, 300), Some(key(2)));
        assert_eq!(
            taken(&index, 1, 300),
            Some(key(1)),
            "taken before, and not finished"
        );
        let unsaved = index.unsaved();
        assert_eq!((unsaved.len(), unsaved.newest), (4, Lsn(200)));
    }

    #[test]
    fn an_unfinished_attempt_of_an_earlier_process_is_a_suspect() {
        let index = AlarmIndex::default();
        index.load(key(2), begun(10, Isolation::Free));
        index.load(key(1), begun(5, Isolation::Few));
        index.load(key(4), begun(7, Isolation::Alone));
        index.load(key(6), at(1));
        index.divide(2, |key| Some(usize::from(key.id[0] % 2)));
        assert_eq!(index.counts().suspects, 3);
        assert_eq!(index.list(AlarmState::Failing, None, 10).len(), 3);
        assert_eq!(
            (taken(&index, 0, 99), taken(&index, 0, 99)),
            (Some(key(6)), None)
        );
        let suspect = |isolation, now| {
            let taken = index.take_suspect(isolation, now);
            taken.map(|(part, due)| (part, due.key))
        };
        assert_eq!(index.next_suspect(Isolation::Few), Some(10));
        assert_eq!(suspect(Isolation::Few, 9), None);
        assert_eq!(suspect(Isolation::Few, 10), Some((0, key(2))));
        assert_eq!(suspect(Isolation::Alone, 10), Some((1, key(1))));
        // It could not be begun.
        index.finished(key(1));
        assert_eq!(suspect(Isolation::Alone, 10), Some((1, key(1))));
        // Its object has moved it meanwhile.
        index.apply(key(1), moved(6, Isolation::Few), Lsn(1));
        index.finished(key(1));
        assert_eq!(suspect(Isolation::Alone, 10), Some((1, key(1))));
        // It has begun and ended.
        index.apply(key(1), begun(60, Isolation::Alone), Lsn(1));
        assert_eq!(index.counts().suspects, 2);
        index.apply(key(1), at(60), Lsn(2));
        index.finished(key(1));
        assert_eq!(index.next_due(1), Some(60));
        // One that is moved while it waits is a suspect still; one that is set anew is none.
        index.apply(key(4), moved(20, Isolation::Alone), Lsn(3));
        assert_eq!(index.next_suspect(Isolation::Alone), Some(20));
        index.apply(key(4), at(30), Lsn(4));
        assert_eq!(
            (index.next_suspect(Isolation::Alone), index.next_due(0)),
            (None, Some(30))
        );
        assert_eq!(index.counts().suspects, 1);
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
