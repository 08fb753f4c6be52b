//! A class is deleted with all its objects.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, flush, manual};
use abide_storage::{
    AlarmRow, AlarmState, ArchiveOptions, Disk as _, DiskOp, ErrorKind, FaultyDisk, ObjectDb,
    ObjectKey, OpenMode, RealDisk, Result, SimDisk, Store, StoreOptions, errno::EIO,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

const OBJECTS: u8 = 3;

/// Opens an object of a class. Begins the class if there is none.
fn object(store: &Store, class: &str, id: u8) -> Result<ObjectDb> {
    let namespace = store.namespace(class)?;
    store.open_object(ObjectKey {
        namespace,
        id: [id; 32],
    })
}

fn put(store: &Store, class: &str, id: u8) -> Result<()> {
    let db = object(store, class, id)?;
    db.kv_put("k", class.as_bytes())?;
    db.set_alarm(Some(&AlarmRow::at(1_000)))?;
    db.commit()?;
    flush(store);
    Ok(())
}

fn get(store: &Store, class: &str, id: u8) -> Option<Vec<u8>> {
    object(store, class, id).unwrap().kv_get("k").unwrap()
}

/// The classes of a store.
fn classes(store: &Store) -> Vec<String> {
    store.namespaces().into_iter().map(|(_, key)| key).collect()
}

fn alarms(store: &Store) -> usize {
    store.alarms().list(AlarmState::Pending, None, 100).len()
}

/// A store with objects of two classes, some of them not in files yet.
fn two_classes(store: &Store) {
    for class in ["Kept", "Gone"] {
        for id in 0..OBJECTS {
            put(store, class, id).unwrap();
            if id == 1 {
                store.checkpoint().unwrap();
            }
        }
    }
}

fn has_files(disk: &SimDisk, class: &str) -> bool {
    let dir = Path::new(DIR).join("objects").join(class);
    let parts = disk.list(&dir).unwrap();
    parts
        .iter()
        .any(|part| !disk.list(&dir.join(part)).unwrap().is_empty())
}

/// What must hold once a class was deleted.
fn check_gone(store: &Store, disk: &SimDisk, context: &str) {
    assert_eq!(classes(store), ["Kept"], "{context}");
    assert_eq!(alarms(store), usize::from(OBJECTS), "{context}");
    assert!(!has_files(disk, "Gone"), "{context}");
    check_kept(store, context);
}

fn check_kept(store: &Store, context: &str) {
    for id in 0..OBJECTS {
        assert_eq!(
            get(store, "Kept", id).as_deref(),
            Some(b"Kept".as_slice()),
            "{context}"
        );
    }
}

#[test]
fn a_deleted_class_is_gone_with_its_objects_alarms_and_files() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    two_classes(&store);
    let before = store.namespace("Gone").unwrap();
    assert!(store.delete_namespace("Gone").unwrap());
    assert!(!store.delete_namespace("Gone").unwrap());
    check_gone(&store, &disk, "at once");
    let of_before = store.open_object(ObjectKey {
        namespace: before,
        id: [0; 32],
    });
    assert_eq!(
        of_before.err().map(|error| error.kind()),
        Some(ErrorKind::Input)
    );
    drop(store);
    let disk = disk.crash(1);
    let store = manual(&disk);
    check_gone(&store, &disk, "after a crash");
    // Another class of this name has nothing of it.
    assert_ne!(store.namespace("Gone").unwrap(), before);
    assert_eq!(get(&store, "Gone", 0), None);
    put(&store, "Gone", 0).unwrap();
    store.checkpoint().unwrap();
    let store = manual(&disk.crash(2));
    assert_eq!(get(&store, "Gone", 0).as_deref(), Some(b"Gone".as_slice()));
    assert_eq!(get(&store, "Gone", 1), None);
    check_kept(&store, "at the end");
}

#[test]
fn a_class_with_an_open_object_is_not_deleted() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    two_classes(&store);
    let open = object(&store, "Gone", 1).unwrap();
    let refused = store.delete_namespace("Gone").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    open.kv_put("k", b"still").unwrap();
    open.commit().unwrap();
    drop(open);
    put(&store, "Gone", 0).unwrap();
    assert_eq!(get(&store, "Gone", 1).as_deref(), Some(b"still".as_slice()));
    assert!(store.delete_namespace("Gone").unwrap());
    check_gone(&store, &disk, "in the end");
}

