//! Segments of the log begin small and grow with what is written.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, key, read_file, segments};
use abide_storage::{ObjectDb, SimDisk, Store, StoreOptions};
use std::{path::Path, sync::Arc};

const MIB: usize = 1 << 20;

fn options() -> StoreOptions {
    StoreOptions::default()
        .segment_bytes(8 << 20)
        .checkpoint_bytes(64 << 20)
        .manual(true)
}

fn open(disk: &SimDisk, options: StoreOptions) -> Store {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

/// The sizes of the log's segments, oldest first.
fn sizes(disk: &SimDisk) -> Vec<usize> {
    let paths = segments(disk);
    paths
        .iter()
        .map(|path| read_file(disk, path).len())
        .collect()
}

fn value(n: usize) -> Vec<u8> {
    (0..100_000)
        .map(|i: usize| (i.wrapping_mul(2_654_435_761) >> 7) as u8 ^ n as u8)
        .collect()
}

fn write(store: &Store, db: &ObjectDb, numbers: std::ops::Range<usize>) {
    for n in numbers {
        db.kv_put(&format!("{n:04}"), &value(n)).unwrap();
        db.commit().unwrap();
        store.write_group();
        store.run_maintenance().unwrap();
    }
}

#[test]
fn a_counter_takes_little_room() {
    let disk = SimDisk::new();
    let options = StoreOptions::default().manual(true);
    // A new epoch begins a segment each time.
    for n in 0..20_u32 {
        let store = open(&disk, options.clone());
        let db = store.open_object(key(&store, 1)).unwrap();
        db.kv_put("count", &n.to_le_bytes()).unwrap();
        db.commit().unwrap();
        drop(db);
        store.close().unwrap();
        let used = disk.used();
        assert!(used < 3 << 20, "{used} bytes after {n} starts");
    }
}

#[test]
fn segments_grow_with_the_log_and_are_small_again_after_a_restart() {
    let disk = SimDisk::new();
    let store = open(&disk, options());
    let db = store.open_object(key(&store, 1)).unwrap();
    assert_eq!(sizes(&disk), [MIB / 2; 2]);
    write(&store, &db, 0..300);
    let grown = sizes(&disk);
    assert!(grown.is_sorted(), "{grown:?}");
    assert_eq!(grown.last(), Some(&(8 * MIB)), "{grown:?}");
    let small = grown.iter().filter(|bytes| **bytes < 8 * MIB).count();
    assert!(small <= 8, "they grow slowly: {grown:?}");

    // A checkpoint gives them back, and the largest are written again.
    store.checkpoint().unwrap();
    let kept = sizes(&disk);
    assert!(
        kept.len() <= 5 && kept.iter().all(|bytes| *bytes == 8 * MIB),
        "{kept:?}"
    );
    write(&store, &db, 300..310);
    drop(db);
    store.close().unwrap();
    drop(store);

    let store = open(&disk, options());
    let db = store.open_object(key(&store, 1)).unwrap();
    write(&store, &db, 310..311);
    // The one that the restart replays, the one in use, and two prepared.
    let small = MIB / 2;
    assert_eq!(sizes(&disk), [8 * MIB, small, small, small]);
    for n in 0..311 {
        assert_eq!(db.kv_get(&format!("{n:04}")).unwrap(), Some(value(n)));
    }
}

#[test]
fn a_large_transaction_gets_large_segments() {
    let disk = SimDisk::new();
    let store = open(&disk, options());
    let db = store.open_object(key(&store, 1)).unwrap();
    for n in 0..200 {
        db.kv_put(&format!("{n:04}"), &value(n)).unwrap();
    }
    db.commit().unwrap();
    let sizes = sizes(&disk);
    assert!(sizes.len() <= 7, "{sizes:?}");
    assert_eq!(sizes.last(), Some(&(8 * MIB)), "{sizes:?}");
}

/// What is durable is found, wherever the log was when the power went.
#[test]
fn a_log_that_grows_survives_a_crash_at_any_write() {
    let numbers = 0..60;
    let run = |stop_at: Option<u64>| {
        let disk = SimDisk::new();
        if let Some(change) = stop_at {
            disk.stop_at(change);
        }
        let mut durable = 0;
        let _ended = (|| -> abide_storage::Result<()> {
            let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options())?;
            let namespace = store.namespace("tests")?;
            let key = abide_storage::ObjectKey {
                namespace,
                id: [1; 32],
            };
            let db = store.open_object(key)?;
            for n in numbers.clone() {
                db.kv_put(&format!("{n:04}"), &value(n))?;
                let lsn = db.commit()?.unwrap();
                store.write_group();
                if store.durable() >= lsn {
                    durable = n + 1;
                }
                if n == 40 {
                    store.checkpoint()?;
                }
                store.run_maintenance()?;
            }
            Ok(())
        })();
        (disk, durable)
    };
    let (whole, all) = run(None);
    assert_eq!(all, numbers.end);
    for stop_at in 0..whole.changes() {
        let (disk, durable) = run(Some(stop_at));
        let disk = disk.crash(stop_at);
        let store = open(&disk, options());
        let db = store.open_object(key(&store, 1)).unwrap();
        for n in 0..durable {
            let found = db.kv_get(&format!("{n:04}")).unwrap();
            assert!(
                found == Some(value(n)),
                "{n} of {durable} is lost after {stop_at} changes"
            );
        }
        // It continues, and is found again.
        write(&store, &db, durable..durable + 2);
        drop(db);
        drop(store);
        let store = open(&disk, options());
        let db = store.open_object(key(&store, 1)).unwrap();
        let found = db.kv_get(&format!("{:04}", durable + 1)).unwrap();
        assert!(found == Some(value(durable + 1)), "after {stop_at} changes");
    }
}
