//! The output gate: messages of an object leave once its writes are durable.
//!
//! - A [`Departure`] carries the log position (LSN) of the newest write it may reveal. If the log is durable up to that
//!   position, it leaves immediately, without a lock; otherwise it waits in its worker's [`Lane`].
//! - The log's writer thread releases what has become durable, directly to the receiver, without involving the worker.
//!   Code of the program that a departure requires does not run there but in [`Egress`].
//! - Messages of one object leave in the order in which they were sent. Requests to other servers keep their order
//!   among themselves, but may be overtaken by other messages, because they go through [`Egress`].
//! - If the log fails, every held departure is replaced by an error, and so is every later one that would have to wait.
//! - Each departure is released under its own unwind guard: if it runs code that panics, a waker or a destructor, the
//!   others still leave, and the counts stay correct.
//! - A departure without a caller, which means one to a socket, carries a [`GatePermit`](super::GatePermit): a limit on
//!   what one object, and one worker, have at the gate.

use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{Arc, PoisonError},
};

use abide_storage::{Lsn, Store};

use super::{Departure, Egress, EgressTask, OutputLease};
use crate::{
    Error,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering, fence},
    },
    unwind::guarded,
};

/// The output gate of one worker's objects.
pub(crate) struct Lane {
    egress: Arc<Egress>,
    /// None on a node that shares its objects with no other.
    lease: Option<Arc<dyn OutputLease>>,
    held: Mutex<Held>,
    /// Serializes releases, to keep the order of departures between the worker and the log's writer.
    releasing: Mutex<()>,
    /// Everything held at or before this LSN has left.
    released: AtomicU64,
    /// Number of queued departures that have not left.
    count: AtomicUsize,
}

#[derive(Default)]
struct Held {
    /// Sorted by LSN; in order of arrival among equals.
    queue: VecDeque<(Lsn, Departure)>,
    /// Why held departures will never leave.
    failed: Option<Error>,
}

impl Lane {
    pub(crate) fn new(egress: Arc<Egress>, lease: Option<Arc<dyn OutputLease>>) -> Self {
        Self {
            egress,
            lease,
            held: Mutex::default(),
            releasing: Mutex::default(),
            released: AtomicU64::default(),
            count: AtomicUsize::default(),
        }
    }

    /// Releases a departure once `lsn` is durable. `last_held` belongs to the sending object: the highest LSN at which
    /// one of its departures was ever held.
    pub(crate) fn depart(
        &self,
        store: &Store,
        lsn: Lsn,
        last_held: &Cell<Lsn>,
        departure: Departure,
    ) {
        // With a lease, what waits may be durable, so positions do not tell that nothing of this object waits.
        let is_first = self.lease.is_none() || self.count.load(Ordering::Acquire) == 0;
        let may_leave = lsn <= store.durable() && is_first && self.may_show();
        if may_leave && last_held.get().get() <= self.released.load(Ordering::Acquire) {
            if let Some(task) = self.release(departure) {
                self.egress.run_here(task);
            }
            return;
        }
        {
            let mut held = self.held();
            if let Some(error) = held.failed.clone() {
                drop(held);
                // Not before held departures.
                let _order = self.order();
                self.release_failed(departure, error);
                return;
            }
            let at = held.queue.partition_point(|(other, _)| *other <= lsn);
            held.queue.insert(at, (lsn, departure));
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        last_held.set(last_held.get().max(lsn));
        // The log may have advanced between the check and the insertion; its writer will not check again for us. We
        // write the count and read the position; the writer writes the position and reads the count. With a fence on
        // each side, at least one of the two sees the other's write.
        fence(Ordering::SeqCst);
        let durable = store.durable();
        if lsn <= durable {
            self.release_through(durable);
        } else if store.failed() {
            self.fail(&Error::log_failed());
        }
    }

    /// Returns whether the node's lease is held, or needs none.
    fn may_show(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.is_held())
    }

    /// Releases everything up to `durable`, unless the lease is not held.
    pub(crate) fn release_through(&self, durable: Lsn) {
        // Pairs with the one in `depart`.
        fence(Ordering::SeqCst);
        if self.count.load(Ordering::Acquire) > 0 {
            let _order = self.order();
            loop {
                let ready: Vec<_> = {
                    let mut held = self.held();
                    // After what is in the queue was computed.
                    if !self.may_show() {
                        return;
                    }
                    let end = held.queue.partition_point(|(lsn, _)| *lsn <= durable);
                    held.queue.drain(..end).collect()
                };
                if ready.is_empty() {
                    break;
                }
                let left = ready.len();
                for (_, departure) in ready {
                    self.release_queued(departure);
                }
                // Only after all of them have left: a reader that sees zero may release later departures immediately.
                self.count.fetch_sub(left, Ordering::Release);
            }
        }
        self.released.fetch_max(durable.get(), Ordering::Release);
    }

