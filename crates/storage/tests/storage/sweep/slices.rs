//! Sweeps are done in slices, beside everything else.

use abide_storage::limits::{ARCHIVE_SWEEP_BYTES, ARCHIVE_SWEEP_OBJECTS};
use abide_storage::{ArchiveOptions, DiskOp, FaultyDisk, ObjectKey, SimDisk, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{DIR, flush, key, open};
use crate::faults::world;
use crate::recovery_points::world::{noise, off};
use crate::sweep::copies::{FromRuns, sweep};

fn options(is_on: bool) -> StoreOptions {
    StoreOptions::small()
        .manual(true)
        .archive(ArchiveOptions::default().enabled(is_on))
}

fn open_store(disk: &SimDisk, is_on: bool) -> Store {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options(is_on)).unwrap()
}

fn nth_key(store: &Store, n: u64) -> ObjectKey {
    let mut key = key(store, 0);
    key.id[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    // All in one directory, so that only the slices are bounds.
    key.id[0] = 7;
    key
}

/// The number of objects in each run.
fn objects_of_runs(store: &Store) -> Vec<u64> {
    let manifest = String::from_utf8(store.history_copy().unwrap().manifest).unwrap();
    let lines = manifest.lines().map(str::trim);
    let objects = lines.filter_map(|line| line.strip_prefix("\"objects\": "));
    objects
        .map(|number| number.trim_end_matches(',').parse().unwrap())
        .collect()
}

#[test]
fn a_sweep_of_many_objects_takes_bounded_slices() {
    const OBJECTS: u64 = 2_000;
    let disk = SimDisk::new();
    let store = open_store(&disk, false);
    for n in 0..OBJECTS {
        let db = store.open_object(nth_key(&store, n)).unwrap();
        db.kv_put("n", &n.to_le_bytes()).unwrap();
        db.commit().unwrap();
        drop(db);
        if n % 100 == 0 {
            flush(&store);
        }
    }
    store.close().unwrap();
    drop(store);
    // A start does the first slice.
    let store = open_store(&disk, true);
    assert_eq!(objects_of_runs(&store), [ARCHIVE_SWEEP_OBJECTS as u64]);
    let mut slices = 1;
    while !store.stats().archive_complete {
        let before = objects_of_runs(&store).iter().sum::<u64>();
        store.run_maintenance().unwrap();
        let added = objects_of_runs(&store).iter().sum::<u64>() - before;
        assert!(added <= ARCHIVE_SWEEP_OBJECTS as u64, "{added}");
        slices += u64::from(added > 0);
        assert!(slices < 100);
    }
    assert_eq!(slices, OBJECTS.div_ceil(ARCHIVE_SWEEP_OBJECTS as u64));
    let objects = objects_of_runs(&store);
    assert_eq!(objects.iter().sum::<u64>(), OBJECTS, "{objects:?}");
    let copy = store.history_copy().unwrap();
    let mut built = FromRuns::new(&disk, &copy);
    for n in (0..OBJECTS).step_by(97) {
        let state = built.state(nth_key(&store, n)).unwrap();
        assert_eq!(state["n"], n.to_le_bytes());
    }
}

#[test]
fn a_slice_has_a_bounded_number_of_bytes() {
    let disk = SimDisk::new();
    let store = open_store(&disk, false);
    for id in 1..=5 {
        let db = open(&store, id);
        for part in 0..10 {
            let bytes = noise(u64::from(id) * 10 + part, ARCHIVE_SWEEP_BYTES as usize / 20);
            db.kv_put(&format!("{part}"), &bytes).unwrap();
        }
        db.commit().unwrap();
        drop(db);
        store.write_group();
        store.run_maintenance().unwrap();
    }
    store.close().unwrap();
    drop(store);
    let store = open_store(&disk, true);
    sweep(&store);
    // Each is a little larger than half of a slice.
    assert_eq!(objects_of_runs(&store), [2, 2, 1]);
}

#[test]
fn commits_do_not_wait_for_a_sweep() {
    let disk = FaultyDisk::default();
    let open_threaded = |archive: ArchiveOptions| {
        let options = StoreOptions::small().archive(archive);
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let put = |store: &Store, id: u8, n: u64| {
        let db = open(store, id);
        db.kv_put("k", &n.to_le_bytes()).unwrap();
        db.commit().unwrap();
        let end = db.newest();
        let begun = Instant::now();
        while store.durable() < end {
            assert!(begun.elapsed() < Duration::from_mins(1), "a commit waits");
            std::thread::yield_now();
        }
    };
    let store = open_threaded(off());
    for id in 1..=20 {
        put(&store, id, 0);
    }
    store.close().unwrap();
    drop(store);
    disk.hold(&[DiskOp::Write], "/archive/");
    let store = open_threaded(ArchiveOptions::default());
    disk.wait_until_held();
    for n in 1..200 {
        put(&store, 1, n);
        put(&store, 30, n);
    }
    assert!(!store.stats().archive_complete);
    disk.clear();
    let begun = Instant::now();
    while !store.stats().archive_complete {
        assert!(begun.elapsed() < Duration::from_mins(1), "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    store.close().unwrap();
    let copy = store.history_copy().unwrap();
    assert!(copy.is_complete);
    let mut built = FromRuns::new(&disk.sim, &copy);
    for (id, n) in [(1, 199_u64), (2, 0), (20, 0), (30, 199)] {
        let state = built.state(key(&store, id)).unwrap();
        assert_eq!(state["k"], n.to_le_bytes(), "object {id}");
    }
}

#[test]
fn s22_objects_that_a_checkpoint_has_written_ahead_get_into_a_sweep() {
    let disk = FaultyDisk::default();
    let store = world::store_without_archive(&disk);
    // The first slice has enough to do without the objects that the checkpoint writes.
    for n in 0..ARCHIVE_SWEEP_OBJECTS as u64 + 50 {
        let mut key = nth_key(&store, n);
        key.id[0] = (n % 200) as u8;
        let db = store.open_object(key).unwrap();
        db.kv_put("k", b"old").unwrap();
        db.commit().unwrap();
    }
    let late = 220..250_u8;
    for id in late.clone() {
        world::put(&store, id, "old").unwrap();
    }
    store.close().unwrap();
    drop(store);

    let store = world::store(&disk);
    assert!(!store.stats().archive_complete);
    let open: Vec<_> = late.clone().map(|id| open(&store, id)).collect();
    world::put(&store, 210, "dirty").unwrap();
    disk.hold(&[DiskOp::Write], world::path(&store, 210).to_str().unwrap());
    let checkpoint = {
        let store = store.clone();
        std::thread::spawn(move || store.checkpoint())
    };
    disk.wait_until_held();
    // After the redo position, and for most before the checkpoint comes to their files.
    for (round, db) in (0..3).flat_map(|round| open.iter().map(move |db| (round, db))) {
        db.kv_put("k", format!("new {round}").as_bytes()).unwrap();
        db.commit().unwrap();
    }
    flush(&store);
    disk.clear();
    checkpoint.join().unwrap().unwrap();
    for _ in 0..5 {
        store.run_maintenance().unwrap();
    }
    assert!(
        !store.stats().archive_complete,
        "their newest commits are not archived yet"
    );
    store.checkpoint().unwrap();
    sweep(&store);
    let copy = store.history_copy().unwrap();
    let mut built = FromRuns::new(&disk.sim, &copy);
    for id in late {
        let state = built.state(key(&store, id)).unwrap();
        assert_eq!(state["k"], b"new 2", "object {id}");
    }
}
