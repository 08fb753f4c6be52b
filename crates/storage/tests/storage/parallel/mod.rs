//! Checkpoints and the compression of history by several threads, as on a machine with many cores: what they write is
//! what one thread writes, and what goes wrong in one of them is answered as if there were no others.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common;
use crate::common::{DIR, flush, key, read_file};
use abide_storage::{
    Disk as _, DiskOp, ErrorKind, Fault, FaultyDisk, ObjectDb, ObjectKey, SimDisk, Store,
    StoreOptions, errno::EIO,
};
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ONE: usize = 1;
const MANY: usize = 16;

/// A store that the test drives, with a clock that stands still.
fn options(cores: usize) -> StoreOptions {
    StoreOptions::small()
        .manual(true)
        .cores(NonZero::new(cores))
        .unix_millis(Arc::new(|| 1_000_000))
}

fn store(disk: &FaultyDisk, cores: usize) -> Store {
    let disk = Arc::new(disk.clone());
    Store::open(disk, Path::new(DIR), options(cores)).expect("the store opens")
}

/// Bytes that compress to about a half, others for each number.
fn noise(n: u64, length: usize) -> Vec<u8> {
    let mut x = n * 7919 + 88_172_645_463_325_252;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8 & 0xf
    };
    (0..length).map(next).collect()
}

fn put(store: &Store, key: ObjectKey, name: &str, value: &[u8]) -> ObjectDb {
    let db = store.open_object(key).expect("the object");
    db.kv_put(name, value).expect("a value");
    db.commit().expect("a commit");
    flush(store);
    db
}

/// Every file below a directory, with what is in it.
fn files(disk: &SimDisk, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![Path::new(DIR).join(dir)];
    while let Some(dir) = dirs.pop() {
        for name in disk.list(&dir).unwrap() {
            let path = dir.join(name);
            if disk.list(&path).unwrap().is_empty() {
                found.insert(path.clone(), read_file(disk, &path));
            } else {
                dirs.push(path);
            }
        }
    }
    found
}

#[test]
fn several_threads_write_the_same_files_and_history_as_one() {
    let written = |cores| {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk, cores);
        // So few files that they are synced one by one, then more.
        for (round, objects) in [(0, 40), (1, 40), (2, 100), (3, 100), (4, 7)] {
            for id in 0..objects {
                let length = 1 + usize::from(id) * 700;
                let value = noise(round * 1000 + u64::from(id), length);
                drop(put(&store, key(&store, id), &format!("{round}"), &value));
            }
            store.checkpoint().unwrap();
        }
        // Enough runs for a merge.
        for round in 5..12 {
            drop(put(&store, key(&store, 3), "k", &noise(round, 300_000)));
            store.checkpoint().unwrap();
            store.run_maintenance().unwrap();
        }
        assert!(store.verify_archive().unwrap() > 0);
        store.close().unwrap();
        drop(store);
        (files(&disk.sim, "objects"), files(&disk.sim, "archive"))
    };
    let (objects, archive) = written(ONE);
    assert_eq!(objects.len(), 100);
    assert!(archive.values().map(Vec::len).sum::<usize>() > 1_000_000);
    let (again, archive_again) = written(MANY);
    assert!(objects == again, "object files differ");
    assert!(archive == archive_again, "runs of the archive differ");
}

#[test]
fn a_file_that_cannot_be_written_quarantines_its_object_alone() {
    for cores in [ONE, MANY] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk, cores);
        for id in 0..50 {
            drop(put(
                &store,
                key(&store, id),
                "k",
                &noise(u64::from(id), 5000),
            ));
        }
        let failing = key(&store, 20);
        disk.fail(&[DiskOp::Write], &failing.id_hex(), EIO);
        for _ in 0..2 {
            let error = store.checkpoint().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io);
            assert_eq!(store.quarantined(), []);
        }
        store.checkpoint().unwrap();
        let quarantined = store.quarantined();
        assert_eq!(quarantined.len(), 1, "{cores} cores: {quarantined:?}");
        assert_eq!(quarantined[0].key, failing);
        assert!(!store.failed());
        for id in (0..50).filter(|id| *id != 20) {
            let db = store.open_object(key(&store, id)).unwrap();
            let value = db.kv_get("k").unwrap();
            assert!(value == Some(noise(u64::from(id), 5000)));
        }
    }
}

