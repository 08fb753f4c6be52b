//! An imported object is the one that was exported, on a new timeline.

use abide_storage::{
    Afterwards, AlarmRow, ArchiveOptions, Disk as _, KeyedCall, ObjectKey, SimDisk, StoredCause,
};

use super::{SOURCE, delete, export, import, import_as, made};
use crate::{
    common::{flush, key, manual, open, tell},
    recovery_points::world::{World, noise, off},
};

const ALARM: i64 = 1_000_000_000;

const CALL: KeyedCall<'_> = KeyedCall {
    key: "call",
    method: "pay",
    fingerprint: &[1; 32],
};

/// An object with rows, keys, an alarm and a remembered call.
fn original() -> Vec<u8> {
    let store = manual(&SimDisk::new());
    let db = open(&store, 1);
    db.exec(
        "CREATE TABLE t (n, text); INSERT INTO t VALUES (1, 'one'), (2, 'two')",
        (),
    )
    .unwrap();
    db.kv_put("k", b"value").unwrap();
    db.set_alarm(Some(&AlarmRow::at(ALARM))).unwrap();
    db.remember(CALL, Some(b"paid"), 1).unwrap();
    db.commit().unwrap();
    drop(db);
    flush(&store);
    export(&store, key(&store, 1))
}

#[test]
fn an_imported_object_is_the_one_that_was_exported() {
    let bytes = original();
    for afterwards in [Afterwards::Dormant, Afterwards::Act] {
        let is_dormant = afterwards == Afterwards::Dormant;
        let disk = SimDisk::new();
        let store = manual(&disk);
        let own = key(&store, 5);
        import_as(&store, own, &bytes, None, afterwards).unwrap();
        drop(store);
        let store = manual(&disk.crash(1));
        let db = open(&store, 5);
        let rows = db.exec("SELECT n, text FROM t ORDER BY n", ()).unwrap();
        let rows: Vec<(i64, String)> = rows.all().unwrap();
        assert_eq!(rows, [(1, "one".to_owned()), (2, "two".to_owned())]);
        assert_eq!(db.kv_get("k").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(db.name().unwrap().as_deref(), Some("imported"));
        let timeline = db.timeline().unwrap();
        let cause = StoredCause::Imported {
            source: SOURCE,
            replaces: !is_dormant,
        };
        assert_eq!((timeline.cause, timeline.dormant), (cause, is_dormant));
        assert!(timeline.untold.is_some(), "its code is told");
        let remembered = db.remembered("call", 2).unwrap();
        assert_eq!(remembered.is_none(), is_dormant, "{remembered:?}");
        drop(db);
        tell(&store, 5);
        let due = store.alarms().get(own).map(|entry| entry.due);
        assert_eq!(due, (!is_dormant).then_some(ALARM));
        // It is archived, so it can be restored.
        let db = open(&store, 5);
        let at = db.bookmark();
        db.exec("DELETE FROM t", ()).unwrap();
        db.commit().unwrap();
        drop(db);
        flush(&store);
        store.restore(own, &at).unwrap();
        let rows = open(&store, 5).exec("SELECT count(*) FROM t", ()).unwrap();
        assert_eq!(rows.one::<i64>().unwrap(), 2);
    }
}

#[test]
fn a_dormant_object_stays_dormant_when_it_replaces_the_original() {
    let store = manual(&SimDisk::new());
    import(&store, key(&store, 1), &original()).unwrap();
    let bytes = export(&store, key(&store, 1));
    import_as(&store, key(&store, 2), &bytes, None, Afterwards::Act).unwrap();
    assert!(open(&store, 2).timeline().unwrap().dormant);
}

#[test]
fn a_database_that_was_made_elsewhere_becomes_an_object() {
    let bytes = made(
        "PRAGMA page_size = 4096; PRAGMA user_version = 3; CREATE TABLE t (n); INSERT INTO t VALUES (4);
         CREATE INDEX i ON t (n); CREATE VIEW v AS SELECT n FROM t;
         CREATE VIRTUAL TABLE f USING fts5 (text); INSERT INTO f VALUES ('found')",
    );
    let disk = SimDisk::new();
    let store = manual(&disk);
    import(&store, key(&store, 1), &bytes).unwrap();
    drop(store);
    let store = manual(&disk.crash(2));
    let db = open(&store, 1);
    let one = |sql: &str| db.exec(sql, ()).unwrap().one::<i64>().unwrap();
    assert_eq!(one("SELECT n FROM v"), 4);
    assert_eq!(one("PRAGMA user_version"), 3);
    assert_eq!(one("SELECT count(*) FROM f WHERE f MATCH 'found'"), 1);
    db.kv_put("k", b"v").unwrap();
    db.set_alarm(Some(&AlarmRow::at(5))).unwrap();
    db.commit().unwrap();
    assert_eq!(db.name().unwrap().as_deref(), Some("imported"));
    assert!(db.timeline().unwrap().dormant);
}

#[test]
fn objects_of_any_size_are_imported_with_little_log() {
    for archive in [ArchiveOptions::default(), off()] {
        let mut world = World::with(archive, 100_000);
        let bytes = made("PRAGMA page_size = 4096; CREATE TABLE t (b)");
        import(&world.store, key(&world.store, 1), &bytes).unwrap();
        let large = {
            let mut db = rusqlite::Connection::open_in_memory().unwrap();
            db.execute_batch("PRAGMA page_size = 4096; CREATE TABLE t (b)")
                .unwrap();
            for seed in 0..100 {
                db.execute("INSERT INTO t VALUES (?1)", [noise(seed, 100_000)])
                    .unwrap();
            }
            db.serialize(rusqlite::MAIN_DB).unwrap().to_vec()
        };
        let before = world.store.durable().get();
        import(&world.store, key(&world.store, 2), &large).unwrap();
        let log = world.store.durable().get() - before;
        assert!(log < 50_000, "{log} bytes of log");
        world.reopen();
        let db = open(&world.store, 2);
        let sum = db.exec("SELECT sum(length(b)) FROM t", ()).unwrap();
        assert_eq!(sum.one::<i64>().unwrap(), 10_000_000);
        drop(db);
        let scratch = world
            .disk
            .list(std::path::Path::new("/data/archive"))
            .unwrap();
        assert!(
            !scratch.iter().any(|name| name.ends_with("scratch")),
            "{scratch:?}"
        );
    }
}

#[test]
fn an_object_that_was_deleted_can_be_imported() {
    let store = manual(&SimDisk::new());
    let bytes = original();
    let own: ObjectKey = key(&store, 1);
    import(&store, own, &bytes).unwrap();
    let first = open(&store, 1).timeline().unwrap().id;
    delete(&store, own);
    import(&store, own, &bytes).unwrap();
    assert!(open(&store, 1).timeline().unwrap().id > first);
}
