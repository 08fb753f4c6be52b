//! What does not fit into a statement's memory goes to temporary files, which leave nothing behind.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, flush, open};
use abide_storage::{
    Disk as _, ErrorKind, ObjectDb, ObjectKey, OpenMode, RealDisk, SimDisk, Store, StoreOptions,
};
use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

/// Rows of the table, and bytes of each: together several times what SQLite sorts in memory, which is 1 MiB at least.
const ROWS: i64 = 4_000;
const ROW_BYTES: i64 = 2_000;

fn store_on(disk: &SimDisk) -> Store {
    let options = StoreOptions::small().manual(true).cache_kib(64);
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

fn fill(store: &Store, db: &ObjectDb) {
    db.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)", ())
        .unwrap();
    db.exec(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO t SELECT i, randomblob(?2) FROM n",
        (ROWS, ROW_BYTES),
    )
    .unwrap();
    db.commit().unwrap();
    flush(store);
}

/// Bytes that a statement wrote to temporary files.
fn spilled(store: &Store, statement: impl FnOnce()) -> u64 {
    let before = store.stats().temporary_written_bytes;
    statement();
    assert_eq!(store.stats().temporary_bytes, 0, "a file was left");
    store.stats().temporary_written_bytes - before
}

#[test]
fn a_sort_larger_than_memory_uses_a_temporary_file() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let db = open(&store, 1);
    fill(&store, &db);
    let used = disk.used();
    let (mut rows, mut last, mut most) = (0, Vec::new(), 0);
    let bytes = spilled(&store, || {
        db.for_each::<abide_storage::Error>("SELECT b FROM t ORDER BY b", (), |row| {
            let (next,): (serde_bytes::ByteBuf,) = row.get()?;
            assert!(*next >= last);
            last = next.into_vec();
            rows += 1;
            most = most.max(store.stats().temporary_bytes);
            Ok(())
        })
        .unwrap();
    });
    let data = (ROWS * ROW_BYTES) as u64;
    assert_eq!(rows, ROWS);
    assert!(bytes >= data && most >= data, "{bytes} {most} of {data}");
    assert_eq!(disk.used(), used);
}

#[test]
fn whatever_gathers_much_goes_through_temporary_files() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let db = open(&store, 1);
    fill(&store, &db);
    for sql in [
        "SELECT count(*) FROM (SELECT b, count(*) FROM t GROUP BY b)",
        "SELECT count(*) FROM (SELECT DISTINCT b FROM t)",
        "SELECT count(*) FROM (SELECT b FROM t UNION SELECT b || x'00' FROM t)",
        "SELECT count(*) FROM t WHERE b IN (SELECT b FROM t WHERE a > 1)",
        "WITH c (a, b) AS MATERIALIZED (SELECT a, b FROM t) SELECT count(x.b) FROM c x JOIN c y ON x.a = y.a",
        "WITH RECURSIVE c (i, b) AS (SELECT 1, (SELECT b FROM t) UNION SELECT i + 1, randomblob(?1) FROM c WHERE i < 4000)
         SELECT count(*) FROM c",
        "SELECT count(x) FROM (SELECT last_value(b) OVER (ORDER BY a % 7) x FROM t)",
        "CREATE INDEX i ON t (b)",
    ] {
        let bytes = spilled(&store, || {
            if sql.contains("?1") {
                db.exec(sql, [ROW_BYTES]).unwrap();
            } else {
                db.exec(sql, ()).unwrap();
            }
        });
        assert!(bytes > 1 << 20, "{bytes} by {sql}");
    }
    db.commit().unwrap();
    db.exec("INSERT INTO t (b) VALUES (x'01')", ()).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    assert_eq!(db.database_size().unwrap() / 4096, 3);
}

#[test]
fn only_a_statement_without_room_for_its_temporary_file_is_refused() {
    let disk = SimDisk::new();
    let store = store_on(&disk);
    let (db, other) = (open(&store, 1), open(&store, 2));
    fill(&store, &db);
    let used = disk.used();
    // Room for commits, but not for a sort next to them.
    disk.set_capacity(Some(used + (16 << 20)));
    let sort = "SELECT b FROM t ORDER BY b LIMIT 3 OFFSET 3990";
    let error = db.exec(sort, ()).map(drop);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.to_string().contains("temporary file"), "{error}");
    assert_eq!((disk.used(), store.stats().temporary_bytes), (used, 0));
    assert!(!store.stats().no_space && !store.failed());

    other.kv_put("key", b"value").unwrap();
    other.commit().unwrap().unwrap();
    let one = db.exec("SELECT count(*) FROM t", ()).unwrap();
    assert_eq!(one.one::<i64>().unwrap(), ROWS);
    let unknown = db.exec("SELECT * FROM nothing", ()).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Input, "{unknown}");

    disk.set_capacity(None);
    let sorted = db.exec(sort, ());
    assert_eq!(sorted.unwrap().len(), 3);
}

#[test]
fn a_start_removes_what_a_crash_has_left_of_temporary_files() {
    let disk = SimDisk::new();
    let tmp = Path::new(DIR).join("tmp");
    drop(store_on(&disk));
    disk.create_dir_all(&tmp).unwrap();
    let left = disk.open(&tmp.join("77-1"), OpenMode::Create).unwrap();
    left.write_at(b"a part of a sort", 0).unwrap();
    drop(left);
    drop(store_on(&disk));
    assert!(disk.list(&tmp).unwrap().is_empty());
}

#[test]
fn temporary_files_have_no_names_and_a_private_directory() {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions::small().cache_kib(64);
    let store = Store::open(Arc::new(RealDisk), dir.path(), options).unwrap();
    let namespace = store.namespace("tests").unwrap();
    let id = [1; 32];
    let db = store.open_object(ObjectKey { namespace, id }).unwrap();
    fill(&store, &db);
    let tmp = dir.path().join("tmp");
    let mut rows = 0;
    let bytes = spilled(&store, || {
        db.for_each::<abide_storage::Error>("SELECT b FROM t ORDER BY b", (), |_| {
            rows += 1;
            assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
            Ok(())
        })
        .unwrap();
    });
    assert!(rows == ROWS && bytes > 0);
    let mode = std::fs::metadata(&tmp).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    drop(db);
    store.close().unwrap();
}
