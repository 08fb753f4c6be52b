//! What one object may store, and all together: what is refused at the bound, what is not, and how room comes back.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common;
use std::{path::Path, sync::Arc};

use crate::common::{DIR, key, open};
use abide_storage::{Error, ErrorKind, ObjectDb, ObjectKey, SimDisk, Store, StoreOptions};

const BOUND: u64 = 1 << 20;
const RESERVE: u64 = 256 << 10;

fn store(disk: &SimDisk, max_object_bytes: u64, max_bytes: Option<u64>) -> Store {
    let options = StoreOptions::small()
        .manual(true)
        .max_object_bytes(max_object_bytes)
        .max_bytes(max_bytes);
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

fn bounded_object() -> (Store, ObjectDb) {
    let store = store(&SimDisk::new(), BOUND, None);
    let db = open(&store, 1);
    db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)", ())
        .unwrap();
    db.commit().unwrap();
    (store, db)
}

fn insert(db: &ObjectDb) -> Result<(), Error> {
    db.exec("INSERT INTO t (body) VALUES (zeroblob(10000))", ())
        .map(drop)
}

/// Inserts rows in their own transactions until one is refused.
fn fill(db: &ObjectDb) -> (u64, Error) {
    for rows in 0..10_000 {
        if let Err(error) = insert(db) {
            return (rows, error);
        }
        db.commit().unwrap();
    }
    panic!("nothing was refused");
}

/// A value of this many bytes.
fn bytes(count: usize) -> Vec<u8> {
    vec![7; count]
}

fn count(db: &ObjectDb) -> i64 {
    let rows = db.exec("SELECT count(*) FROM t", ()).unwrap();
    rows.one::<(i64,)>().unwrap().0
}

