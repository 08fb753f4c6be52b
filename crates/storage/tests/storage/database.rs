//! What users' SQL and keys may do, and what they are told when they may not.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common;
use crate::common::{manual, open};
use abide_storage::{ErrorKind, ListOptions, ObjectDb, SimDisk, Store, Value, limits};
use serde::Deserialize;

fn database() -> (Store, ObjectDb) {
    let store = manual(&SimDisk::new());
    let db = open(&store, 1);
    (store, db)
}

fn refused(db: &ObjectDb, sql: &str) -> (ErrorKind, String) {
    let error = db.exec(sql, ()).expect_err(sql);
    (error.kind(), error.to_string())
}

#[derive(Debug, Deserialize, PartialEq)]
struct Seat {
    seat: String,
    occupant: Option<String>,
}

#[test]
fn rows_become_structs_tuples_and_scalars() {
    let (_store, db) = database();
    db.exec(
        "CREATE TABLE seats (seat TEXT PRIMARY KEY, occupant TEXT)",
        (),
    )
    .unwrap();
    let written = db
        .exec(
            "INSERT INTO seats VALUES (?1, ?2), ('1B', NULL)",
            ("1A", "ada"),
        )
        .unwrap();
    assert_eq!(written.rows_written(), 2);
    let rows = db.exec("SELECT * FROM seats ORDER BY seat", ()).unwrap();
    assert_eq!(rows.columns(), ["seat", "occupant"]);
    let seats: Vec<Seat> = rows.all().unwrap();
    assert_eq!(
        seats[0],
        Seat {
            seat: "1A".into(),
            occupant: Some("ada".into())
        }
    );
    assert_eq!(seats[1].occupant, None);
    assert_eq!(
        rows.iter::<(String, Option<String>)>()
            .nth(1)
            .unwrap()
            .unwrap()
            .0,
        "1B"
    );
    assert_eq!(
        db.exec("SELECT count(*) FROM seats", ())
            .unwrap()
            .one::<i64>()
            .unwrap(),
        2
    );
    assert_eq!(
        db.exec("SELECT occupant FROM seats WHERE seat = 'x'", ())
            .unwrap()
            .optional::<String>()
            .unwrap(),
        None
    );
    let error = rows.one::<Seat>().unwrap_err();
    assert!(error.to_string().contains("expected one row"), "{error}");
    let error = rows.all::<i64>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Decode);
}

#[test]
fn integers_are_exact_and_blobs_are_bytes() {
    let (_store, db) = database();
    let row = db
        .exec(
            "SELECT ?1 AS i, ?2 AS b, 1.5 AS r",
            (i64::MIN, vec![0_u8, 255]),
        )
        .unwrap();
    assert_eq!(
        row.one::<(i64, Vec<u8>, f64)>().unwrap(),
        (i64::MIN, vec![0, 255], 1.5)
    );
    assert_eq!(
        row.one::<(i64, serde_bytes::ByteBuf, f64)>()
            .unwrap()
            .1
            .as_slice(),
        [0, 255]
    );
    assert_eq!(row.raw()[0][0], Value::Integer(i64::MIN));
    assert!(
        db.exec("SELECT 1 AS yes", ())
            .unwrap()
            .one::<bool>()
            .unwrap()
    );
}

