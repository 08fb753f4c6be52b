//! `changes()` and `total_changes()` are about the user's statements.

use abide_storage::{AlarmRow, Value};

use crate::sql::{database, run, value};

#[test]
fn the_engine_s_writes_do_not_count_as_changes() {
    let (_store, db) = database();
    db.set_name("ada");
    let engine_writes = || {
        db.kv_put("k", b"v").unwrap();
        db.set_named_alarm("a", Some(&AlarmRow::at(5))).unwrap();
        db.kv_delete("k").unwrap();
    };
    run(&db, "CREATE TABLE t (n)");
    engine_writes();
    assert_eq!(value(&db, "SELECT changes()"), Value::Integer(0));
    assert_eq!(value(&db, "SELECT total_changes()"), Value::Integer(0));
    run(&db, "INSERT INTO t VALUES (1), (2), (3)");
    engine_writes();
    assert_eq!(value(&db, "SELECT changes()"), Value::Integer(3));
    run(&db, "CREATE TABLE u (n)");
    engine_writes();
    assert_eq!(
        value(&db, "SELECT changes()"),
        Value::Integer(3),
        "DDL does not count"
    );
    run(&db, "UPDATE t SET n = 0 WHERE n = 7");
    engine_writes();
    assert_eq!(value(&db, "SELECT changes()"), Value::Integer(0));
    run(&db, "INSERT INTO u VALUES (5); DELETE FROM t WHERE n < 3");
    engine_writes();
    assert_eq!(value(&db, "SELECT changes()"), Value::Integer(2));
    assert_eq!(value(&db, "SELECT total_changes()"), Value::Integer(6));
    db.commit().unwrap();
    assert_eq!(value(&db, "SELECT total_changes()"), Value::Integer(6));
    run(&db, "INSERT INTO t SELECT changes()");
    assert_eq!(value(&db, "SELECT n FROM t WHERE n = 2"), Value::Integer(2));
}

#[test]
fn a_statement_that_cannot_be_prepared_again_keeps_the_count() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE parent (id INTEGER PRIMARY KEY)");
    run(
        &db,
        "CREATE TABLE child (id INTEGER PRIMARY KEY, of REFERENCES parent)",
    );
    run(&db, "DELETE FROM child WHERE id > 8");
    run(&db, "DROP TABLE parent");
    db.kv_put("k", b"v").unwrap();
    let failed = db.exec("DELETE FROM child WHERE id > 8", []);
    assert_eq!(
        failed.unwrap_err().to_string(),
        "no such table: main.parent"
    );
    assert_eq!(value(&db, "SELECT changes()"), Value::Integer(0));
}
