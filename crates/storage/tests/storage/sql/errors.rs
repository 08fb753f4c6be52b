//! What SQLite reports reaches the user with its reason.

use abide_storage::{Error, ErrorKind, SqlErrorKind};

use crate::{
    common,
    sql::{database, refused, run, value},
};

#[test]
fn an_exhausted_autoincrement_is_not_a_full_object() {
    let (_store, db) = database();
    run(
        &db,
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, n)",
    );
    db.commit().unwrap();
    for committed in [true, false] {
        run(
            &db,
            "INSERT OR REPLACE INTO t VALUES (9223372036854775807, 1)",
        );
        if committed {
            db.commit().unwrap();
        }
        let error = db.exec("INSERT INTO t (n) VALUES (2)", ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        assert!(error.to_string().contains("AUTOINCREMENT"), "{error}");
        assert_eq!(error.sql().unwrap().kind(), SqlErrorKind::Other);
        // SQLite has rolled the transaction back.
        assert_eq!(db.commit().unwrap_err().kind(), ErrorKind::Input);
    }
    assert_eq!(value(&db, "SELECT count(*) FROM t"), 1_i64.into());
}

#[test]
fn a_deferred_foreign_key_that_fails_at_the_commit_has_sqlites_words() {
    let (store, db) = database();
    run(
        &db,
        "CREATE TABLE p (id INTEGER PRIMARY KEY);
         CREATE TABLE c (p INTEGER REFERENCES p DEFERRABLE INITIALLY DEFERRED)",
    );
    db.commit().unwrap();
    run(&db, "INSERT INTO c VALUES (7)");
    let error = db.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    assert!(
        error.to_string().contains("FOREIGN KEY constraint failed"),
        "{error}"
    );
    assert_eq!(error.sql().unwrap().kind(), SqlErrorKind::ForeignKey);
    drop(db);
    assert_eq!(
        value(&common::open(&store, 1), "SELECT count(*) FROM c"),
        0_i64.into()
    );
}

#[test]
fn a_text_without_a_statement_is_refused() {
    let (_store, db) = database();
    for sql in [
        "",
        " \n",
        ";",
        ";;",
        "-- SELECT 1",
        "/* one; two */",
        "; -- one; two",
    ] {
        refused(&db, sql, "the SQL text is empty");
        let error = db.for_each(sql, (), |_| Ok::<(), Error>(())).unwrap_err();
        assert_eq!(error.to_string(), "the SQL text is empty", "{sql}");
    }
    for sql in [
        "SELECT 7; -- SELECT 8",
        "; SELECT 7",
        "-- one; two\nSELECT 7",
        "SELECT 7;;",
    ] {
        assert_eq!(value(&db, sql), 7.into(), "{sql}");
    }
}
