//! An object has one database: no statement may use SQLite's temporary one, or another file.

use abide_storage::ErrorKind;

use crate::{
    common,
    sql::{database, refused, run, value},
};

#[test]
fn nothing_is_created_in_the_temporary_database() {
    let (store, db) = database();
    run(&db, "CREATE TABLE t (n); INSERT INTO t VALUES (1)");
    for sql in [
        "CREATE TABLE temp.t (n)",
        "CREATE TABLE \"temp\".t (n)",
        "CREATE TABLE TEMP.u AS SELECT 1",
        "CREATE TABLE IF NOT EXISTS temp.u (n)",
        "CREATE TEMP TABLE u (n)",
        "CREATE TEMPORARY TABLE u AS SELECT 1",
        "CREATE VIEW temp.v AS SELECT 1",
        "CREATE TEMP VIEW v AS SELECT 1",
        "CREATE TRIGGER temp.g AFTER INSERT ON main.t BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
        "CREATE INDEX temp.i ON t (n)",
        "CREATE VIRTUAL TABLE temp.f USING fts5 (a)",
        "CREATE VIRTUAL TABLE temp.r USING rtree (id, a, b)",
        "PRAGMA temp.user_version = 3",
        "INSERT INTO temp.sqlite_schema VALUES ('table', 'u', 'u', 1, '')",
        "DROP TABLE temp.t",
    ] {
        let error = db.exec(sql, ()).expect_err(sql);
        assert_eq!(error.kind(), ErrorKind::Input, "{sql}: {error}");
    }
    refused(&db, "CREATE TABLE temp.t (n)", "temporary tables");
    refused(&db, "CREATE VIEW temp.v AS SELECT 1", "temporary tables");
    run(&db, "INSERT INTO t VALUES (2)");
    db.commit().unwrap();
    drop(db);
    let db = common::open(&store, 1);
    assert_eq!(value(&db, "SELECT count(*) FROM t"), 2_i64.into());
}

#[test]
fn the_main_database_may_be_named() {
    let (_store, db) = database();
    for sql in [
        "CREATE TABLE main.t (n INTEGER PRIMARY KEY AUTOINCREMENT, m)",
        "CREATE INDEX main.i ON t (m)",
        "CREATE VIEW main.v AS SELECT m FROM main.t",
        "CREATE TRIGGER main.g AFTER INSERT ON t BEGIN UPDATE t SET m = 2 WHERE n = new.n; END",
        "CREATE VIRTUAL TABLE main.f USING fts5 (a)",
        "INSERT INTO MAIN.t (m) VALUES (1)",
        "ALTER TABLE main.t RENAME TO u",
        "ALTER TABLE u ADD COLUMN o",
        "ALTER TABLE u RENAME COLUMN o TO p",
        "ALTER TABLE u DROP COLUMN p",
        "PRAGMA main.user_version = 3",
        "PRAGMA main.table_info(u)",
        "SELECT * FROM pragma_table_info('u', 'main')",
        "REINDEX main.u",
        "ANALYZE main",
        "WITH c AS (SELECT 1 AS n) SELECT n FROM c UNION SELECT m FROM main.u ORDER BY 1",
        "DROP VIEW main.v",
        "DROP TRIGGER main.g",
        "DROP INDEX main.i",
        "DROP TABLE main.f",
        "DROP TABLE main.u",
    ] {
        run(&db, sql);
    }
    for sql in [
        "DROP TABLE main._abide_kv",
        "SELECT * FROM main._abide_kv",
        "CREATE TABLE main._abide_x (n)",
    ] {
        refused(&db, sql, "reserved");
    }
}

#[test]
fn no_other_file_can_be_opened() {
    let (_store, db) = database();
    for sql in [
        "ATTACH 'x' AS y",
        "ATTACH ':memory:' AS y",
        "DETACH main",
        "DETACH temp",
        "VACUUM",
        "VACUUM main",
        "VACUUM INTO 'x'",
    ] {
        refused(&db, sql, "ATTACH, DETACH and VACUUM are not available");
    }
    for sql in [
        "SELECT * FROM pragma_journal_mode('wal')",
        "SELECT * FROM pragma_writable_schema(1)",
        "PRAGMA main.journal_mode = delete",
        "PRAGMA temp_store_directory = '/tmp'",
        "SELECT load_extension('x')",
        "SELECT readfile('x')",
        "CREATE VIRTUAL TABLE c USING csv (filename = 'x')",
        "SELECT * FROM sqlite_dbpage",
    ] {
        db.exec(sql, ()).expect_err(sql);
    }
}