#[test]
fn a_deletion_survives_a_loss_of_power_at_any_change_of_the_disk() {
    let (mut whole, mut gone) = (0, 0);
    for stop in 0..400 {
        let disk = SimDisk::new();
        let store = manual(&disk);
        two_classes(&store);
        disk.stop_at(disk.changes() + stop);
        let done = store.delete_namespace("Gone").is_ok();
        drop(store);
        for seed in [stop, stop + 1_000] {
            let context = format!("power cut at change {stop}, seed {seed}");
            let disk = disk.crash(seed);
            let store = manual(&disk);
            if classes(&store).len() == 2 {
                assert!(!done, "{context}: an acknowledged deletion is lost");
                whole += 1;
                for id in 0..OBJECTS {
                    assert_eq!(
                        get(&store, "Gone", id).as_deref(),
                        Some(b"Gone".as_slice()),
                        "{context}"
                    );
                }
                assert_eq!(alarms(&store), usize::from(2 * OBJECTS), "{context}");
                store.delete_namespace("Gone").unwrap();
            } else {
                gone += 1;
            }
            check_gone(&store, &disk, &context);
            // A class of this name begins anew, over another crash.
            put(&store, "Gone", 1).unwrap();
            store.checkpoint().unwrap();
            let store = manual(&disk.crash(seed));
            assert_eq!(
                get(&store, "Gone", 1).as_deref(),
                Some(b"Gone".as_slice()),
                "{context}"
            );
            assert_eq!(get(&store, "Gone", 0), None, "{context}");
            check_kept(&store, &context);
        }
        if done {
            break;
        }
        assert!(stop < 399, "the deletion never ends");
    }
    assert!(whole > 10 && gone > 10, "{whole} {gone}");
}

#[test]
fn files_that_cannot_be_removed_are_removed_later() {
    let disk = FaultyDisk::default();
    let open = || {
        let options = StoreOptions::small().manual(true);
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options)
    };
    let store = open().unwrap();
    two_classes(&store);
    disk.fail(&[DiskOp::Remove], "objects/Gone", EIO);
    store.delete_namespace("Gone").unwrap_err();
    assert_eq!(classes(&store), ["Kept"]);
    // Not until the old files are gone.
    assert_eq!(store.namespace("Gone").unwrap_err().kind(), ErrorKind::Io);
    assert!(store.delete_namespace("Gone").is_err(), "it is tried again");
    drop(store);
    let store = open().unwrap();
    assert_eq!(classes(&store), ["Kept"]);
    check_kept(&store, "while files are left");
    disk.clear();
    assert_eq!(get(&store, "Gone", 0), None);
    assert!(!has_files(&disk.sim, "Gone"));
    put(&store, "Gone", 0).unwrap();
    drop(store);
    assert_eq!(
        get(&open().unwrap(), "Gone", 0).as_deref(),
        Some(b"Gone".as_slice())
    );
}

/// A caller that wants to begin a class waits for others that change the manifest. Meanwhile one of them begins the class and
/// deletes it, except for its files.
#[test]
fn a_class_does_not_begin_again_before_its_files_are_removed() {
    const CALLERS: usize = 8;
    const ROUNDS: usize = 200;
    let disk = FaultyDisk::default();
    let options = StoreOptions::small().manual(true);
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    for round in 0..ROUNDS {
        let class = format!("Gone{round}");
        disk.fail(&[DiskOp::List], &format!("objects/{class}"), EIO);
        let begin = Barrier::new(CALLERS + 1);
        thread::scope(|scope| {
            let call = || {
                begin.wait();
                store.namespace(&class)
            };
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(call)).collect();
            begin.wait();
            let deleted = store.namespace(&class).unwrap();
            store.delete_namespace(&class).unwrap_err();
            for caller in callers {
                if let Ok(number) = caller.join().unwrap() {
                    assert_eq!(number, deleted, "round {round}: begun among old files");
                }
            }
        });
        disk.clear();
        assert!(store.delete_namespace(&class).unwrap());
    }
}

#[test]
fn a_deleted_class_gives_its_room_back() {
    let disk = SimDisk::new();
    let options = StoreOptions::small().manual(true).max_bytes(Some(8 << 20));
    let store = Store::open(Arc::new(disk), Path::new(DIR), options).unwrap();
    two_classes(&store);
    let before = store.stats().stored_bytes.unwrap();
    store.delete_namespace("Gone").unwrap();
    assert_eq!(store.stats().stored_bytes, Some(before / 2));
}

#[test]
fn a_deleted_class_gives_all_its_room_back_whatever_its_files_are() {
    let disk = FaultyDisk::default();
    let options = StoreOptions::small().manual(true).max_bytes(Some(8 << 20));
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    put(&store, "Kept", 1).unwrap();
    let before = store.stats().stored_bytes;
    for id in 0..3 {
        put(&store, "Gone", id).unwrap();
    }
    store.checkpoint().unwrap();
    // One is missing and quarantined, another one cannot be examined.
    let namespace = store.namespace("Gone").unwrap();
    let key = |id| ObjectKey {
        namespace,
        id: [id; 32],
    };
    disk.remove(&store.object_path(key(1)).unwrap()).unwrap();
    store.open_object(key(1)).unwrap_err();
    disk.fail(&[DiskOp::Open, DiskOp::Len], "objects/Gone/02", EIO);
    store.delete_namespace("Gone").unwrap();
    assert_eq!(store.stats().stored_bytes, before);
}

