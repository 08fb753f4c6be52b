//! Runs that leave the disk once they are copied, and return.

use std::{
    num::NonZero,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use abide_storage::{
    ArchiveOptions, Bookmark, ErrorKind, ObjectKey, RemoteRuns, Result, SimDisk, SplitMix64, Store,
    StoreOptions,
};

use super::{
    lazy::{newest, values},
    life::Life,
    remote::{Far, manifest, runs_on},
};
use crate::{
    common::{DIR, flush},
    recovery_points::world::noise,
};

fn settle(life: &Life) {
    for _ in 0..30 {
        life.store.run_maintenance().unwrap();
    }
}

/// A life with some runs, and their copies.
fn copied(local_bytes: Option<u64>) -> (Life, Far) {
    let mut life = Life::small();
    let far = Far::empty();
    life.remote = Some(Arc::new(far.clone()));
    life.local_bytes = local_bytes;
    life.reopen();
    for id in 0..5 {
        let key = life.key("First", id);
        life.put(key, &hex::encode([id; 3_000]));
        life.checkpoint();
    }
    far.copy(&life.store, &life.disk);
    (life, far)
}

/// All that the life remembers can be restored.
fn each_state_is_there(life: &mut Life) {
    let states: Vec<_> = life.past.iter().map(|of| (of.key, of.bookmark)).collect();
    for (key, bookmark) in states {
        let state = life.past.iter().find(|of| of.bookmark == bookmark);
        let value = state.and_then(|of| of.value.clone());
        assert_eq!(life.at(&bookmark, key).unwrap(), value, "{key}: {bookmark}");
    }
}

#[test]
fn the_disk_keeps_the_newest_runs_that_fit() {
    let (mut life, far) = copied(None);
    settle(&life);
    let (bytes, runs) = (life.store.stats().archive_bytes, runs_on(&life.disk));
    assert_eq!(life.store.stats().archive_remote_bytes, 0);
    life.local_bytes = Some(bytes / 2);
    life.reopen();
    settle(&life);
    assert_eq!(
        runs_on(&life.disk),
        runs,
        "not before it is known that they are copied"
    );
    far.copy(&life.store, &life.disk);
    settle(&life);
    let left = life.store.stats().archive_remote_bytes;
    assert!(left >= bytes / 2 && left < bytes, "{left} of {bytes}");
    let listed = life.store.history_copy().unwrap().runs;
    assert!(
        listed.is_sorted_by_key(|run| run.remote.is_none()),
        "{listed:?}"
    );
    assert_eq!(
        listed.iter().filter(|run| run.remote.is_none()).count(),
        runs_on(&life.disk)
    );
    each_state_is_there(&mut life);
    life.local_bytes = None;
    life.reopen();
    settle(&life);
    assert_eq!(life.store.stats().archive_remote_bytes, 0);
    far.set_down(true);
    life.store.verify_archive().unwrap();
    each_state_is_there(&mut life);
}

#[test]
fn a_run_returns_whole_or_not_at_all() {
    let (mut life, far) = copied(Some(0));
    settle(&life);
    assert_eq!(runs_on(&life.disk), 0);
    let newest = life.store.history_copy().unwrap().runs.pop().unwrap();
    life.local_bytes = None;
    far.flip(newest.number, newest.bytes / 2);
    for reads in 0..6 {
        far.fail_after(reads);
        life.reopen();
        settle(&life);
        assert_eq!(
            life.store.stats().archive_remote_bytes,
            life.store.stats().archive_bytes
        );
    }
    far.set_down(false);
    settle(&life);
    // The damaged one is set aside, all others are there.
    assert_eq!(life.store.stats().archive_remote_bytes, newest.bytes);
    assert_eq!(
        manifest(&life.disk)["damaged"],
        serde_json::json!([newest.number])
    );
    far.flip(newest.number, newest.bytes / 2);
    life.reopen();
    settle(&life);
    assert_eq!(life.store.stats().archive_remote_bytes, 0);
    life.store.verify_archive().unwrap();
}

#[test]
fn a_full_disk_costs_no_history_that_is_copied() {
    for is_copied in [false, true] {
        let (mut life, far) = copied(None);
        let history = life.store.stats().archive_horizon_ms;
        let key = life.key("Second", 1);
        let bookmarks: Vec<Bookmark> = life.past.iter().map(|of| of.bookmark).collect();
        life.disk.set_capacity(Some(life.disk.used() + (700 << 10)));
        for round in 0..60 {
            if is_copied {
                far.copy(&life.store, &life.disk);
            }
            life.pass(60_000);
            life.put(key, &hex::encode(noise(round, 20_000)));
            let _ = life.store.checkpoint();
            let _ = life.store.run_maintenance();
        }
        let stats = life.store.stats();
        let is_whole = stats.history_losses == 0 && stats.archive_horizon_ms == history;
        assert_eq!(
            is_whole, is_copied,
            "{} {}",
            stats.history_losses, stats.archive_horizon_ms
        );
        if is_copied {
            assert!(stats.archive_remote_bytes > 0);
            life.disk.set_capacity(None);
            each_state_is_there(&mut life);
            assert!(bookmarks.len() > 5);
            settle(&life);
            assert_eq!(life.store.stats().archive_remote_bytes, 0);
        }
    }
}

#[test]
fn s15_random_lives_move_runs_and_lose_no_state() {
    let (mut moved, mut outages) = (0, 0);
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::new(Duration::from_hours(6));
        let far = Far::empty();
        life.remote = Some(Arc::new(far.clone()));
        life.reopen();
        for step in 0..300 {
            match random.below(12) {
                0 => far.copy(&life.store, &life.disk),
                1 => {
                    let most = [0, 20_000, 200_000][random.below(3) as usize];
                    life.local_bytes = (random.below(3) > 0).then_some(most);
                    life.reopen();
                }
                2 | 3 => {
                    far.fail_after([random.below(20), u64::MAX][random.below(2) as usize]);
                    let place = random.below(life.past.len().max(1) as u64) as usize;
                    if let Some(state) = life.past.get(place) {
                        let (key, bookmark, value) =
                            (state.key, state.bookmark, state.value.clone());
                        let read = life.store.database_at(key, &bookmark);
                        outages += usize::from(read.is_err_and(|of| of.kind() == ErrorKind::Busy));
                        far.set_down(false);
                        match life.at(&bookmark, key) {
                            Ok(found) => assert_eq!(found, value, "seed {seed}, step {step}"),
                            // It was folded.
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Input, "{error}"),
                        }
                    }
                }
                4 => {
                    far.fail_after([random.below(20), u64::MAX][random.below(2) as usize]);
                    let before = runs_on(&life.disk);
                    settle(&life);
                    moved += usize::from(runs_on(&life.disk) != before);
                }
                _ => life.step(&mut random),
            }
            far.set_down(false);
        }
        assert_eq!(values(&life), newest(&life.past), "seed {seed}");
        let damaged = manifest(&life.disk)["damaged"].clone();
        assert_eq!(damaged, serde_json::json!([]), "seed {seed}");
        assert_eq!(life.store.stats().archive_holes, 0, "seed {seed}");
        life.store.verify_archive().unwrap();
    }
    assert!(moved > 20 && outages > 0, "{moved} {outages}");
}

