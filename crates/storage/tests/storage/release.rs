//! Who is told that something is durable, by the log's writer on small machines and by its own thread on larger ones:
//! not too early, in order, and nothing after a failure.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common;
use crate::common::{DIR, listen, manual};
use abide_storage::{Lsn, ObjectKey, Progress, SimDisk, Store, StoreOptions};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const SMALL: usize = 1;
const LARGE: usize = 8;
const WRITERS: u8 = 4;

/// Nothing here takes so long.
const LONG: Duration = Duration::from_mins(2);

fn open(disk: &SimDisk, cores: usize) -> Store {
    let options = StoreOptions::small().cores(NonZero::new(cores));
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

fn newest(told: &Mutex<Vec<Progress>>) -> Lsn {
    let told = told.lock().unwrap();
    let durable = told.iter().rev().find_map(|progress| match progress {
        Progress::Durable(lsn) => Some(*lsn),
        Progress::Failed => None,
    });
    durable.unwrap_or_default()
}

fn is_in_order(told: &[Progress]) -> bool {
    let failed = told
        .iter()
        .position(|progress| *progress == Progress::Failed);
    let durable = told[..failed.unwrap_or(told.len())]
        .iter()
        .map(|progress| match progress {
            Progress::Durable(lsn) => *lsn,
            Progress::Failed => unreachable!("cut off above"),
        });
    failed.is_none_or(|at| at + 1 == told.len()) && durable.is_sorted()
}

/// The commits of each object: where they end, and the number that they wrote.
type Commits = Mutex<BTreeMap<u8, Vec<(Lsn, u64)>>>;

/// Commits to its own object until it is told to stop, or refused.
fn write(store: &Store, key: ObjectKey, commits: &Commits, stop: &AtomicBool) {
    let db = store.open_object(key).unwrap();
    for n in 1_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        db.kv_put("n", &n.to_le_bytes()).unwrap();
        let Ok(Some(lsn)) = db.commit() else { return };
        let mut commits = commits.lock().unwrap();
        commits.entry(key.id[0]).or_default().push((lsn, n));
    }
}

fn spawn_writers<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    store: &'scope Store,
    commits: &'scope Commits,
    stop: &'scope AtomicBool,
) {
    for id in 1..=WRITERS {
        let key = common::key(store, id);
        scope.spawn(move || write(store, key, commits, stop));
    }
}

/// Ends the writers, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each object has the newest number that was reported durable, or a later one.
fn check(disk: &SimDisk, told: &BTreeMap<u8, u64>) {
    let store = manual(disk);
    for (&id, &n) in told {
        let db = common::open(&store, id);
        let found = db.kv_get("n").unwrap().unwrap_or(vec![0; 8]);
        let found = u64::from_le_bytes(found.try_into().unwrap());
        assert!(
            found >= n,
            "object {id} has {found}, and {n} was acknowledged"
        );
    }
}

#[test]
fn what_was_announced_survives_a_crash_at_any_moment() {
    for cores in [SMALL, LARGE] {
        let disk = SimDisk::new();
        let store = open(&disk, cores);
        let told = listen(&store);
        let (commits, stop) = (Commits::default(), AtomicBool::new(false));
        let begun = Instant::now();
        thread::scope(|scope| {
            let _stop = Stop(&stop);
            spawn_writers(scope, &store, &commits, &stop);
            let mut crashes = 0;
            while crashes < 20 || (cores == LARGE && store.stats().overlapped_groups == 0) {
                assert!(begun.elapsed() < LONG, "{:?}", store.stats());
                let announced = newest(&told);
                let acknowledged: BTreeMap<u8, u64> = {
                    let commits = commits.lock().unwrap();
                    let durable = |of: &[(Lsn, u64)]| {
                        let before = of.partition_point(|(lsn, _)| *lsn <= announced);
                        before.checked_sub(1).map(|last| of[last].1)
                    };
                    commits
                        .iter()
                        .filter_map(|(id, of)| Some((*id, durable(of)?)))
                        .collect()
                };
                crashes += 1;
                check(&disk.crash(crashes), &acknowledged);
            }
        });
        let stats = store.stats();
        assert_eq!(stats.overlapped_groups > 0, cores == LARGE, "{stats:?}");
        store.close().unwrap();
        // The listener of the last position is notified.
        assert_eq!(newest(&told), store.durable());
        assert!(is_in_order(&told.lock().unwrap()));
    }
}

#[test]
fn nothing_is_announced_after_a_failed_sync() {
    for cores in [SMALL, LARGE] {
        for round in 0..5 {
            let disk = SimDisk::new();
            let store = open(&disk, cores);
            let told = listen(&store);
            let (commits, stop) = (Commits::default(), AtomicBool::new(false));
            thread::scope(|scope| {
                let _stop = Stop(&stop);
                spawn_writers(scope, &store, &commits, &stop);
                let begun = Instant::now();
                while store.stats().groups < 10 {
                    assert!(begun.elapsed() < LONG);
                    thread::yield_now();
                }
                disk.fail_syncs(true);
                while !store.failed() {
                    assert!(begun.elapsed() < LONG);
                    thread::yield_now();
                }
            });
            assert!(store.close().is_err());
            let announced = newest(&told);
            let told = told.lock().unwrap();
            assert_eq!(told.last(), Some(&Progress::Failed));
            assert!(is_in_order(&told));
            let acknowledged = commits.lock().unwrap();
            let acknowledged = acknowledged.iter().filter_map(|(id, of)| {
                let last = of.iter().rev().find(|(lsn, _)| *lsn <= announced)?;
                Some((*id, last.1))
            });
            disk.fail_syncs(false);
            check(&disk.crash(round), &acknowledged.collect());
        }
    }
}

#[test]
fn a_listener_that_does_not_return_is_seen_until_it_does() {
    for cores in [SMALL, LARGE] {
        let disk = SimDisk::new();
        let store = open(&disk, cores);
        let blocked = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&blocked);
        store.subscribe(Box::new(move |_| {
            while flag.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        }));
        assert_eq!(store.listener_wait(), None);
        let db = store.open_object(common::key(&store, 1)).unwrap();
        db.kv_put("n", b"1").unwrap();
        db.commit().unwrap();
        let begun = Instant::now();
        let seen = || store.listener_wait() >= Some(Duration::from_millis(20));
        while !seen() {
            assert!(begun.elapsed() < LONG, "it is not seen");
            thread::sleep(Duration::from_millis(1));
        }
        blocked.store(false, Ordering::Relaxed);
        while store.listener_wait().is_some() {
            assert!(begun.elapsed() < LONG, "it is still seen");
            thread::sleep(Duration::from_millis(1));
        }
        drop(db);
        store.close().unwrap();
    }
}
