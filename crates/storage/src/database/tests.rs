use std::{path::Path, sync::Arc};

use rusqlite::StatementStatus;

use super::Origin;
use crate::{AlarmRow, Error, ObjectDb, ObjectKey, Result, SimDisk, Store, StoreOptions};

fn open(store: &Store) -> ObjectDb {
    let namespace = store.namespace("tests").unwrap();
    let id = [1; 32];
    store.open_object(ObjectKey { namespace, id }).unwrap()
}

fn store() -> Store {
    let options = StoreOptions {
        manual: true,
        ..StoreOptions::small()
    };
    Store::open(Arc::new(SimDisk::new()), Path::new("/data"), options).unwrap()
}

fn refused() -> Result<()> {
    Err(Error::input("no"))
}

#[test]
fn a_failed_first_transaction_leaves_nothing_and_the_poll_continues() {
    let store = store();
    let db = open(&store);
    db.set_name("ada");
    let failed = db.transaction(|| {
        db.kv_put("k", b"v")?;
        db.set_alarm(Some(&AlarmRow::at(5)))?;
        refused()
    });
    assert!(failed.is_err() && !db.in_transaction());
    assert_eq!((db.kv_get("k").unwrap(), db.alarm().unwrap()), (None, None));
    assert_eq!(db.name().unwrap().as_deref(), Some("ada"));
    assert!(db.commit().unwrap().is_none());
    let nested: Result<()> = db.transaction(|| {
        db.kv_put("k", b"v")?;
        let inner = db.transaction(|| {
            db.kv_put("k", b"w")?;
            refused()
        });
        assert!(inner.is_err());
        Ok(())
    });
    nested.unwrap();
    assert!(db.commit().unwrap().is_some());
    drop(db);
    let db = open(&store);
    assert_eq!(db.kv_get("k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(db.name().unwrap().as_deref(), Some("ada"));
}

#[test]
fn a_bookmark_before_the_first_write_is_that_of_the_last_commit() {
    let store = store();
    let db = open(&store);
    db.kv_put("k", b"v").unwrap();
    db.commit().unwrap();
    let before = db.bookmark();
    db.transaction(|| {
        db.kv_get("k")?;
        assert_eq!(db.bookmark(), before);
        db.kv_put("k", b"w")?;
        assert!(db.bookmark() > before);
        Ok::<_, Error>(())
    })
    .unwrap();
    db.commit().unwrap();
    assert!(db.bookmark() > before);
    let read = db.transaction(|| db.kv_get("k").map(|_| db.bookmark()));
    assert_eq!(read.unwrap(), db.bookmark());
    assert_eq!(db.commit().unwrap(), None, "nothing was written");
}

#[test]
fn a_bookmark_of_a_transaction_that_fails_is_that_of_a_commit() {
    let store = store();
    let db = open(&store);
    db.kv_put("k", b"v").unwrap();
    db.commit().unwrap();
    let mut bookmark = None;
    let failed = db.transaction(|| {
        db.kv_put("k", b"w")?;
        bookmark = Some(db.bookmark());
        refused()
    });
    assert!(failed.is_err());
    assert!(db.commit().unwrap().is_some());
    let commit = bookmark.map(|bookmark| bookmark.commit);
    assert_eq!(Some(db.bookmark().commit), commit);
}

#[test]
fn a_first_transaction_that_sqlite_rolls_back_is_lost() {
    let store = store();
    let db = open(&store);
    db.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)", ())
        .unwrap();
    db.commit().unwrap();
    let lost: Result<()> = db.transaction(|| {
        db.exec("INSERT INTO t VALUES (1)", ())?;
        let again = db.exec("INSERT OR ROLLBACK INTO t VALUES (1)", ());
        assert!(again.is_err());
        Ok(())
    });
    assert!(lost.is_err() && db.commit().is_err());
}

#[test]
fn the_alarm_is_what_its_row_says_whatever_was_undone() {
    let store = store();
    let db = open(&store);
    let due = || db.alarm().unwrap().map(|alarm| alarm.scheduled);
    let set = |at| db.set_alarm(Some(&AlarmRow::at(at)));
    set(5).unwrap();
    db.commit().unwrap();
    assert_eq!(due(), Some(5));
    set(6).unwrap();
    assert_eq!(due(), Some(6));
    let failed = db.transaction(|| {
        set(7)?;
        assert_eq!(due(), Some(7));
        refused()
    });
    assert!(failed.is_err());
    assert_eq!(due(), Some(6));
    db.rollback();
    assert_eq!(due(), Some(5));
    set(8).unwrap();
    let lost = db.exec("INSERT OR ROLLBACK INTO _abide_kv SELECT 1", ());
    assert!(lost.is_err());
    db.rollback();
    db.delete_all().unwrap();
    assert_eq!(due(), None);
    db.commit().unwrap();
    drop(db);
    assert_eq!(open(&store).alarm().unwrap(), None);
}

#[test]
fn a_trigger_that_is_made_or_dropped_again_is_in_the_transaction() {
    let store = store();
    let db = open(&store);
    let create = "CREATE TRIGGER IF NOT EXISTS tr AFTER INSERT ON t BEGIN SELECT 1; END";
    let remove = "DROP TRIGGER IF EXISTS tr";
    let count = || {
        let count = "SELECT count(*) FROM sqlite_schema WHERE name = 'tr'";
        db.exec(count, ()).unwrap().one::<i64>().unwrap()
    };
    db.exec("CREATE TABLE t (a)", ()).unwrap();
    for text in [remove, create, create, remove, remove] {
        db.exec(text, ()).unwrap();
    }
    db.commit().unwrap();
    db.exec(create, ()).unwrap();
    db.rollback();
    assert_eq!(count(), 0);
    db.exec(create, ()).unwrap();
    db.commit().unwrap();
    db.exec(remove, ()).unwrap();
    db.rollback();
    assert_eq!(count(), 1);
}

#[test]
fn a_statement_that_is_prepared_anew_has_its_own_columns() {
    let store = store();
    let db = open(&store);
    db.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)", ())
        .unwrap();
    let all = "SELECT * FROM t";
    let columns = || db.exec(all, ()).unwrap().columns().to_vec();
    assert_eq!(columns(), ["a"]);
    // The statement is lost with the panic.
    let panics = std::panic::AssertUnwindSafe(|| {
        db.for_each(all, (), |_| -> Result<()> { panic!("a test's panic") })
    });
    std::panic::catch_unwind(panics).unwrap_err();
    db.exec("ALTER TABLE t ADD COLUMN b DEFAULT 2", ()).unwrap();
    assert_eq!(columns(), ["a", "b"]);
    // One that runs keeps its columns, another of the same text has those of now.
    let mut seen = Vec::new();
    db.for_each(all, (), |row| -> Result<()> {
        db.exec("ALTER TABLE t ADD COLUMN c DEFAULT 3", ())?;
        seen.push((row.raw().len(), columns().len()));
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [(2, 3)]);
    assert_eq!(columns(), ["a", "b", "c"]);
}

#[test]
fn a_statement_beside_a_partial_index_is_prepared_once() {
    let store = store();
    let db = open(&store);
    db.exec("CREATE TABLE t (at INTEGER, state TEXT)", ())
        .unwrap();
    db.exec("CREATE INDEX due ON t (at) WHERE at IS NOT NULL", ())
        .unwrap();
    let due = "SELECT at FROM t WHERE at IS NOT NULL AND at <= ?1 ORDER BY at LIMIT ?2";
    for at in 0..5 {
        db.exec(due, (at, 10)).unwrap();
    }
    let prepared_again = db.connection.with(due, Origin::User, |statement, _| {
        statement.get_status(StatementStatus::RePrepare)
    });
    assert_eq!(prepared_again.ok(), Some(0));
}