#[test]
fn s15_a_crash_while_runs_leave_or_return_loses_none() {
    for (before, after) in [(None, Some(0)), (Some(0), None)] {
        let (mut life, far) = copied(before);
        settle(&life);
        life.local_bytes = after;
        let (start, options) = (life.disk.after_kill(), life.options());
        for stop in 0..10_000 {
            let disk = start.after_kill();
            disk.stop_at(disk.changes() + stop);
            let open = |disk| Store::open(Arc::new(disk), Path::new(DIR), options.clone());
            let work = || -> Result<()> {
                let store = open(disk.clone())?;
                if disk.has_stopped() {
                    return Ok(());
                }
                far.copy(&store, &disk);
                for _ in 0..30 {
                    store.run_maintenance()?;
                }
                flush(&store);
                Ok(())
            };
            let done = work().is_ok() && !disk.has_stopped();
            let disk = disk.crash(stop);
            let store = open(disk.clone()).unwrap();
            store.verify_archive().unwrap();
            assert_eq!(manifest(&disk)["damaged"], serde_json::json!([]));
            let runs = store.history_copy().unwrap().runs;
            let here = runs.iter().filter(|run| run.remote.is_none());
            assert_eq!(here.count(), runs_on(&disk), "power cut at change {stop}");
            drop(store);
            if done {
                life.open(&disk);
                each_state_is_there(&mut life);
                break;
            }
        }
    }
}