#[test]
fn an_object_is_full_at_its_bound() {
    let (store, db) = bounded_object();
    let (rows, error) = fill(&db);
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!(error.to_string().contains("storage.max_object_bytes"));
    assert!(rows > 50 && db.database_size().unwrap() <= BOUND);
    // The statement alone was undone.
    db.exec("UPDATE t SET body = zeroblob(9999) WHERE id = 1", ())
        .unwrap();
    assert_eq!(insert(&db).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(
        db.kv_put("k", &bytes(50_000)).unwrap_err().kind(),
        ErrorKind::Full
    );
    assert!(db.commit().unwrap().is_some());
    assert_eq!(count(&db), i64::try_from(rows).unwrap());
    db.exec("DELETE FROM t WHERE id <= 10", ()).unwrap();
    db.commit().unwrap();
    for _ in 0..8 {
        insert(&db).unwrap();
    }
    db.commit().unwrap();
    assert_eq!(store.stats().full_refusals, [3, 0]);
}

#[test]
fn what_must_end_may_use_the_reserve_and_no_more() {
    let (_store, db) = bounded_object();
    fill(&db);
    db.use_reserve(true);
    let (rows, error) = fill(&db);
    assert!(rows > 10, "{rows}");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    // SQLite ends the transaction at the end of the reserve: nothing more can be written in it, and nothing is kept.
    assert_eq!(db.commit().unwrap_err().kind(), ErrorKind::Full);
    let size = db.database_size().unwrap();
    assert!((BOUND..=BOUND + RESERVE).contains(&size), "{size}");
    db.exec("DELETE FROM t", ()).unwrap();
    db.commit().unwrap();
    db.use_reserve(false);
    insert(&db).unwrap();
    db.commit().unwrap();
}

#[test]
fn one_statement_that_is_far_too_large_ends_its_transaction() {
    let store = store(&SimDisk::new(), 16 << 20, None);
    let db = open(&store, 1);
    db.exec("CREATE TABLE t (body BLOB)", ()).unwrap();
    db.commit().unwrap();
    insert(&db).unwrap();
    let many = "INSERT INTO t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 17)
        SELECT zeroblob(1000000) FROM n";
    assert_eq!(db.exec(many, ()).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(db.commit().unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(count(&db), 0);
    insert(&db).unwrap();
    assert!(db.commit().unwrap().is_some());
}

/// Fills objects until one that is new is refused; their number.
fn fill_store(store: &Store) -> u8 {
    for id in 1.. {
        let db = open(store, id);
        db.kv_put("k", &bytes(100_000)).unwrap();
        if let Err(error) = db.commit() {
            assert_eq!(error.kind(), ErrorKind::Full, "{error}");
            assert!(error.to_string().contains("storage.max_bytes"), "{error}");
            return id;
        }
    }
    panic!("nothing was refused");
}

#[test]
fn all_objects_together_are_held_to_their_bound() {
    let disk = SimDisk::new();
    let store = store(&disk, BOUND, Some(BOUND));
    let refused = fill_store(&store);
    assert!((5..=10).contains(&refused), "{refused}");
    let stored = store.stats().stored_bytes.unwrap();
    assert!((BOUND / 2..=BOUND).contains(&stored), "{stored}");
    // Reading makes nothing, and needs no room.
    let db = open(&store, refused);
    db.begin_construction();
    db.exec("CREATE TABLE t (n)", ()).unwrap();
    db.end_construction().unwrap();
    assert!(db.defer().unwrap() && db.kv_get("k").unwrap().is_none());
    drop(db);
    // An object that is there is held to the bound, too; its statement alone is refused.
    let db = open(&store, 1);
    assert_eq!(
        db.kv_put("l", &bytes(200_000)).unwrap_err().kind(),
        ErrorKind::Full
    );
    assert!(!db.kv_delete("nothing").unwrap());
    drop(db);
    let db = open(&store, 2);
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    assert!(store.stats().stored_bytes.unwrap() < stored - 90_000);
    let db = open(&store, refused);
    db.kv_put("k", &bytes(50_000)).unwrap();
    db.commit().unwrap();
}

#[test]
fn the_count_of_all_objects_survives_checkpoints_and_crashes() {
    let disk = SimDisk::new();
    let path = |store: &Store, id| store.object_path(key(store, id)).unwrap();
    let first = store(&disk, BOUND, Some(BOUND));
    for id in 1..4 {
        let db = open(&first, id);
        db.kv_put("k", &bytes(50_000)).unwrap();
        db.commit().unwrap();
    }
    first.checkpoint().unwrap();
    let lengths: usize = (1..4)
        .map(|id| common::read_file(&disk, &path(&first, id)).len())
        .sum();
    assert_eq!(first.stats().stored_bytes, Some(lengths as u64));
    let db = open(&first, 3);
    db.kv_put("more", &bytes(90_000)).unwrap();
    db.commit().unwrap();
    drop(db);
    let db = open(&first, 4);
    db.kv_put("k", b"v").unwrap();
    db.commit().unwrap();
    drop(db);
    common::flush(&first);
    let counted = first.stats().stored_bytes;
    drop(first);
    let again = store(&disk, BOUND, Some(BOUND));
    assert_eq!(again.stats().stored_bytes, counted);
    again.close().unwrap();
    drop(again);
    let again = store(&disk, BOUND, Some(BOUND));
    assert_eq!(again.stats().stored_bytes, counted);
}

#[test]
fn an_object_gives_back_what_it_has_freed_while_the_store_is_full() {
    let store = store(&SimDisk::new(), BOUND, Some(BOUND / 2));
    let db = open(&store, 1);
    db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)", ())
        .unwrap();
    db.commit().unwrap();
    let (rows, error) = fill(&db);
    assert!(error.to_string().contains("storage.max_bytes"), "{error}");
    db.use_reserve(true);
    while store.stats().stored_bytes.unwrap() < BOUND / 2 {
        insert(&db).unwrap();
        db.commit().unwrap();
    }
    db.use_reserve(false);
    let full = store.stats().stored_bytes.unwrap();
    db.exec("DELETE FROM t WHERE id > 5", ()).unwrap();
    db.commit().unwrap();
    assert!(rows > 20 && store.stats().stored_bytes.unwrap() < full / 2);
    assert_eq!(count(&db), 5);
    let other = open(&store, 2);
    other.kv_put("k", &bytes(50_000)).unwrap();
    other.commit().unwrap();
}

#[test]
fn an_object_that_is_larger_than_a_new_bound_is_read_and_shrinks() {
    let disk = SimDisk::new();
    let wide = store(&disk, 4 * BOUND, None);
    let db = open(&wide, 1);
    for n in 0..20 {
        db.kv_put(&n.to_string(), &bytes(100_000)).unwrap();
    }
    db.commit().unwrap();
    drop(db);
    wide.close().unwrap();
    drop(wide);
    let narrow = store(&disk, BOUND, None);
    let db = open(&narrow, 1);
    assert!(db.kv_get("7").unwrap().is_some());
    assert_eq!(
        db.kv_put("x", &bytes(100_000)).unwrap_err().kind(),
        ErrorKind::Full
    );
    assert!(db.kv_delete("7").unwrap());
    db.kv_put("x", &bytes(90_000)).unwrap();
    db.commit().unwrap();
}

#[test]
fn a_repaired_object_counts_for_what_it_is() {
    use abide_storage::Repair;
    let disk = SimDisk::new();
    let first = store(&disk, BOUND, Some(BOUND));
    let object: ObjectKey = key(&first, 1);
    let db = open(&first, 1);
    db.kv_put("k", &bytes(90_000)).unwrap();
    db.commit().unwrap();
    drop(db);
    let path = first.object_path(object).unwrap();
    first.close().unwrap();
    drop(first);
    {
        use abide_storage::{Disk as _, OpenMode};
        let file = disk.open(&path, OpenMode::Existing).unwrap();
        file.write_at(&[0; 100], 0).unwrap();
    }
    let damaged = store(&disk, BOUND, Some(BOUND));
    assert!(damaged.open_object(object).is_err());
    damaged.repair(object, Repair::Anew).unwrap();
    damaged.checkpoint().unwrap();
    let length = common::read_file(&disk, &path).len() as u64;
    assert_eq!(damaged.stats().stored_bytes, Some(length));
}

#[test]
fn a_quarantined_object_counts_for_its_file_at_once_and_after_a_start() {
    use abide_storage::{AlarmRow, Disk as _, DiskOp, FaultyDisk, OpenMode, Repair, errno::EIO};
    const ALL: Option<u64> = Some(64 << 20);
    let disk = FaultyDisk::default();
    let open_store = || {
        let options = StoreOptions::small().manual(true).max_bytes(ALL);
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let put = |store: &Store, id: u8, last: u8| {
        let mut key = key(store, id);
        key.id[31] = last;
        let db = store.open_object(key).unwrap();
        db.kv_put("k", &bytes(50_000 + usize::from(last) * 10_000))
            .unwrap();
        // A file that is missing is missed because of it.
        db.set_alarm(Some(&AlarmRow::at(1))).unwrap();
        db.commit().unwrap();
        common::flush(store);
        key
    };
    let mut store = open_store();
    let mut keys = Vec::new();
    for id in 1..=4 {
        // Others in the same directory stay.
        put(&store, id, 0);
        keys.push(put(&store, id, id));
    }
    store.checkpoint().unwrap();
    let mut stored = store.stats().stored_bytes.unwrap();
    let path = |store: &Store, at: usize| store.object_path(keys[at]).unwrap();
    let length = |path: &Path| disk.open(path, OpenMode::Existing).unwrap().len().unwrap();

    // One was removed while it was not in memory.
    let missing = path(&store, 0);
    stored -= length(&missing);
    disk.remove(&missing).unwrap();
    assert!(store.open_object(keys[0]).is_err());
    assert_eq!(store.stats().stored_bytes, Some(stored));

    // One was cut off.
    let cut = path(&store, 1);
    stored -= length(&cut);
    disk.open(&cut, OpenMode::Existing)
        .unwrap()
        .set_len(0)
        .unwrap();
    assert!(store.open_object(keys[1]).is_err());
    assert_eq!(store.stats().stored_bytes, Some(stored));

    // One was removed while it was open and written.
    let open = path(&store, 2);
    stored -= length(&open);
    let db = store.open_object(keys[2]).unwrap();
    db.kv_put("more", &bytes(100_000)).unwrap();
    db.commit().unwrap();
    disk.remove(&open).unwrap();
    drop(db);
    store.checkpoint().unwrap();
    assert!(store.open_object(keys[2]).is_err());
    assert_eq!(store.stats().stored_bytes, Some(stored));

    // The file of one cannot be written; another one cannot be examined when they are counted again.
    let db = store.open_object(keys[3]).unwrap();
    db.kv_put("more", &bytes(100_000)).unwrap();
    db.commit().unwrap();
    let name = keys[3].id_hex();
    disk.fail(&[DiskOp::Write, DiskOp::SetLen], &name, EIO);
    disk.fail(&[DiskOp::Len], "0400.sqlite", EIO);
    for _ in 0..=abide_storage::limits::FILE_ATTEMPTS {
        let _ = store.checkpoint();
    }
    drop(db);
    disk.clear();
    assert_eq!(store.quarantined().len(), 4);
    store.checkpoint().unwrap();
    assert_eq!(store.stats().stored_bytes, Some(stored));

    drop(store);
    store = open_store();
    assert_eq!(store.stats().stored_bytes, Some(stored), "after a start");
    for &key in &keys {
        store.repair(key, Repair::Anew).unwrap();
    }
    let repaired = store.stats().stored_bytes;
    store.close().unwrap();
    drop(store);
    store = open_store();
    assert_eq!(store.stats().stored_bytes, repaired, "after repairs");
}