#[test]
fn a_sync_that_fails_in_one_thread_is_final_for_the_node() {
    for cores in [ONE, MANY] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk, cores);
        for id in 0..50 {
            drop(put(&store, key(&store, id), "k", b"value"));
        }
        disk.fail(&[DiskOp::Sync], &key(&store, 33).id_hex(), EIO);
        let error = store.checkpoint().unwrap_err();
        assert!(error.to_string().contains("syncing"), "{error}");
        assert!(store.failed(), "{cores} cores");
        // Nothing of it was published: a recovery finds everything in the log.
        disk.clear();
        drop(store);
        let disk = FaultyDisk::new(disk.sim.crash(7));
        let store = self::store(&disk, cores);
        for id in 0..50 {
            let db = store.open_object(key(&store, id)).unwrap();
            assert_eq!(db.kv_get("k").unwrap().as_deref(), Some(&b"value"[..]));
        }
    }
}

#[test]
fn an_archive_that_cannot_be_written_keeps_the_log() {
    for cores in [ONE, MANY] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk, cores);
        let first = put(&store, key(&store, 1), "k", &noise(1, 1_500_000)).bookmark();
        drop(put(&store, key(&store, 1), "k", b"after"));
        disk.inject(&[DiskOp::Write], "/archive/", Fault::error(EIO).times(1));
        store.checkpoint().unwrap();
        assert!(store.stats().archive_failing, "{cores} cores");
        store.checkpoint().unwrap();
        assert!(!store.stats().archive_failing);
        store.restore(key(&store, 1), &first).unwrap();
        let db = store.open_object(key(&store, 1)).unwrap();
        assert!(db.kv_get("k").unwrap() == Some(noise(1, 1_500_000)));
    }
}

#[test]
fn a_checkpoint_is_recorded_only_when_the_last_thread_has_synced() {
    let disk = FaultyDisk::default();
    let options = StoreOptions::small().cores(NonZero::new(MANY));
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    for id in 0..40 {
        let db = store.open_object(key(&store, id)).unwrap();
        db.kv_put("k", b"value").unwrap();
        let lsn = db.commit().unwrap().unwrap();
        while store.durable() < lsn {
            std::thread::yield_now();
        }
    }
    let manifest = || read_file(&disk.sim, &Path::new(DIR).join("MANIFEST"));
    let before = manifest();
    disk.hold(&[DiskOp::Sync], &key(&store, 11).id_hex());
    let checkpoint = std::thread::spawn({
        let store = store.clone();
        move || store.checkpoint()
    });
    disk.wait_until_held();
    // The power fails while all the others may have been synced.
    let crashed = disk.sim.crash(3);
    assert!(before == manifest() && store.stats().checkpoints == 0);
    disk.clear();
    checkpoint.join().unwrap().unwrap();
    assert!(before != manifest() && store.stats().checkpoints == 1);
    store.close().unwrap();
    let store = common::manual(&crashed);
    for id in 0..40 {
        let db = common::open(&store, id);
        assert_eq!(db.kv_get("k").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn a_panic_of_one_thread_ends_the_store_loudly() {
    let disk = FaultyDisk::default();
    let options = StoreOptions::small()
        .cores(NonZero::new(MANY))
        .checkpoint_interval(std::time::Duration::from_millis(20));
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    disk.inject(&[DiskOp::Sync], ".sqlite", Fault::panic());
    for id in 0..40 {
        let db = store.open_object(key(&store, id)).unwrap();
        db.kv_put("k", b"value").unwrap();
        // It may have ended by now.
        let _ = db.commit();
    }
    let begun = std::time::Instant::now();
    while !store.failed() {
        assert!(begun.elapsed() < std::time::Duration::from_mins(1));
        std::thread::yield_now();
    }
    assert!(store.close().is_err());
}
