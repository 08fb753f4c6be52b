//! A new object that has only been constructed is not stored, and nothing else is kept back.

use abide_storage::{AlarmRow, ObjectDb, Result, SimDisk, Store};

use crate::{common, sql::run};

fn store() -> Store {
    common::manual(&SimDisk::new())
}

fn open(store: &Store) -> ObjectDb {
    let db = common::open(store, 1);
    db.set_name("ada");
    db
}

/// An object whose constructor does this.
fn construct(store: &Store, constructor: impl FnOnce(&ObjectDb)) -> ObjectDb {
    let db = open(store);
    db.begin_construction();
    constructor(&db);
    db.end_construction().unwrap();
    db
}

const TABLES: &str = "CREATE TABLE IF NOT EXISTS t (n INTEGER); CREATE INDEX IF NOT EXISTS i ON t (n); PRAGMA user_version = 3";

#[test]
fn tables_wait_for_the_first_row_and_are_committed_with_it() {
    let store = store();
    let db = construct(&store, |db| run(db, TABLES));
    assert!(db.defer().unwrap() && !db.in_transaction());
    assert!(db.exec("SELECT n FROM t", ()).unwrap().is_empty() && db.defer().unwrap());
    run(&db, "INSERT INTO t VALUES (7)");
    assert!(db.in_transaction() && !db.defer().unwrap());
    assert!(db.commit().unwrap().is_some() && !db.defer().unwrap());
    drop(db);
    let db = construct(&store, |db| run(db, "CREATE TABLE more (n)"));
    assert!(!db.defer().unwrap(), "the object is stored already");
    assert_eq!(db.exec("SELECT n FROM t", ()).unwrap().len(), 1);
    assert_eq!(db.name().unwrap().as_deref(), Some("ada"));
}

#[test]
fn an_object_that_is_dropped_before_its_first_row_leaves_nothing() {
    let store = store();
    let log = store.appended();
    let db = construct(&store, |db| run(db, TABLES));
    assert!(db.defer().unwrap());
    drop(db);
    let db = open(&store);
    assert!(db.is_new() && db.exec("SELECT n FROM t", ()).is_err());
    assert_eq!(store.appended(), log);
    let namespace = store.namespace("tests").unwrap();
    assert!(store.objects(namespace).unwrap().is_empty());
}

#[test]
fn set_up_rows_and_virtual_tables_of_a_constructor_are_deferred() {
    let store = store();
    let db = construct(&store, |db| {
        run(db, "CREATE VIRTUAL TABLE f USING fts5(a)");
        run(
            db,
            "-- places\nCREATE VIRTUAL TABLE r USING rtree(id, x0, x1)",
        );
        db.set_up(|| {
            db.exec("CREATE TABLE m AS SELECT 1 AS version", ())?;
            db.exec("INSERT INTO m VALUES (2)", ()).map(drop)
        })
        .unwrap();
    });
    assert!(db.defer().unwrap());
    run(&db, "INSERT INTO f VALUES ('hello')");
    assert!(!db.defer().unwrap() && db.commit().unwrap().is_some());
    drop(db);
    let db = open(&store);
    assert_eq!(db.exec("SELECT * FROM f('hello')", ()).unwrap().len(), 1);
    assert_eq!(db.exec("SELECT * FROM m", ()).unwrap().len(), 2);
}

#[test]
fn rows_and_alarms_of_a_constructor_are_stored_at_once() {
    let writes: [fn(&ObjectDb); 6] = [
        |db| run(db, "CREATE TABLE t AS SELECT random() AS n"),
        |db| {
            run(db, "CREATE TABLE t (n); INSERT INTO t VALUES (1)");
            run(db, "DELETE FROM t");
        },
        |db| db.kv_put("k", b"v").unwrap(),
        |db| {
            db.kv_delete("none").unwrap();
            db.bookmark();
        },
        |db| db.set_alarm(Some(&AlarmRow::at(5))).unwrap(),
        |db| {
            db.set_up(|| db.exec("CREATE TABLE t (n)", ()).map(drop))
                .unwrap();
            run(db, "INSERT INTO t VALUES (1)");
        },
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let store = store();
        let db = construct(&store, write);
        assert!(!db.defer().unwrap(), "{number}");
        assert!(db.commit().unwrap().is_some(), "{number}");
    }
}

