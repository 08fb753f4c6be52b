//! The engine's tables, and names that begin like theirs.

use abide_storage::{AlarmRow, limits::MAX_NAMED_ALARMS};

use crate::sql::{database, refused, run, value};

#[test]
fn no_table_gets_a_reserved_name_by_being_created_or_renamed() {
    let (_store, db) = database();
    run(
        &db,
        "CREATE TABLE t (n); CREATE VIRTUAL TABLE f USING fts5 (a)",
    );
    for sql in [
        "CREATE TABLE _abide (n)",
        "CREATE VIRTUAL TABLE _abide USING fts5 (a)",
        "CREATE VIRTUAL TABLE _Abide USING rtree (id, a, b)",
        "CREATE VIEW _abide AS SELECT 1",
        "ALTER TABLE f RENAME TO _abide",
        "ALTER TABLE f RENAME TO \"_ABIDE\"",
        "ALTER TABLE f RENAME TO [_abide]",
        "ALTER TABLE f RENAME TO '_abide';",
        "ALTER TABLE t RENAME TO _abide_x",
        "alter/**/table t rename to `_abide_x`",
    ] {
        refused(&db, sql, "reserved");
    }
    // These only look like it.
    run(&db, "ALTER TABLE t ADD COLUMN not_abide_x");
    run(&db, "ALTER TABLE t RENAME COLUMN not_abide_x TO x_abide");
    run(&db, "ALTER TABLE f RENAME TO _abides");
    run(&db, "INSERT INTO _abides VALUES ('hello')");
    db.delete_all().unwrap();
    db.commit().unwrap();
    let left = "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '\\_abide\\_%' ESCAPE '\\'";
    assert_eq!(value(&db, left), 0_i64.into());
}

#[test]
fn nothing_refers_to_the_engine_s_tables() {
    let (_store, db) = database();
    db.set_alarm(Some(&AlarmRow::at(5))).unwrap();
    run(&db, "CREATE TABLE t (n)");
    for sql in [
        "CREATE TABLE c (k TEXT REFERENCES _abide_meta (key))",
        "CREATE TABLE c (k TEXT, FOREIGN KEY (k) REFERENCES \"_abide_kv\" (key) ON DELETE CASCADE)",
        "ALTER TABLE t ADD COLUMN k TEXT REFERENCES _abide_meta (key)",
        "CREATE TRIGGER g AFTER DELETE ON _abide_kv BEGIN SELECT 1; END",
        "CREATE INDEX i ON _abide_kv (key)",
    ] {
        refused(&db, sql, "reserved");
    }
    db.set_alarm(None).unwrap();
    db.commit().unwrap();
}

#[test]
fn delete_all_works_whatever_pragmas_are_set() {
    let (_store, db) = database();
    run(&db, "PRAGMA case_sensitive_like = ON");
    run(
        &db,
        "create virtual table f using fts5 (a); create table Sqlitex (n); create view v as select 1",
    );
    db.delete_all().unwrap();
    db.commit().unwrap();
    let left = "SELECT count(*) FROM sqlite_schema WHERE name NOT GLOB '_abide_*'";
    assert_eq!(value(&db, left), 0_i64.into());
}

#[test]
fn analyze_skips_the_engine_s_tables() {
    let (_store, db) = database();
    db.kv_put("k", b"v").unwrap();
    run(
        &db,
        "CREATE TABLE t (n); CREATE INDEX i ON t (n); INSERT INTO t VALUES (1), (2)",
    );
    run(&db, "ANALYZE");
    run(&db, "ANALYZE t");
    run(&db, "ANALYZE main");
    let tables = "SELECT group_concat(DISTINCT tbl) FROM sqlite_stat1";
    assert_eq!(value(&db, tables), "t".to_owned().into());
    db.commit().unwrap();
    assert_eq!(value(&db, "PRAGMA integrity_check"), "ok".to_owned().into());
}

#[test]
fn the_object_s_own_alarm_is_not_one_of_the_named_ones() {
    let (_store, db) = database();
    db.set_alarm(Some(&AlarmRow::at(5))).unwrap();
    let set = |n: usize| db.set_named_alarm(&n.to_string(), Some(&AlarmRow::at(9)));
    for n in 0..MAX_NAMED_ALARMS {
        set(n).unwrap();
    }
    let error = set(MAX_NAMED_ALARMS).unwrap_err();
    assert!(error.to_string().contains("1000 named alarms"), "{error}");
    set(7).unwrap();
    db.set_alarm(None).unwrap();
    set(MAX_NAMED_ALARMS).unwrap_err();
    db.set_alarm(Some(&AlarmRow::at(5))).unwrap();
}
