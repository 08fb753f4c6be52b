//! A statement that is run again gives what it would if it were prepared anew.

use abide_storage::ObjectDb;

use crate::sql::{database, run, value};

fn all(db: &ObjectDb, sql: &str) -> String {
    format!("{:?}", db.exec(sql, ()).map(|rows| rows.raw()))
}

/// Runs a text that was run before, and the same statement as a new text.
#[track_caller]
fn as_if_new(db: &ObjectDb, sql: &str, number: u32) {
    assert_eq!(all(db, sql), all(db, &format!("{sql} -- {number}")));
}

#[test]
fn an_explanation_follows_the_schema() {
    let (_store, db) = database();
    let texts = [
        "EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 1",
        "/* why */ explain query plan SELECT * FROM t WHERE a = 1",
        "EXPLAIN SELECT * FROM t WHERE a = 1",
    ];
    let steps = [
        "CREATE TABLE t (a)",
        "CREATE INDEX i ON t (a)",
        "DROP INDEX i",
        "DROP TABLE t",
        "CREATE TABLE t (a INTEGER PRIMARY KEY)",
        "ALTER TABLE t ADD COLUMN b",
    ];
    for (number, step) in (0..).zip(steps) {
        run(&db, step);
        for text in texts {
            as_if_new(&db, text, number);
        }
    }
}

#[test]
fn a_pragma_is_set_and_read_each_time() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a)");
    db.commit().unwrap();
    let mut number = 0;
    for round in 0..3 {
        for name in [
            "foreign_keys",
            "defer_foreign_keys",
            "ignore_check_constraints",
            "legacy_alter_table",
            "recursive_triggers",
            "reverse_unordered_selects",
            "user_version",
        ] {
            for on in [1, 0] {
                let read = format!("PRAGMA {name}");
                run(&db, &format!("PRAGMA {name} = {on}"));
                assert_eq!(value(&db, &read), on.into(), "{round} {name}");
                // The end of a transaction resets one of them.
                run(&db, "INSERT INTO t VALUES (1)");
                db.commit().unwrap();
                number += 1;
                as_if_new(&db, &read, number);
            }
        }
        for (set, equal) in [("ON", 0), ("OFF", 1)] {
            run(&db, &format!("PRAGMA case_sensitive_like = {set}"));
            assert_eq!(value(&db, "SELECT 'A' LIKE 'a'"), equal.into(), "{round}");
        }
    }
}

/// SQLite takes each of these for a statement that only reads while it has nothing to do.
#[test]
fn a_statement_that_had_nothing_to_do_writes_in_a_transaction_later() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a)");
    db.commit().unwrap();
    for (again, change) in [
        ("REINDEX t", "CREATE INDEX i ON t (a)"),
        ("REINDEX", "CREATE INDEX i ON t (a)"),
        (
            "DROP TRIGGER IF EXISTS tr",
            "CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 1; END",
        ),
        ("DROP INDEX IF EXISTS i", "CREATE INDEX i ON t (a)"),
        ("DROP VIEW IF EXISTS v", "CREATE VIEW v AS SELECT 1"),
        ("DROP TABLE IF EXISTS u", "CREATE TABLE u (a)"),
        ("CREATE TABLE IF NOT EXISTS t (a)", "DROP TABLE t"),
        ("ANALYZE", "INSERT INTO t VALUES (1)"),
    ] {
        run(&db, again);
        db.commit().unwrap();
        run(&db, change);
        db.commit().unwrap();
        run(&db, again);
        assert!(db.in_transaction(), "{again}");
        db.rollback();
        run(&db, "DROP INDEX IF EXISTS i");
        run(&db, "CREATE TABLE IF NOT EXISTS t (a)");
        db.commit().unwrap();
    }
}
