//! A database that no object can have is refused, with a message that says why, and leaves nothing.

use abide_storage::{ArchiveOptions, Disk as _, ErrorKind, SimDisk, Store, StoreOptions};
use std::{path::Path, sync::Arc};

use super::{export, import, made};
use crate::{
    common::{DIR, flush, key, manual, open},
    recovery_points::world::World,
};

const SOUND: &str = "PRAGMA page_size = 4096; CREATE TABLE t (n); INSERT INTO t VALUES (4);";

/// Imports something that is refused, and returns why.
fn refusal(store: &Store, bytes: &[u8]) -> String {
    let error = import(store, key(store, 9), bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    flush(store);
    assert!(!store.has_object(key(store, 9)).unwrap());
    error.to_string()
}

#[test]
fn a_file_of_another_form_is_refused_with_what_to_do() {
    let store = manual(&SimDisk::new());
    let changed = |at: usize, to: u8| {
        let mut bytes = made(SOUND);
        bytes[at] = to;
        bytes
    };
    let sound = made(SOUND);
    let cases = [
        (
            "page size",
            made("PRAGMA page_size = 8192; CREATE TABLE t (n)"),
        ),
        (
            "auto_vacuum",
            made("PRAGMA auto_vacuum = 1; CREATE TABLE t (n)"),
        ),
        (
            "UTF-8",
            made("PRAGMA encoding = 'UTF-16'; CREATE TABLE t (n)"),
        ),
        ("WAL", changed(18, 2)),
        ("reserved bytes", changed(20, 8)),
        ("size in the header", changed(27, 99)),
        ("not a SQLite database", changed(0, b'X')),
        ("cut off", Vec::new()),
        ("cut off", sound[..sound.len() - 1].to_vec()),
        ("cut off", b"SQLite format 3\0".to_vec()),
        (
            "does not have the size",
            sound[..sound.len() - 4096].to_vec(),
        ),
        ("does not have the size", [&sound[..], &[0; 4096]].concat()),
    ];
    for (why, bytes) in cases {
        let said = refusal(&store, &bytes);
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("VACUUM INTO"), "{said}");
    }
}

#[test]
fn a_damaged_database_is_refused() {
    let store = manual(&SimDisk::new());
    let sound = made(SOUND);
    // The page of the table.
    let mut bytes = sound.clone();
    bytes[4096..].fill(0xff);
    let said = refusal(&store, &bytes);
    assert!(said.contains("cannot be imported"), "{said}");
    // The schema.
    let mut bytes = sound;
    bytes[100..4096].fill(0xff);
    refusal(&store, &bytes);
}

#[test]
fn reserved_names_of_another_program_are_refused() {
    let store = manual(&SimDisk::new());
    let cases = [
        ("_abide_other", "CREATE TABLE _abide_other (n)"),
        ("_ABIDE_View", "CREATE VIEW _ABIDE_View AS SELECT 1"),
        ("columns", "CREATE TABLE _abide_kv (key, value, more)"),
        ("columns", "CREATE TABLE _abide_meta (k)"),
        (
            "trigger",
            "CREATE TABLE _abide_meta (key, value); CREATE TABLE t (n);
             CREATE TRIGGER spy AFTER INSERT ON _abide_meta BEGIN INSERT INTO t VALUES (new.value); END",
        ),
        ("index", "CREATE TABLE _abide_kv (key, value); CREATE INDEX own ON _abide_kv (value)"),
        ("view", "CREATE VIEW _abide_kv AS SELECT 1 AS key, 2 AS value"),
    ];
    for (why, sql) in cases {
        let said = refusal(&store, &made(sql));
        assert!(said.contains(why), "{why}: {said}");
    }
}

#[test]
fn meta_rows_that_cannot_be_read_are_refused() {
    let store = manual(&SimDisk::new());
    for row in [
        "('born', 'yesterday')",
        "('timeline', '{}')",
        "('alarm', 'soon')",
    ] {
        let sql = format!(
            "CREATE TABLE _abide_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID; INSERT INTO _abide_meta VALUES {row}"
        );
        let said = refusal(&store, &made(&sql));
        assert!(said.contains("cannot be"), "{row}: {said}");
    }
}

#[test]
fn an_object_that_exists_is_not_replaced() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "one");
    let bytes = export(&world.store, key(&world.store, 1));
    let own = key(&world.store, 1);
    for _ in 0..2 {
        let error = import(&world.store, own, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        assert!(error.to_string().contains("exists"), "{error}");
        assert_eq!(world.get(1).as_deref(), Some("one"));
        world.store.checkpoint().unwrap();
        world.reopen();
    }
    // Nor is one whose file was lost: its history has it.
    world.store.close().unwrap();
    let path = world.store.object_path(own).unwrap();
    world.disk.remove(&path).unwrap();
    world.reopen();
    let error = import(&world.store, own, &bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[test]
fn an_import_larger_than_an_object_may_be_is_refused() {
    let options = StoreOptions::small().manual(true).max_object_bytes(100_000);
    let store = Store::open(Arc::new(SimDisk::new()), Path::new(DIR), options).unwrap();
    let bytes = made("CREATE TABLE t (b); INSERT INTO t VALUES (randomblob(3000000))");
    let error = import(&store, key(&store, 1), &bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(open(&store, 1).is_new());
}