#[test]
fn history_of_a_lost_store_can_be_given_up() {
    let (mut life, far) = copied(Some(0));
    settle(&life);
    let key = life.key("First", 1);
    let lost = life.past.iter().find(|of| of.key == key).unwrap().bookmark;
    life.put(key, "later");
    life.checkpoint();
    let present = values(&life);
    far.set_down(true);
    let gone = life.store.give_up_remote_history().unwrap();
    assert!(gone > 0);
    assert_eq!(life.store.give_up_remote_history().unwrap(), 0);
    life.remote = None;
    life.reopen();
    assert_eq!(values(&life), present);
    let refused = life.store.restore(key, &lost).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Input, "{refused}");
    // Each object gets a state in the archive again.
    for _ in 0..50 {
        life.pass(60_000);
        life.store.run_maintenance().unwrap();
    }
    assert!(life.store.stats().archive_complete);
    life.store.verify_archive().unwrap();
    let copy = life.copy();
    let restored = copy.restore(&life);
    life.open(&restored);
    assert_eq!(values(&life), present);
}

#[test]
fn history_that_objects_need_cannot_be_given_up() {
    let (mut life, far) = copied(Some(0));
    settle(&life);
    let copy = life.copy();
    let disk = super::remote::restored(&copy, &far, &life.options(), |_| false);
    life.open(&disk);
    let refused = life.store.give_up_remote_history().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
}

#[test]
fn the_past_is_read_while_runs_leave_and_return() {
    let (disk, far) = (SimDisk::new(), Far::empty());
    // More than some runs and less than all.
    let archive = ArchiveOptions::default().local_bytes(20_000);
    let options = StoreOptions::small()
        .checkpoint_interval(Duration::from_millis(5))
        .archive(archive)
        .remote_runs(Some(Arc::new(far.clone()) as Arc<dyn RemoteRuns>));
    let open = || Store::open(Arc::new(disk.clone()), Path::new(DIR), options.clone());
    let store = open().unwrap();
    let key = |id| ObjectKey {
        namespace: store.namespace("First").unwrap(),
        id: [id; 32],
    };
    let past = Mutex::new(Vec::new());
    let is_done = AtomicBool::new(false);
    let read = thread::scope(|threads| {
        threads.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                far.copy(&store, &disk);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let readers = [1, 2].map(|seed| {
            let (store, past, is_done) = (&store, &past, &is_done);
            threads.spawn(move || {
                let (mut random, mut read) = (SplitMix64::new(seed), 0);
                while !is_done.load(Ordering::SeqCst) {
                    let known = past.lock().unwrap().clone();
                    let Some(length) = NonZero::new(known.len() as u64) else {
                        continue;
                    };
                    let (key, bookmark, number): (ObjectKey, Bookmark, u32) =
                        known[random.below(length.get()) as usize];
                    let database = store.database_at(key, &bookmark).unwrap();
                    let mut bytes = vec![0; database.len() as usize];
                    database.read_at(&mut bytes, 0).unwrap();
                    let written = format!("commit {number}.");
                    let is_there = bytes
                        .windows(written.len())
                        .any(|of| of == written.as_bytes());
                    assert!(is_there, "{written} of {key} at {bookmark}");
                    read += 1;
                }
                read
            })
        });
        let mut random = SplitMix64::new(0);
        for number in 0..1_500 {
            let key = key(random.below(9) as u8);
            let db = store.open_object(key).unwrap();
            let text = noise(random.below(1 << 40), random.below(9_000) as usize);
            db.kv_put(&random.below(40).to_string(), &text).unwrap();
            db.kv_put("number", format!("commit {number}.").as_bytes())
                .unwrap();
            db.commit().unwrap();
            drop(db);
            let bookmark = store.bookmark(key).unwrap();
            past.lock().unwrap().push((key, bookmark, number));
        }
        is_done.store(true, Ordering::SeqCst);
        readers.map(|reader| reader.join().unwrap())
    });
    assert!(read.iter().all(|read| *read > 20), "{read:?}");
    let stats = store.stats();
    assert_eq!((stats.archive_holes, stats.history_losses), (0, 0));
    assert_eq!(manifest(&disk)["damaged"], serde_json::json!([]));
    store.verify_archive().unwrap();
    store.close().unwrap();
}