#[test]
fn unsigned_parameters_are_refused_beyond_the_largest_integer() {
    let (_store, db) = database();
    let sum = db.exec("SELECT ?1 + ?2", (7_u64, 8_usize)).unwrap();
    assert_eq!(sum.one::<u64>().unwrap(), 15);
    let most = i64::MAX.cast_unsigned();
    let same = db.exec("SELECT ?1", [most]).unwrap();
    assert_eq!(same.one::<u64>().unwrap(), most);
    let error = db.exec("SELECT ?1", [most + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert_eq!(
        error.to_string(),
        "parameter 1: 9223372036854775808 exceeds 9223372036854775807, the largest SQLite integer: bind it as text or a blob"
    );
}

#[test]
fn several_statements_run_in_turn_and_the_last_gives_the_rows() {
    let (_store, db) = database();
    let rows = db
        .exec(
            "CREATE TABLE t (n); INSERT INTO t VALUES (?1); SELECT n FROM t;",
            [5],
        )
        .unwrap();
    assert_eq!(rows.one::<i64>().unwrap(), 5);
    assert_eq!(rows.rows_written(), 1);
}

#[test]
fn rows_can_be_read_one_by_one() {
    let (_store, db) = database();
    let mut sum = 0;
    db.for_each("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) SELECT i FROM n", (), |row| {
        sum += row.get::<i64>()?;
        Ok::<(), abide_storage::Error>(())
    })
    .unwrap();
    assert_eq!(sum, 500_500);
}

#[test]
fn transaction_control_names_the_right_call() {
    let (_store, db) = database();
    for sql in [
        "BEGIN",
        "begin immediate",
        "COMMIT",
        "ROLLBACK",
        "END",
        "SELECT 1; BEGIN",
    ] {
        let (kind, text) = refused(&db, sql);
        assert_eq!(kind, ErrorKind::Input, "{sql}");
        assert!(text.contains("transaction"), "{sql}: {text}");
    }
    for sql in ["SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"] {
        assert!(refused(&db, sql).1.contains("transaction"), "{sql}");
    }
    for sql in [
        "ATTACH 'x' AS y",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO 'x'",
    ] {
        assert!(
            refused(&db, sql).1.contains("ATTACH"),
            "{sql}: {}",
            refused(&db, sql).1
        );
    }
    // Not even after the engine has used the same statements itself.
    db.kv_put("k", b"v").unwrap();
    db.commit().unwrap();
    assert!(refused(&db, "BEGIN").1.contains("transaction"));
    assert!(refused(&db, "BEGIN/*abide*/").1.contains("reserved"));
}

#[test]
fn reserved_tables_cannot_be_touched() {
    let (_store, db) = database();
    db.kv_put("k", b"v").unwrap();
    db.exec("CREATE TABLE mine (a)", ()).unwrap();
    for sql in [
        "SELECT * FROM _abide_kv",
        "DELETE FROM _ABIDE_KV",
        "INSERT INTO _abide_kv VALUES ('a', 'b')",
        "UPDATE _abide_meta SET value = 1",
        "DROP TABLE _abide_kv",
        "CREATE TABLE _abide_x (a)",
        "ALTER TABLE mine RENAME TO _abide_x",
        "CREATE VIEW v AS SELECT * FROM _abide_kv; SELECT * FROM v",
        "CREATE TRIGGER t AFTER INSERT ON mine BEGIN DELETE FROM _abide_kv; END; INSERT INTO mine VALUES (1)",
    ] {
        assert!(
            refused(&db, sql).1.contains("reserved"),
            "{sql}: {}",
            refused(&db, sql).1
        );
    }
    assert_eq!(db.kv_get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn only_harmless_pragmas_pass() {
    let (_store, db) = database();
    db.exec("CREATE TABLE t (n)", ()).unwrap();
    for sql in [
        "PRAGMA table_info(t)",
        "PRAGMA user_version = 7",
        "PRAGMA quick_check",
        "PRAGMA page_count",
        "SELECT * FROM pragma_table_list",
    ] {
        db.exec(sql, ()).expect(sql);
    }
    for sql in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA page_size = 512",
        "PRAGMA synchronous",
        "PRAGMA writable_schema = 1",
        "PRAGMA temp_store = 1",
    ] {
        assert!(refused(&db, sql).1.contains("PRAGMA"), "{sql}");
    }
    for sql in ["CREATE TEMP TABLE t2 (a)", "CREATE TEMP VIEW v AS SELECT 1"] {
        assert!(refused(&db, sql).1.contains("temporary"), "{sql}");
    }
}

#[test]
fn limits_are_named_when_they_are_passed() {
    let (_store, db) = database();
    db.exec("CREATE TABLE t (v)", ()).unwrap();
    let too_big = vec![0_u8; limits::MAX_VALUE_BYTES + limits::ROW_OVERHEAD_BYTES + 1];
    let cases = [
        db.exec("INSERT INTO t VALUES (?1)", [too_big]).unwrap_err(),
        db.exec(
            &format!(
                "SELECT {}",
                ["?"; limits::MAX_BOUND_PARAMETERS + 1].join(", ")
            ),
            (),
        )
        .unwrap_err(),
        db.exec(
            &format!(
                "CREATE TABLE w ({})",
                (0..=limits::MAX_COLUMNS)
                    .map(|i| format!("c{i}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            (),
        )
        .unwrap_err(),
        db.exec(
            &format!("SELECT '{}'", "x".repeat(limits::MAX_SQL_BYTES)),
            (),
        )
        .unwrap_err(),
        db.kv_put(&"k".repeat(limits::MAX_KEY_BYTES + 1), b"")
            .unwrap_err(),
        db.kv_put("k", &vec![0; limits::MAX_VALUE_BYTES + 1])
            .unwrap_err(),
        db.kv_get(&"k".repeat(limits::MAX_KEY_BYTES + 1))
            .unwrap_err(),
    ];
    for error in cases {
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    }
    db.kv_put(
        &"k".repeat(limits::MAX_KEY_BYTES),
        &vec![1; limits::MAX_VALUE_BYTES],
    )
    .unwrap();
    db.commit().unwrap().unwrap();
}

#[test]
fn an_sql_error_has_sqlites_words_and_changes_nothing() {
    let (_store, db) = database();
    db.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)", ())
        .unwrap();
    db.exec("INSERT INTO t VALUES (1)", ()).unwrap();
    assert!(refused(&db, "SELEC 1").1.contains("syntax error"));
    assert!(
        refused(&db, "SELECT * FROM nowhere")
            .1
            .contains("no such table: nowhere")
    );
    assert!(
        refused(&db, "INSERT INTO t VALUES (2), (1)")
            .1
            .contains("UNIQUE constraint failed")
    );
    assert!(refused(&db, "").1.contains("empty"));
    assert!(
        db.exec("SELECT ?1", ())
            .unwrap_err()
            .to_string()
            .contains("parameters")
    );
    assert_eq!(
        db.exec("SELECT count(*) FROM t", ())
            .unwrap()
            .one::<i64>()
            .unwrap(),
        1
    );
}

#[test]
fn a_transaction_that_sqlite_rolls_back_is_never_acknowledged() {
    let (_store, db) = database();
    db.exec("CREATE TABLE t (n INTEGER PRIMARY KEY)", ())
        .unwrap();
    db.commit().unwrap();
    db.exec("INSERT INTO t VALUES (1)", ()).unwrap();
    assert!(
        refused(&db, "INSERT OR ROLLBACK INTO t VALUES (1)")
            .1
            .contains("UNIQUE")
    );
    // SQLite has no transaction now; a write would be its own transaction.
    assert!(
        refused(&db, "INSERT INTO t VALUES (2)")
            .1
            .contains("rolled the transaction back")
    );
    assert!(db.kv_put("status", b"failed").is_err());
    let error = db.commit().unwrap_err();
    assert!(
        error.to_string().contains("rolled the transaction back"),
        "{error}"
    );
    assert_eq!(
        db.exec("SELECT count(*) FROM t", ())
            .unwrap()
            .one::<i64>()
            .unwrap(),
        0
    );
}

#[test]
fn savepoints_roll_back_on_errors_and_panics_and_nest() {
    let (_store, db) = database();
    let count = || {
        db.exec("SELECT count(*) FROM t", ())
            .unwrap()
            .one::<i64>()
            .unwrap()
    };
    let insert = || db.exec("INSERT INTO t VALUES (1)", ()).map(drop);
    db.exec("CREATE TABLE t (n)", ()).unwrap();
    let result: Result<(), abide_storage::Error> = db.transaction(|| {
        insert()?;
        let inner: Result<(), abide_storage::Error> = db.transaction(|| {
            insert()?;
            db.exec("nonsense", ()).map(drop)
        });
        assert!(inner.is_err());
        assert_eq!(count(), 1);
        Ok(())
    });
    result.unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<(), abide_storage::Error> = db.transaction(|| {
            insert()?;
            panic!("on purpose")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(count(), 1);
    assert!(db.commit().unwrap().is_some());
}

#[test]
fn keys_are_listed_in_order_with_every_option() {
    let (_store, db) = database();
    for key in ["a", "b/1", "b/2", "b/3", "c", "é"] {
        db.kv_put(key, key.as_bytes()).unwrap();
    }
    let list = |options: ListOptions| -> Vec<String> {
        db.kv_list(&options)
            .unwrap()
            .into_iter()
            .map(|(k, _)| k)
            .collect()
    };
    let text = |s: &str| Some(s.to_owned());
    assert_eq!(
        list(ListOptions::default()),
        ["a", "b/1", "b/2", "b/3", "c", "é"]
    );
    assert_eq!(
        list(ListOptions::default().prefix(text("b/"))),
        ["b/1", "b/2", "b/3"]
    );
    assert_eq!(
        list(
            ListOptions::default()
                .prefix(text("b/"))
                .reverse(true)
                .limit(2)
        ),
        ["b/3", "b/2"]
    );
    assert_eq!(
        list(ListOptions::default().start(text("b/2")).end(text("c"))),
        ["b/2", "b/3"]
    );
    assert_eq!(
        list(ListOptions::default().start_after(text("b/2"))),
        ["b/3", "c", "é"]
    );
    assert_eq!(
        list(
            ListOptions::default()
                .start(text("b"))
                .reverse(true)
                .limit(1)
        ),
        ["é"]
    );
    assert!(db.kv_delete("a").unwrap());
    assert!(!db.kv_delete("a").unwrap());
    assert_eq!(db.kv_get("a").unwrap(), None);
}

#[test]
fn delete_all_leaves_an_empty_small_database() {
    let (_store, db) = database();
    let empty = db.database_size().unwrap();
    db.exec(
        "CREATE TABLE p (id INTEGER PRIMARY KEY AUTOINCREMENT); CREATE TABLE c (p REFERENCES p);
         CREATE VIEW v AS SELECT * FROM p; CREATE INDEX i ON c (p);
         CREATE TRIGGER g AFTER INSERT ON p BEGIN INSERT INTO c VALUES (new.id); END;
         CREATE VIRTUAL TABLE f USING fts5 (body); PRAGMA user_version = 3; INSERT INTO p DEFAULT VALUES;",
        (),
    )
    .unwrap();
    for i in 0..200 {
        db.kv_put(&format!("key {i}"), &[1; 4000]).unwrap();
    }
    db.commit().unwrap();
    assert!(db.database_size().unwrap() > 100 * 4096);
    db.delete_all().unwrap();
    assert!(db.commit().unwrap().is_some());
    assert_eq!(db.kv_list(&ListOptions::default()).unwrap(), []);
    let left = "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND name NOT LIKE '\\_abide%' ESCAPE '\\'";
    assert_eq!(db.exec(left, ()).unwrap().one::<i64>().unwrap(), 0);
    assert!(
        db.database_size().unwrap() <= empty + 2 * 4096,
        "{}",
        db.database_size().unwrap()
    );
    db.exec("CREATE TABLE p (id)", ()).unwrap();
    db.commit().unwrap();
    assert_eq!(
        db.exec("PRAGMA integrity_check", ())
            .unwrap()
            .one::<String>()
            .unwrap(),
        "ok"
    );
}

#[test]
fn a_delete_all_that_is_rolled_back_deletes_nothing() {
    let (_store, db) = database();
    db.exec("CREATE TABLE t (n)", ()).unwrap();
    db.kv_put("k", b"v").unwrap();
    db.commit().unwrap();
    let undone: Result<(), abide_storage::Error> = db.transaction(|| {
        db.delete_all()?;
        db.exec("nonsense", ()).map(drop)
    });
    undone.unwrap_err();
    db.commit().unwrap();
    assert_eq!(db.kv_get("k").unwrap().as_deref(), Some(&b"v"[..]));
    db.exec("SELECT * FROM t", ()).unwrap();
}

#[test]
fn a_trigger_of_the_user_has_the_user_s_rights() {
    let (_store, db) = database();
    db.kv_put("parent", b"v").unwrap();
    db.exec("PRAGMA foreign_keys", ()).unwrap();
    for sql in [
        "/* */ ALTER TABLE t RENAME TO _abide_x",
        "SELECT 1; ALTER TABLE t RENAME TO _ABIDE_x",
    ] {
        assert!(refused(&db, sql).1.contains("reserved"), "{sql}");
    }
    assert!(
        refused(
            &db,
            "CREATE TRIGGER g AFTER DELETE ON _abide_kv BEGIN SELECT 1; END"
        )
        .1
        .contains("reserved")
    );
}

#[test]
fn a_namespace_that_cannot_be_a_directory_is_refused() {
    let store = manual(&SimDisk::new());
    for key in ["", &"k".repeat(129), &"ж".repeat(43)] {
        assert_eq!(
            store.namespace(key).unwrap_err().kind(),
            ErrorKind::Input,
            "{key}"
        );
    }
    store.namespace(&"k".repeat(128)).unwrap();
}

#[test]
fn a_name_is_stored_with_the_first_write_and_only_then() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    assert!(db.is_new());
    db.set_name("BA117");
    assert_eq!(db.name().unwrap().as_deref(), Some("BA117"));
    assert_eq!(db.commit().unwrap(), None);
    drop(db);
    let db = open(&store, 1);
    assert!(db.is_new());
    assert_eq!(db.name().unwrap(), None);
    db.set_name("BA117");
    db.kv_put("a", b"").unwrap();
    db.commit().unwrap().unwrap();
    drop(db);
    let db = open(&store, 1);
    assert!(!db.is_new());
    assert_eq!(db.name().unwrap().as_deref(), Some("BA117"));
}

#[test]
fn s13_one_connection_for_each_object() {
    let store = manual(&SimDisk::new());
    let db = open(&store, 1);
    let key = common::key(&store, 1);
    assert_eq!(
        store.open_object(key).unwrap_err().kind(),
        ErrorKind::Refused
    );
    drop(db);
    store.open_object(key).unwrap();
}

#[test]
fn a_read_changes_nothing_and_commits_nothing() {
    let (store, db) = database();
    db.exec("SELECT 1", ()).unwrap();
    assert_eq!(db.kv_get("k").unwrap(), None);
    assert_eq!(db.commit().unwrap(), None);
    db.exec("CREATE TABLE IF NOT EXISTS t (n)", ()).unwrap();
    assert!(db.commit().unwrap().is_some());
    db.exec("CREATE TABLE IF NOT EXISTS t (n)", ()).unwrap();
    assert_eq!(db.commit().unwrap(), None);
    assert_eq!(store.stats().commits, 1);
}
