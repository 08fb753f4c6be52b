//! Models of the output gate: an object that sends, concurrent with the log's writer and a disk that may fail.

use std::{
    cell::Cell,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex as Unchecked, Weak},
    task::{Context, Wake, Waker},
};

use abide_storage::{
    Lsn, ObjectDb, ObjectKey, Progress, SimDisk, Store, StoreOptions,
    interleavings::{explore, quiet_panic, spawn},
};
use tokio::sync::oneshot;

use super::{Departure, Egress, Lane, Released};
use crate::Error;

const SCHEDULES: usize = 200;

struct Model {
    disk: SimDisk,
    store: Store,
    lane: Arc<Lane>,
    key: ObjectKey,
}

impl Model {
    /// A store whose groups are written by a thread of the model, and a lane that it notifies.
    fn new() -> Self {
        let disk = SimDisk::new();
        let options = StoreOptions::small().manual(true);
        let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
        let lane = Arc::new(Lane::new(Egress::new(), None));
        let key = ObjectKey {
            namespace: store.namespace("model").unwrap(),
            id: [1; 32],
        };
        let told: Weak<Lane> = Arc::downgrade(&lane);
        store.subscribe(Box::new(move |progress| {
            let Some(lane) = told.upgrade() else { return };
            match progress {
                Progress::Durable(lsn) => lane.release_through(lsn),
                Progress::Failed => lane.fail(&Error::log_failed()),
            }
        }));
        Self {
            disk,
            store,
            lane,
            key,
        }
    }

    fn writer(&self) -> shuttle::thread::JoinHandle<()> {
        let store = self.store.clone();
        spawn(move || {
            for _ in 0..3 {
                store.write_group();
                shuttle::thread::yield_now();
            }
        })
    }

    /// Writes what remains. No departure may remain afterwards.
    fn end(&self) {
        while self.store.write_group() {}
        assert_eq!(self.lane.len(), 0);
        assert_eq!(self.store.stats().listener_panics, 0);
    }
}

fn commit(db: &ObjectDb, value: u8) -> Lsn {
    db.kv_put("key", &[value]).unwrap();
    db.commit().unwrap().unwrap()
}

/// Departures in the order in which they left.
#[derive(Clone, Default)]
struct Left(Arc<Unchecked<Vec<u8>>>);

/// Wakes the waiter of a departure, on the thread that releases it.
struct Leaving {
    number: u8,
    left: Left,
    panics: bool,
}

impl Wake for Leaving {
    fn wake(self: Arc<Self>) {
        self.left.0.lock().unwrap().push(self.number);
        if self.panics {
            quiet_panic();
        }
    }
}

/// A departure, and its waiter.
fn departure(
    number: u8,
    left: &Left,
    panics: bool,
) -> (Departure, oneshot::Receiver<Released<()>>) {
    let (sender, mut receiver) = oneshot::channel();
    let leaving = Leaving {
        number,
        left: left.clone(),
        panics,
    };
    let waker = Waker::from(Arc::new(leaving));
    let polled = Future::poll(Pin::new(&mut receiver), &mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    (Departure::Synced(sender), receiver)
}

fn released(receiver: &mut oneshot::Receiver<Released<()>>) -> bool {
    match receiver.try_recv() {
        Ok(_) => true,
        Err(oneshot::error::TryRecvError::Closed) => false,
        Err(oneshot::error::TryRecvError::Empty) => panic!("it was forgotten"),
    }
}

#[test]
fn departures_leave_once_durable_and_in_their_order() {
    explore(SCHEDULES, || {
        let model = Model::new();
        let writer = model.writer();
        let db = model.store.open_object(model.key).unwrap();
        let (left, last_held) = (Left::default(), Cell::default());
        let mut receivers = Vec::new();
        let mut lsn = Lsn::ZERO;
        for number in 0..5 {
            // Every second one reveals nothing new, and must not overtake the one before it.
            if number % 2 == 0 {
                lsn = commit(&db, number);
            }
            let (departure, mut receiver) = departure(number, &left, false);
            model.lane.depart(&model.store, lsn, &last_held, departure);
            if receiver.try_recv().is_ok() {
                assert!(
                    model.store.durable() >= lsn,
                    "it left before it was durable"
                );
            } else {
                receivers.push(receiver);
            }
        }
        writer.join().unwrap();
        model.end();
        assert!(receivers.iter_mut().all(released));
        assert_eq!(*left.0.lock().unwrap(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn a_failure_releases_every_departure_as_an_error_and_in_order() {
    explore(SCHEDULES, || {
        let model = Model::new();
        let db = model.store.open_object(model.key).unwrap();
        commit(&db, 0);
        while model.store.write_group() {}
        let writer = model.writer();
        let disk = model.disk.clone();
        let failing = spawn(move || disk.fail_syncs(true));
        let (left, last_held) = (Left::default(), Cell::default());
        let mut receivers = Vec::new();
        for number in 1..4 {
            db.kv_put("key", &[number]).unwrap();
            let Ok(Some(lsn)) = db.commit() else { break };
            let (departure, receiver) = departure(number, &left, false);
            model.lane.depart(&model.store, lsn, &last_held, departure);
            receivers.push((lsn, receiver));
        }
        writer.join().unwrap();
        failing.join().unwrap();
        model.end();
        for (lsn, receiver) in &mut receivers {
            assert!(!released(receiver) || *lsn <= model.store.durable());
        }
        let left = left.0.lock().unwrap();
        assert!(
            left.is_sorted() && left.len() == receivers.len(),
            "{left:?}"
        );
    });
}

#[test]
fn a_waker_that_panics_takes_no_other_departure_with_it() {
    explore(SCHEDULES, || {
        let model = Model::new();
        let writer = model.writer();
        let db = model.store.open_object(model.key).unwrap();
        let (left, last_held) = (Left::default(), Cell::default());
        let mut receivers = Vec::new();
        for number in 0..3 {
            let lsn = commit(&db, number);
            let (departure, receiver) = departure(number, &left, number == 0);
            model.lane.depart(&model.store, lsn, &last_held, departure);
            receivers.push(receiver);
        }
        writer.join().unwrap();
        model.end();
        assert!(receivers.iter_mut().all(released));
    });
}

#[test]
fn a_second_node_on_the_store_shows_nothing_that_is_not_durable() {
    explore(SCHEDULES, || {
        let model = Model::new();
        let writer = model.writer();
        let first = model.store.open_object(model.key).unwrap();
        commit(&first, 1);
        drop(first);
        // Another worker opens the object and answers with what it reads there.
        let second = model.store.open_object(model.key).unwrap();
        let seen = second.kv_get("key").unwrap();
        assert_eq!(seen, Some(vec![1]));
        let floor = second.newest();
        let last_held = Cell::new(floor);
        let (departure, mut receiver) = departure(0, &Left::default(), false);
        model
            .lane
            .depart(&model.store, floor, &last_held, departure);
        if receiver.try_recv().is_ok() {
            let after = model.disk.crash(1);
            let options = StoreOptions::small().manual(true);
            let store = Store::open(Arc::new(after), Path::new("/data"), options).unwrap();
            let db = store.open_object(model.key).unwrap();
            assert_eq!(db.kv_get("key").unwrap(), seen, "it was shown and is lost");
        }
        writer.join().unwrap();
        model.end();
    });
}
