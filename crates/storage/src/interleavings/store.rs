//! Models of a whole store with its threads: opening, committing and closing objects during checkpoints, and disks that
//! are slow in one place.

use super::{explore, spawn};
use crate::{DiskOp, FaultyDisk, ObjectDb, ObjectKey, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;

/// A whole store takes many steps, so fewer schedules fit.
const SCHEDULES: usize = 100;

fn open(disk: &FaultyDisk, checkpoint_bytes: u64) -> Store {
    let options = StoreOptions {
        checkpoint_bytes,
        ..StoreOptions::small()
    };
    Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap()
}

fn key(store: &Store, id: u8) -> ObjectKey {
    let namespace = store.namespace("model").unwrap();
    ObjectKey {
        namespace,
        id: [id; 32],
    }
}

fn put(db: &ObjectDb, value: &[u8]) {
    db.kv_put("key", value).unwrap();
    db.commit().unwrap();
}

/// Bytes that neither SQLite nor the log can compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed * 7919 + 88_172_645_463_325_252;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(next).collect()
}

#[test]
fn commits_continue_while_a_checkpoint_waits_for_its_disk() {
    explore(SCHEDULES, || {
        let disk = FaultyDisk::default();
        let store = open(&disk, 1 << 20);
        let db = store.open_object(key(&store, 1)).unwrap();
        put(&db, b"begun");
        disk.hold(&[DiskOp::Sync, DiskOp::BarrierWait], "/objects");
        // Three times the checkpoint threshold; at four times, commits would wait for the checkpoint.
        for n in 0..16 {
            put(&db, &noise(n, 200_000));
        }
        disk.clear();
        drop(db);
        store.close().unwrap();
    });
}

#[test]
fn objects_open_while_the_manifest_is_synced() {
    explore(SCHEDULES, || {
        let disk = FaultyDisk::default();
        let store = open(&disk, 1 << 20);
        let key = key(&store, 1);
        disk.hold(&[DiskOp::Sync], "MANIFEST");
        let other = store.clone();
        let namespace = spawn(move || other.namespace("another").unwrap());
        let db = store.open_object(key).unwrap();
        put(&db, b"value");
        disk.clear();
        namespace.join().unwrap();
        drop(db);
        store.close().unwrap();
    });
}

#[test]
fn other_objects_open_while_one_is_read() {
    explore(SCHEDULES, || {
        let disk = FaultyDisk::default();
        let store = open(&disk, 1 << 20);
        let (slow, other) = (key(&store, 1), key(&store, 2));
        put(&store.open_object(slow).unwrap(), b"value");
        store.checkpoint().unwrap();
        disk.hold(&[DiskOp::Read], "/objects/");
        let openers = [0, 1].map(|_| {
            let store = store.clone();
            spawn(move || store.open_object(slow).map(drop))
        });
        let db = store.open_object(other).unwrap();
        put(&db, b"value");
        disk.clear();
        let opened = openers.map(|opener| opener.join().unwrap().is_ok());
        assert!(opened.contains(&true));
        drop(db);
        store.close().unwrap();
    });
}

#[test]
fn an_object_that_is_opened_and_closed_beside_checkpoints_loses_nothing() {
    explore(SCHEDULES, || {
        let disk = FaultyDisk::default();
        let store = open(&disk, 1 << 20);
        let keys = [1, 2].map(|id| key(&store, id));
        let writers = keys.map(|key| {
            let store = store.clone();
            spawn(move || {
                for n in 0_u8..3 {
                    let db = store.open_object(key).unwrap();
                    let before = db.kv_get("key").unwrap();
                    assert_eq!(before, n.checked_sub(1).map(|before| vec![before]));
                    put(&db, &[n]);
                }
            })
        });
        let checkpoints = {
            let store = store.clone();
            spawn(move || {
                for _ in 0..2 {
                    store.checkpoint().unwrap();
                }
            })
        };
        for writer in writers {
            writer.join().unwrap();
        }
        checkpoints.join().unwrap();
        store.close().unwrap();
        drop(store);
        let store = open(&disk, 1 << 20);
        for key in keys {
            let db = store.open_object(key).unwrap();
            assert_eq!(db.kv_get("key").unwrap(), Some(vec![2]));
        }
        store.close().unwrap();
    });
}

#[test]
fn a_store_closes_beside_everything_else() {
    explore(SCHEDULES, || {
        let disk = FaultyDisk::default();
        let store = open(&disk, 1 << 20);
        let key = key(&store, 1);
        let other = store.clone();
        let writer = spawn(move || {
            let Ok(db) = other.open_object(key) else {
                return;
            };
            db.kv_put("key", b"value").unwrap();
            // The store may be closed by now.
            let _ = db.commit();
        });
        let other = store.clone();
        let closer = spawn(move || other.close());
        store.close().unwrap();
        closer.join().unwrap().unwrap();
        writer.join().unwrap();
    });
}
