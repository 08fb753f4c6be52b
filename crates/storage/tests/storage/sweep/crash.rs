//! A sweep that a crash interrupts.

use abide_storage::{ArchiveOptions, SimDisk, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, flush, key, open};
use crate::sweep::copies::{FromRuns, Keys, content, delete, sweep};

const OBJECTS: u8 = 9;
/// Deleted while the archive is off.
const DELETED: u8 = 3;

fn open_store(disk: &SimDisk, is_on: bool) -> abide_storage::Result<Store> {
    let options = StoreOptions::small()
        .manual(true)
        .archive(ArchiveOptions::default().enabled(is_on));
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options)
}

fn put(store: &Store, id: u8, value: &[u8]) {
    let db = open(store, id);
    db.kv_put("k", value).unwrap();
    db.commit().unwrap();
    flush(store);
}

/// A directory whose archive lacks objects, one that is damaged by age, and one deletion.
fn prepared() -> SimDisk {
    let disk = SimDisk::new();
    let store = open_store(&disk, true).unwrap();
    for id in 0..=DELETED {
        put(&store, id, b"archived");
    }
    store.close().unwrap();
    drop(store);
    let store = open_store(&disk, false).unwrap();
    for id in 2..OBJECTS {
        put(&store, id, &[id; 9_000]);
    }
    delete(&store, DELETED);
    store.close().unwrap();
    disk
}

fn expected(id: u8) -> Keys {
    let value = match id {
        0 | 1 => b"archived".to_vec(),
        DELETED => return Keys::new(),
        id => vec![id; 9_000],
    };
    Keys::from([("k".to_owned(), value)])
}

#[test]
fn s22_a_crash_at_any_change_of_a_sweep_leaves_it_to_the_next() {
    let prepared = prepared();
    let (mut stops, mut is_done) = (0, false);
    while !is_done {
        let disk = prepared.after_kill();
        disk.stop_at(disk.changes() + stops);
        if let Ok(store) = open_store(&disk, true) {
            for _ in 0..3 {
                let _ = store.run_maintenance();
            }
            is_done = store.stats().archive_complete;
        }
        let disk = disk.crash(stops);
        let store = open_store(&disk, true).unwrap();
        sweep(&store);
        let copy = store.history_copy().unwrap();
        let mut built = FromRuns::new(&disk, &copy);
        for id in 0..OBJECTS {
            let context = format!("object {id} after {stops} changes");
            assert!(
                built.state(key(&store, id)).unwrap() == expected(id),
                "{context}: in the runs"
            );
            assert!(content(&open(&store, id)) == expected(id), "{context}");
        }
        store.verify_archive().unwrap();
        stops += 1;
    }
    assert!(stops > 8, "{stops}");
}