#[test]
fn ddl_after_the_constructor_is_stored_at_once() {
    for constructor in [TABLES, "SELECT 1"] {
        for sql in [
            "CREATE TABLE u (n)",
            "CREATE TABLE u (n); DROP TABLE u",
            "CREATE TABLE u AS SELECT 1 AS n",
            "CREATE VIRTUAL TABLE u USING fts5(a)",
            "CREATE VIEW u AS SELECT 1",
            "PRAGMA user_version = 4",
        ] {
            let store = store();
            let db = construct(&store, |db| run(db, constructor));
            db.defer().unwrap();
            run(&db, sql);
            assert!(db.in_transaction() && !db.defer().unwrap(), "{sql}");
            assert!(db.commit().unwrap().is_some(), "{sql}");
        }
    }
    for sql in [
        "DROP TABLE t",
        "CREATE INDEX j ON t (n)",
        "ALTER TABLE t ADD COLUMN m",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
    ] {
        let store = store();
        let db = construct(&store, |db| run(db, TABLES));
        assert!(db.defer().unwrap());
        run(&db, sql);
        assert!(
            !db.defer().unwrap() && db.commit().unwrap().is_some(),
            "{sql}"
        );
    }
}

#[test]
fn what_changes_nothing_stores_nothing() {
    let no_changes: [fn(&ObjectDb); 6] = [
        |db| assert!(!db.kv_delete("k").unwrap()),
        |db| db.set_alarm(None).unwrap(),
        |db| run(db, "CREATE TABLE IF NOT EXISTS t (n)"),
        |db| run(db, "DELETE FROM t; UPDATE t SET n = 1"),
        |db| db.set_name("bea"),
        |db| {
            let undone: Result<()> = db.transaction(|| {
                run(db, "INSERT INTO t VALUES (1)");
                db.exec("nonsense", ()).map(drop)
            });
            undone.unwrap_err();
        },
    ];
    for (number, change) in no_changes.into_iter().enumerate() {
        let store = store();
        let db = construct(&store, |db| run(db, TABLES));
        assert!(db.defer().unwrap(), "{number}");
        change(&db);
        assert!(db.defer().unwrap(), "{number}");
    }
    let db = construct(&store(), |_| {});
    db.kv_delete("k").unwrap();
    assert!(db.in_transaction() && db.defer().unwrap());
}

#[test]
fn a_bookmark_of_a_deferred_object_is_a_write() {
    let store = store();
    let db = construct(&store, |db| run(db, TABLES));
    assert!(db.defer().unwrap());
    let bookmark = db.bookmark();
    assert!(db.in_transaction() && !db.defer().unwrap());
    assert!(db.commit().unwrap().is_some());
    db.request_restore(&bookmark).unwrap();
}

#[test]
fn what_a_handler_sets_up_is_deferred_while_nothing_else_has_changed() {
    let store = store();
    let set_up = |db: &ObjectDb| {
        db.set_up(|| {
            run(db, "CREATE TABLE IF NOT EXISTS m (version)");
            db.exec("INSERT INTO m VALUES (1)", ()).map(drop)
        })
        .unwrap();
    };
    for constructor in [TABLES, "SELECT 1"] {
        let db = construct(&store, |db| run(db, constructor));
        db.defer().unwrap();
        set_up(&db);
        assert!(db.defer().unwrap(), "{constructor}");
        run(&db, "CREATE TABLE u (n)");
        set_up(&db);
        assert!(!db.defer().unwrap(), "{constructor}");
    }
    let db = construct(&store, |_| {});
    db.kv_put("k", b"v").unwrap();
    set_up(&db);
    assert!(!db.defer().unwrap() && db.commit().unwrap().is_some());
}
