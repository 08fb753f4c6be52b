//! Users' SQL, beside SQLite's own behaviour.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod columns;
mod counts;
mod deferral;
mod differential;
mod errors;
mod kept;
mod limits;
mod other_databases;
mod parameters;
mod reserved;
mod texts;

use crate::common;
use abide_storage::{ErrorKind, ObjectDb, SimDisk, Store, Value};

/// An object of a store.
fn database() -> (Store, ObjectDb) {
    let store = common::manual(&SimDisk::new());
    let db = common::open(&store, 1);
    (store, db)
}

fn run(db: &ObjectDb, sql: &str) {
    db.exec(sql, ()).expect(sql);
}

/// The only value of the only row.
fn value(db: &ObjectDb, sql: &str) -> Value {
    let rows = db.exec(sql, ()).expect(sql).raw();
    assert!(rows.len() == 1 && rows[0].len() == 1, "{sql}: {rows:?}");
    rows[0][0].clone()
}

#[track_caller]
fn refused(db: &ObjectDb, sql: &str, why: &str) {
    let error = db.exec(sql, ()).expect_err(sql);
    assert_eq!(error.kind(), ErrorKind::Input, "{sql}: {error}");
    assert!(error.to_string().contains(why), "{sql}: {error}");
}
