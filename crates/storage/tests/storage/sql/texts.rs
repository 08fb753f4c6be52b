//! Texts: several statements in one, what may stand around a statement, and what is not one.

use abide_storage::{Error, ErrorKind, ObjectDb, Value, params_from_iter};

use crate::sql::{database, refused, run, value};

fn count(db: &ObjectDb) -> Value {
    value(db, "SELECT count(*) FROM t")
}

/// Passes a statement to the call that takes only one.
fn each(db: &ObjectDb, sql: &str) -> Result<(), Error> {
    db.for_each(sql, (), |_| Ok(()))
}

#[test]
fn a_pragma_has_no_effect_on_the_statements_before_it() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a CHECK (a > 0))");
    run(&db, "CREATE TABLE p (a PRIMARY KEY)");
    run(&db, "CREATE TABLE c (a REFERENCES p (a))");
    db.commit().unwrap();
    for (text, why) in [
        (
            "INSERT INTO t VALUES (-1); PRAGMA ignore_check_constraints = ON",
            "CHECK constraint failed",
        ),
        (
            "SELECT 1; INSERT INTO t VALUES (-1); SELECT 2; PRAGMA ignore_check_constraints = ON;",
            "CHECK constraint failed",
        ),
        (
            "INSERT INTO c VALUES (99); PRAGMA foreign_keys = OFF",
            "FOREIGN KEY constraint failed",
        ),
    ] {
        refused(&db, text, why);
        db.rollback();
    }
    assert_eq!(value(&db, "PRAGMA ignore_check_constraints"), 0.into());
    assert_eq!(value(&db, "PRAGMA foreign_keys"), 1.into());
    run(
        &db,
        "PRAGMA ignore_check_constraints = ON; INSERT INTO t VALUES (-1)",
    );
    assert_eq!(count(&db), 1.into());
}

#[test]
fn a_text_that_is_refused_as_a_whole_has_no_effect() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a)");
    let pragma = "PRAGMA ignore_check_constraints = ON";
    for text in [format!("SELECT 1; {pragma}"), format!("{pragma}; SELECT 1")] {
        let error = each(&db, &text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains("has several"), "{error}");
    }
    let takers = format!("{pragma}; INSERT INTO t VALUES (?1); SELECT :two");
    let error = db.exec(&takers, (1,)).unwrap_err();
    assert!(error.to_string().starts_with("only one of several"));
    assert_eq!(count(&db), 0.into());
    assert_eq!(value(&db, "PRAGMA ignore_check_constraints"), 0.into());
}

#[test]
fn values_that_no_statement_of_a_text_takes_are_refused() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a)");
    let insert = "INSERT INTO t VALUES (1)";
    let one = db.exec(insert, (5,)).unwrap_err().to_string();
    let several = format!("{insert}; {insert}");
    assert_eq!(db.exec(&several, (5,)).unwrap_err().to_string(), one);
    db.exec(&several, params_from_iter([5])).unwrap_err();
    db.exec(&several, &[(":a", 5)]).unwrap_err();
    // In a string, a name or a comment it is none.
    let looks = "SELECT '?', \":a\" FROM (SELECT 1 AS \":a\"); SELECT 2 -- ?1";
    db.exec(looks, (5,)).unwrap_err();
    assert_eq!(count(&db), 0.into());
    db.exec(&several, ()).unwrap();
    db.exec(&format!("{insert}; INSERT INTO t VALUES (?)"), (5,))
        .unwrap();
    db.exec(&format!("INSERT INTO t VALUES (?); {insert}"), (5,))
        .unwrap();
    assert_eq!(count(&db), 6.into());
}

#[test]
fn what_is_ignored_before_a_statement_changes_nothing() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a)");
    run(&db, "INSERT INTO t VALUES (1), (2)");
    for before in [
        "",
        "\u{feff}",
        "\u{a0}\u{feff} ",
        "\u{feff} -- a comment\n\u{feff}",
        "/* one */\u{feff}/**/",
        ";",
        " ; \u{feff};--;\n",
    ] {
        let context = format!("{before:?}");
        let text = |sql: &str| format!("{before}{sql}");
        run(&db, &text("UPDATE t SET a = 5"));
        assert_eq!(value(&db, "SELECT changes()"), 2.into(), "{context}");
        run(&db, &text("UPDATE t SET a = 5 WHERE a = 99"));
        assert_eq!(value(&db, "SELECT changes()"), 0.into(), "{context}");
        run(&db, "UPDATE t SET a = 5");
        let create = text("CREATE TRIGGER IF NOT EXISTS tr AFTER INSERT ON t BEGIN SELECT 1; END");
        run(&db, &create);
        db.commit().unwrap();
        run(&db, &create);
        run(&db, "DROP TRIGGER tr");
        db.commit().unwrap();
        run(&db, &create);
        assert!(db.in_transaction(), "{context}");
        db.rollback();
        each(&db, &text("SELECT 1;;\u{feff} -- ;")).unwrap();
    }
}

#[test]
fn a_virtual_table_is_recognized_behind_what_is_ignored() {
    for before in ["", "\u{feff}", ";"] {
        let (_store, db) = database();
        db.begin_construction();
        run(
            &db,
            &format!("{before}CREATE VIRTUAL TABLE f USING fts5(a)"),
        );
        db.end_construction().unwrap();
        assert!(db.defer().unwrap(), "{before:?}");
    }
}

#[test]
fn a_text_with_a_nul_character_is_refused() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a)");
    run(&db, "INSERT INTO t VALUES (1)");
    for text in [
        "DELETE FROM t\0 WHERE a = 2",
        "SELECT 1; DELETE FROM t\0 WHERE a = 2",
        "\0",
    ] {
        refused(&db, text, "NUL");
        each(&db, text).unwrap_err();
    }
    assert_eq!(count(&db), 1.into());
    db.exec("INSERT INTO t VALUES (?)", ("a\0b",)).unwrap();
}

#[test]
fn a_semicolon_ends_a_statement_only_where_sqlite_says_so() {
    let (_store, db) = database();
    run(&db, "CREATE TABLE t (a)");
    for one in [
        "SELECT ';' AS \";\", 1 AS [;], 2 AS `;` /* ; */ -- ;",
        "explain /**/ query plan create trigger tr after insert on t begin select 1; end;",
        "CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; SELECT 3; END",
    ] {
        each(&db, one).expect(one);
    }
    let two = "DROP TRIGGER tr; CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 1; END; SELECT 7";
    assert_eq!(value(&db, two), 7.into());
    refused(
        &db,
        "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END",
        "temporary",
    );
    let sql = "SELECT sql FROM sqlite_schema WHERE name = 'tr'";
    let stored = "CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 1; END";
    assert_eq!(value(&db, sql), stored.into());
}
