//! A store that is closed leaves its directory to others.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, key, read_file};
use abide_storage::{Disk, DiskOp, ErrorKind, FaultyDisk, Result, SimDisk, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;

fn open<D: Disk + Clone>(disk: &D) -> Result<Store> {
    let disk = Arc::new(disk.clone());
    Store::open(disk, Path::new(DIR), StoreOptions::small())
}

/// A new store with an object whose pages are not in its file yet.
fn with_object<D: Disk + Clone>(disk: &D) -> Store {
    let store = open(disk).unwrap();
    let db = store.open_object(key(&store, 1)).unwrap();
    db.kv_put("k", b"value").unwrap();
    db.commit().unwrap();
    store
}

#[test]
fn a_closed_store_changes_nothing_in_a_directory_that_another_has_opened() {
    let disk = SimDisk::new();
    let store = with_object(&disk);
    store.close().unwrap();
    let next = open(&disk).unwrap();
    let manifest = || read_file(&disk, &Path::new(DIR).join("MANIFEST"));
    let before = manifest();
    store.close().unwrap();
    for refused in [store.checkpoint(), store.namespace("another").map(drop)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::LogFailed);
    }
    assert!(before == manifest());
    next.close().unwrap();
}

#[test]
fn a_store_that_is_closed_twice_stays_locked_until_its_files_are_written() {
    let disk = FaultyDisk::default();
    let store = with_object(&disk);
    disk.hold(&[DiskOp::Sync], &key(&store, 1).id_hex());
    let closing = || {
        let store = store.clone();
        std::thread::spawn(move || store.close())
    };
    let first = closing();
    disk.wait_until_held();
    let second = closing();
    // Time for a second call that does not wait.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let refused = open(&disk).err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::InUse));
    disk.clear();
    for closed in [first, second] {
        closed.join().unwrap().unwrap();
    }
    open(&disk).unwrap().close().unwrap();
}