    /// Fails everything that is held: the log has failed, or no longer notifies the lane.
    pub(crate) fn fail(&self, error: &Error) {
        let _order = self.order();
        let lost = {
            let mut held = self.held();
            held.failed.get_or_insert_with(|| error.clone());
            std::mem::take(&mut held.queue)
        };
        let left = lost.len();
        for (_, departure) in lost {
            self.release_failed(departure, error.clone());
        }
        self.count.fetch_sub(left, Ordering::Release);
    }

    /// Releases a departure on a thread that must not run code of the program.
    fn release_queued(&self, departure: Departure) {
        if let Some(task) = self.release(departure) {
            self.egress.queue(task);
        }
    }

    /// Releases an error in place of a departure's content.
    fn release_failed(&self, departure: Departure, error: Error) {
        let failing = guarded(&self.egress.panics, "a waker", || {
            departure.into_failed(error)
        });
        let Ok((failed, discarded)) = failing else {
            return;
        };
        self.release_queued(failed);
        if let Some(discarded) = discarded {
            self.egress.queue(EgressTask::Drop(discarded));
        }
    }

    fn release(&self, departure: Departure) -> Option<EgressTask> {
        let released = guarded(&self.egress.panics, "the waker of a departure", || {
            departure.release()
        });
        released.unwrap_or_default()
    }

    fn order(&self) -> MutexGuard<'_, ()> {
        self.releasing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of departures that wait, or are just leaving.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use abide_storage::{ObjectKey, SimDisk, StoreOptions};
    use tokio::sync::oneshot;

    use super::{super::Released, *};

    fn lane() -> Lane {
        Lane::new(Egress::new(), None)
    }

    /// A store that makes nothing durable without being told, and the position of a write in it.
    fn store_with_a_write() -> (Store, Lsn) {
        let options = StoreOptions::small().manual(true);
        let disk = Arc::new(SimDisk::new());
        let store = Store::open(disk, Path::new("/data"), options).unwrap();
        let namespace = store.namespace("test").unwrap();
        let key = ObjectKey {
            namespace,
            id: [1; 32],
        };
        let db = store.open_object(key).unwrap();
        db.kv_put("key", b"value").unwrap();
        let lsn = db.commit().unwrap().unwrap();
        (store, lsn)
    }

    fn departure() -> (Departure, oneshot::Receiver<Released<()>>) {
        let (sender, receiver) = oneshot::channel();
        (Departure::Synced(sender), receiver)
    }

    #[derive(Default)]
    struct Lease(std::sync::atomic::AtomicBool);

    impl OutputLease for Lease {
        fn is_held(&self) -> bool {
            self.0.load(Ordering::Acquire)
        }
    }

    #[test]
    fn what_is_durable_waits_for_the_lease() {
        let (store, lsn) = store_with_a_write();
        let lease = Arc::new(Lease::default());
        let lane = Lane::new(Egress::new(), Some(Arc::clone(&lease) as Arc<_>));
        let last_held = Cell::default();
        let mut arriving = Vec::new();
        for lsn in [Lsn::ZERO, lsn] {
            let (departure, arrived) = departure();
            lane.depart(&store, lsn, &last_held, departure);
            arriving.push(arrived);
        }
        assert!(store.write_group());
        lane.release_through(store.durable());
        assert!(arriving.iter_mut().all(|of| of.try_recv().is_err()));
        assert_eq!(lane.len(), 2);
        lease.0.store(true, Ordering::Release);
        lane.release_through(store.durable());
        assert!(arriving.iter_mut().all(|of| of.try_recv().is_ok()));
        assert_eq!(lane.len(), 0);
    }

    #[test]
    fn what_waits_for_the_lease_is_not_overtaken() {
        let (store, lsn) = store_with_a_write();
        let lease = Arc::new(Lease(true.into()));
        let lane = Lane::new(Egress::new(), Some(Arc::clone(&lease) as Arc<_>));
        let last_held = Cell::default();
        assert!(store.write_group());
        lane.release_through(store.durable());
        lease.0.store(false, Ordering::Release);
        let (first, mut first_arrived) = departure();
        lane.depart(&store, lsn, &last_held, first);
        assert!(first_arrived.try_recv().is_err());
        // It is back, and the lane was not told yet.
        lease.0.store(true, Ordering::Release);
        let (second, mut second_arrived) = departure();
        lane.depart(&store, lsn, &last_held, second);
        assert!(second_arrived.try_recv().is_ok());
        assert!(first_arrived.try_recv().is_ok(), "it was overtaken");
    }

