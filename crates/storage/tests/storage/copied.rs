//! What is durable here is held back until it is copied, if the options say so.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, flush, key, listen, open};
use abide_storage::{
    Bookmark, DiskOp, FaultyDisk, Lsn, MemoryUse, Progress, Result, SimDisk, Store, StoreOptions,
};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn options() -> StoreOptions {
    StoreOptions::small().await_copy(true)
}

fn open_with(disk: &SimDisk, options: StoreOptions) -> Store {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

/// Commits a new value to an object.
fn put(store: &Store, id: u8) -> Lsn {
    static VALUES: AtomicU64 = AtomicU64::new(0);
    let number = VALUES.fetch_add(1, Ordering::Relaxed);
    let db = open(store, id);
    db.kv_put("k", &number.to_le_bytes()).unwrap();
    db.commit().unwrap().unwrap()
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_durable_is_held_back_until_it_is_copied() {
    let store = open_with(&SimDisk::new(), options().manual(true));
    let told = listen(&store);
    let ends = [1, 2, 3].map(|id| {
        let end = put(&store, id);
        flush(&store);
        end
    });
    assert_eq!(store.durable_here(), ends[2]);
    assert_eq!(store.durable(), Lsn::ZERO);
    store.copied(ends[1]);
    assert_eq!(store.durable(), ends[1]);
    // It does not fall, and does not go ahead of the disk.
    store.copied(ends[0]);
    assert_eq!(store.durable(), ends[1]);
    let last = put(&store, 4);
    store.copied(last);
    assert_eq!(store.durable(), ends[2]);
    flush(&store);
    assert_eq!(store.durable(), last);
    let expected = [ends[1], ends[2], last].map(Progress::Durable);
    assert_eq!(*told.lock().unwrap(), expected);
}

#[test]
fn without_the_option_nothing_is_held_back() {
    let store = open_with(&SimDisk::new(), StoreOptions::small().manual(true));
    let told = listen(&store);
    let end = put(&store, 1);
    flush(&store);
    assert_eq!((store.durable(), store.durable_here()), (end, end));
    store.copied(Lsn::ZERO);
    store.copied(end);
    assert_eq!(*told.lock().unwrap(), [Progress::Durable(end)]);
}

#[test]
fn what_was_recovered_is_held_back_until_it_is_copied() {
    let disk = SimDisk::new();
    let store = open_with(&disk, options().manual(true));
    put(&store, 1);
    flush(&store);
    let end = store.durable_here();
    drop(store);
    let store = open_with(&disk.after_kill(), options().manual(true));
    let told = listen(&store);
    assert_eq!((store.durable(), store.durable_here()), (Lsn::ZERO, end));
    let part = store.log_part(None, usize::MAX).unwrap().unwrap();
    assert_eq!(part.end, end);
    store.copied(part.end);
    assert_eq!(store.durable(), end);
    assert_eq!(*told.lock().unwrap(), [Progress::Durable(end)]);
}

#[test]
fn checkpoints_and_commits_do_not_wait_for_the_copy() {
    let disk = SimDisk::new();
    let store = open_with(&disk, options());
    for id in 0..50 {
        put(&store, id);
    }
    store.checkpoint().unwrap();
    assert_eq!(store.durable(), Lsn::ZERO);
    assert_eq!(store.log_part(None, 1000).unwrap(), None, "it is archived");
    wait_until("the memory of the log", || {
        store.memory().usage()[MemoryUse::Log as usize].bytes == 0
    });
    store.close().unwrap();
    assert_eq!(store.durable(), Lsn::ZERO);
}

/// Puts a value, which is copied, then another, and begins to restore the object to the first. Returns the end of the second.
fn restore_in_another_thread(store: &Store) -> (Lsn, thread::JoinHandle<Result<Bookmark>>) {
    let first = put(store, 1);
    wait_until("durability", || store.durable_here() >= first);
    store.copied(store.durable_here());
    let object = key(store, 1);
    let to = store.bookmark(object).unwrap();
    let end = put(store, 1);
    let store = store.clone();
    (end, thread::spawn(move || store.restore(object, &to)))
}

#[test]
fn a_restore_returns_when_it_is_copied() {
    for cores in [1, 8] {
        let disk = SimDisk::new();
        let store = open_with(&disk, options().cores(NonZero::new(cores)));
        let (end, restoring) = restore_in_another_thread(&store);
        wait_until("the restore's commit", || store.durable_here() > end);
        thread::sleep(Duration::from_millis(20));
        assert!(!restoring.is_finished());
        store.copied(store.durable_here());
        restoring.join().unwrap().unwrap();
        assert!(store.durable() > end);
        store.close().unwrap();
    }
}

/// The end of what can be copied of the log.
fn end_of_parts(store: &Store) -> Lsn {
    let mut end = None;
    while let Some(part) = store.log_part(end, usize::MAX).unwrap() {
        end = Some(part.end);
    }
    end.unwrap_or_default()
}

#[test]
fn a_large_restore_returns_when_its_new_state_and_its_commit_are_copied() {
    let disk = SimDisk::new();
    let large = || options().large_restore_bytes(0);
    let store = open_with(&disk, large());
    let (end, restoring) = restore_in_another_thread(&store);
    wait_until("the restore's commit", || {
        store.awaits_history_copy() && store.durable_here() > end
    });
    assert!(end_of_parts(&store) < store.durable_here());
    // After a start, the log is archived soon, for those who copied more of it before.
    let begun = Instant::now();
    let started = open_with(&SimDisk::after_kill(&disk), large());
    assert!(started.awaits_history_copy());
    let told = started.durable_here();
    wait_until("a copy with all of the log", || {
        let copy = started.history_copy();
        copy.is_some_and(|copy| copy.archived >= told)
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
    drop(started);
    wait_until("a copy", || {
        let copy = store.history_copy();
        copy.is_some_and(|copy| {
            store.history_copied(copy.version);
            !store.awaits_history_copy()
        })
    });
    assert!(!restoring.is_finished());
    assert_eq!(end_of_parts(&store).max(end), store.durable_here());
    store.copied(store.durable_here());
    restoring.join().unwrap().unwrap();
    store.close().unwrap();
}

#[test]
fn closing_ends_who_waits_for_the_copy() {
    let disk = SimDisk::new();
    let store = open_with(&disk, options());
    put(&store, 1);
    let object = key(&store, 1);
    let waiting = {
        let store = store.clone();
        thread::spawn(move || store.bookmark(object))
    };
    thread::sleep(Duration::from_millis(20));
    assert!(!waiting.is_finished());
    store.close().unwrap();
    waiting.join().unwrap().unwrap_err();
}

#[test]
fn listeners_are_told_in_order_beside_a_copier() {
    for cores in [1, 8] {
        let disk = SimDisk::new();
        let store = open_with(&disk, options().cores(NonZero::new(cores)));
        let told = listen(&store);
        thread::scope(|scope| {
            for id in 0..3 {
                let store = &store;
                scope.spawn(move || {
                    for _ in 0..50 {
                        let end = put(store, id);
                        wait_until("release", || store.durable() >= end);
                    }
                });
            }
            let store = &store;
            scope.spawn(move || {
                let mut from = Lsn::ZERO;
                let begun = Instant::now();
                while store.stats().commits < 150 || from < store.appended() {
                    assert!(begun.elapsed() < Duration::from_mins(1));
                    let Some(part) = store.log_part(Some(from), 5000).unwrap() else {
                        continue;
                    };
                    from = part.end;
                    store.copied(from);
                }
            });
        });
        wait_until("the last notification", || {
            told.lock().unwrap().last() == Some(&Progress::Durable(store.durable()))
        });
        let told = told.lock().unwrap();
        let ends = told.iter().map(|progress| match progress {
            Progress::Durable(lsn) => *lsn,
            Progress::Failed => unreachable!("it did not fail"),
        });
        assert!(ends.is_sorted());
        store.close().unwrap();
    }
}

/// A directory whose log before the last checkpoint is not archived.
fn with_lag() -> SimDisk {
    let sim = SimDisk::new();
    let disk = FaultyDisk::new(sim.clone());
    let options = StoreOptions::small().manual(true);
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    put(&store, 1);
    flush(&store);
    disk.fail(&[DiskOp::Write], "/archive/", abide_storage::errno::EIO);
    store.checkpoint().unwrap();
    assert_eq!(store.history_copy(), None);
    sim.after_kill()
}

#[test]
fn a_copy_of_the_history_is_possible_soon_after_a_start() {
    let options = StoreOptions::small().checkpoint_interval(Duration::from_hours(1));
    let store = open_with(&with_lag(), options);
    let begun = store.history_version();
    wait_until("a copy", || store.history_version() > begun);
    assert!(store.history_copy().is_some());
    store.close().unwrap();
}

#[test]
fn who_asks_for_a_copy_of_the_history_has_one_soon() {
    let disk = FaultyDisk::default();
    let options = StoreOptions::small().checkpoint_interval(Duration::from_hours(1));
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    // The first look after the start is over.
    thread::sleep(Duration::from_millis(300));
    put(&store, 1);
    disk.fail(&[DiskOp::Write], "/archive/", abide_storage::errno::EIO);
    store.checkpoint().unwrap();
    disk.clear();
    let taken = store.stats().checkpoints;
    thread::sleep(Duration::from_millis(300));
    assert_eq!(store.stats().checkpoints, taken, "no copy was asked for");
    wait_until("a copy", || store.history_copy().is_some());
    assert_eq!(store.stats().checkpoints, taken + 1);
    store.close().unwrap();
}