#[test]
fn a_deleted_class_that_was_not_counted_does_not_make_the_count_wrong() {
    let disk = FaultyDisk::default();
    let open = || {
        let options = StoreOptions::small().manual(true).max_bytes(Some(8 << 20));
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let store = open();
    put(&store, "Gone", 1).unwrap();
    let db = object(&store, "Gone", 1).unwrap();
    db.kv_put("large", &vec![7; 100_000]).unwrap();
    db.commit().unwrap();
    drop(db);
    store.checkpoint().unwrap();
    drop(store);
    disk.fail(&[DiskOp::Len, DiskOp::Open], "objects/Gone", EIO);
    let store = open();
    disk.clear();
    assert_eq!(store.stats().stored_bytes, Some(0));
    // It shrinks, too.
    let db = object(&store, "Gone", 1).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    assert_eq!(store.stats().stored_bytes, Some(0));
    store.delete_namespace("Gone").unwrap();
    assert_eq!(store.stats().stored_bytes, Some(0));
    put(&store, "Kept", 1).unwrap();
}

#[test]
fn a_quarantined_object_is_deleted_with_its_class() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    two_classes(&store);
    store.checkpoint().unwrap();
    let namespace = store.namespace("Gone").unwrap();
    let path = store
        .object_path(ObjectKey {
            namespace,
            id: [1; 32],
        })
        .unwrap();
    disk.remove(&path).unwrap();
    object(&store, "Gone", 1).unwrap_err();
    assert_eq!(store.quarantined().len(), 1);
    store.delete_namespace("Gone").unwrap();
    assert_eq!(store.quarantined(), []);
    check_gone(&store, &disk, "a quarantined object");
    let store = manual(&disk.crash(3));
    assert_eq!(store.quarantined(), []);
    assert_eq!(get(&store, "Gone", 1), None);
}

#[test]
fn the_history_of_a_deleted_class_goes_when_it_expires() {
    let run = |delete: bool| {
        let minutes = Arc::new(AtomicU64::new(0));
        let clock = minutes.clone();
        let options = StoreOptions::small()
            .manual(true)
            .archive(ArchiveOptions::default().retention(Duration::from_mins(20)))
            .unix_millis(Arc::new(move || clock.load(Ordering::Relaxed) * 60_000));
        let store = Store::open(Arc::new(SimDisk::new()), Path::new(DIR), options).unwrap();
        two_classes(&store);
        for minute in 0..100 {
            minutes.store(minute, Ordering::Relaxed);
            let id = minute as u8 % OBJECTS;
            if minute < 20 {
                let db = object(&store, "Gone", id).unwrap();
                let value: Vec<u8> = (0..2_000).flat_map(|at| noise(at, id)).collect();
                db.kv_put("k", &value).unwrap();
                db.commit().unwrap();
                flush(&store);
            } else if minute == 20 && delete {
                store.delete_namespace("Gone").unwrap();
            }
            put(&store, "Kept", id).unwrap();
            store.checkpoint().unwrap();
            store.run_maintenance().unwrap();
        }
        store.verify_archive().unwrap();
        check_kept(&store, "with history");
        store.stats().archive_bytes
    };
    let (whole, without) = (run(false), run(true));
    assert!(without < whole / 2, "{without} of {whole} bytes");
}

/// Bytes that do not compress.
fn noise(at: u32, id: u8) -> [u8; 4] {
    let mixed = (at ^ u32::from(id) << 16).wrapping_mul(2_654_435_761);
    (mixed ^ mixed >> 15)
        .wrapping_mul(2_246_822_519)
        .to_le_bytes()
}

#[test]
fn other_files_in_the_directory_of_a_deleted_class_stay() {
    let dir = tempfile::tempdir().unwrap();
    let options = || StoreOptions::small().manual(true);
    let store = Store::open(Arc::new(RealDisk), dir.path(), options()).unwrap();
    two_classes(&store);
    store.checkpoint().unwrap();
    let objects = dir.path().join("objects");
    let path = |id: u8| -> PathBuf {
        let namespace = store.namespace("Gone").unwrap();
        store
            .object_path(ObjectKey {
                namespace,
                id: [id; 32],
            })
            .unwrap()
    };
    let beside = path(0).with_extension("sqlite-wal");
    std::fs::write(&beside, "of sqlite3").unwrap();
    let notes = path(1).with_file_name("notes.txt");
    std::fs::write(&notes, "an operator's").unwrap();
    let above = objects.join("Gone").join("notes.txt");
    std::fs::write(&above, "an operator's").unwrap();
    assert!(RealDisk.open(&path(0), OpenMode::Existing).is_ok());
    store.delete_namespace("Gone").unwrap();
    assert!(!beside.exists() && notes.exists());
    let left = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
    assert_eq!((left(&objects.join("Gone")), left(&objects)), (2, 2));
    std::fs::remove_file(&notes).unwrap();
    std::fs::remove_file(&above).unwrap();
    store.namespace("Gone").unwrap();
    store.delete_namespace("Gone").unwrap();
    assert_eq!(left(&objects), 1);
}