    /// A lease that is held, and notes whether the queue was locked when it was asked.
    #[derive(Default)]
    struct Watching {
        lane: std::sync::OnceLock<std::sync::Weak<Lane>>,
        was_locked: std::sync::atomic::AtomicBool,
    }

    impl OutputLease for Watching {
        fn is_held(&self) -> bool {
            let lane = self.lane.get().and_then(std::sync::Weak::upgrade);
            let is_locked = lane.is_some_and(|lane| lane.held.try_lock().is_err());
            self.was_locked.store(is_locked, Ordering::Release);
            true
        }
    }

    #[test]
    fn nothing_is_computed_between_a_look_at_the_lease_and_a_release() {
        let (store, lsn) = store_with_a_write();
        let lease = Arc::new(Watching::default());
        let lane = Lane::new(Egress::new(), Some(Arc::clone(&lease) as Arc<_>));
        let lane = Arc::new(lane);
        lease.lane.set(Arc::downgrade(&lane)).unwrap();
        let (held, mut arrived) = departure();
        lane.depart(&store, lsn, &Cell::default(), held);
        assert!(store.write_group());
        lane.release_through(store.durable());
        assert!(arrived.try_recv().is_ok());
        assert!(lease.was_locked.load(Ordering::Acquire));
    }

    #[test]
    fn a_departure_is_held_until_its_position_is_durable() {
        let (store, lsn) = store_with_a_write();
        let (lane, last_held) = (lane(), Cell::default());
        let (first, mut arrived) = departure();
        lane.depart(&store, lsn, &last_held, first);
        lane.release_through(store.durable());
        assert!(arrived.try_recv().is_err());
        assert_eq!(lane.len(), 1);
        assert!(store.write_group());
        lane.release_through(store.durable());
        assert!(arrived.try_recv().is_ok());
        assert_eq!(lane.len(), 0);
    }

    #[test]
    fn a_departure_does_not_overtake_an_earlier_one_about_to_leave() {
        let (store, lsn) = store_with_a_write();
        let (lane, last_held) = (lane(), Cell::default());
        let (first, mut first_arrived) = departure();
        lane.depart(&store, lsn, &last_held, first);
        // The log has moved and has not told the lane yet.
        assert!(store.write_group());
        let (second, mut second_arrived) = departure();
        lane.depart(&store, lsn, &last_held, second);
        assert!(second_arrived.try_recv().is_ok());
        assert!(first_arrived.try_recv().is_ok(), "it was overtaken");
    }

    /// Records the departures that are released, on the thread that releases them, and what still counts as held
    /// then.
    struct Told(Arc<Lane>, Mutex<Vec<usize>>);

    impl std::task::Wake for Told {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0.len());
        }
    }

    #[test]
    fn a_departure_being_released_is_not_overtaken() {
        let (store, lsn) = store_with_a_write();
        let (lane, last_held) = (Arc::new(lane()), Cell::default());
        let told = Arc::new(Told(Arc::clone(&lane), Mutex::default()));
        let waker = std::task::Waker::from(Arc::clone(&told));
        let mut receivers = Vec::new();
        for _ in 0..2 {
            let (departure, mut arrived) = departure();
            lane.depart(&store, lsn, &last_held, departure);
            let mut cx = std::task::Context::from_waker(&waker);
            assert!(Future::poll(std::pin::Pin::new(&mut arrived), &mut cx).is_pending());
            receivers.push(arrived);
        }
        assert!(store.write_group());
        lane.release_through(store.durable());
        // At zero a third would have left at once, before the second.
        assert_eq!(*told.1.lock().unwrap(), [2, 2]);
        assert_eq!(lane.len(), 0);
    }

    #[test]
    fn departures_of_other_objects_pass_those_that_wait() {
        let (store, lsn) = store_with_a_write();
        let lane = lane();
        let (waits, mut waiting) = departure();
        lane.depart(&store, lsn, &Cell::default(), waits);
        let (other, mut arrived) = departure();
        lane.depart(&store, Lsn::ZERO, &Cell::default(), other);
        assert!(arrived.try_recv().is_ok());
        assert!(waiting.try_recv().is_err());
    }

    #[test]
    fn a_failed_lane_holds_nothing_and_releases_nothing() {
        let (store, lsn) = store_with_a_write();
        let (lane, last_held) = (lane(), Cell::default());
        let (before, mut lost) = departure();
        lane.depart(&store, lsn, &last_held, before);
        lane.fail(&Error::log_failed());
        let (after, mut refused) = departure();
        lane.depart(&store, lsn, &last_held, after);
        for receiver in [&mut lost, &mut refused] {
            assert_eq!(
                receiver.try_recv().unwrap_err(),
                oneshot::error::TryRecvError::Closed
            );
        }
        assert_eq!(lane.len(), 0);
    }
}
