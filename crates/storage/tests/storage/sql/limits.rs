//! The limits of statements and values, as they are and raised.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, sync::Arc};

use abide_storage::{
    ErrorKind, ObjectDb, SimDisk, SqlLimits, Store, StoreOptions, Value,
    limits::{MAX_BOUND_PARAMETERS, MAX_COLUMNS, MAX_VALUE_BYTES, MOST_VALUE_BYTES},
};

use crate::common::{DIR, flush, open};

fn store(disk: &SimDisk, sql: SqlLimits, max_object_bytes: u64) -> Store {
    let options = StoreOptions::small()
        .manual(true)
        .sql(sql)
        .max_object_bytes(max_object_bytes);
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
}

/// A statement with this many parameters, and their values.
fn parameters(count: usize) -> (String, Vec<Value>) {
    let places = vec!["(?)"; count].join(", ");
    let values = (0..count).map(|_| Value::Integer(7));
    (format!("INSERT INTO t VALUES {places}"), values.collect())
}

fn insert(db: &ObjectDb, count: usize) -> abide_storage::Result<()> {
    let (sql, values) = parameters(count);
    let params = abide_storage::params_from_iter(values);
    db.exec(&sql, params).map(drop)
}

fn create(db: &ObjectDb, columns: usize) -> abide_storage::Result<()> {
    let names: Vec<_> = (0..columns).map(|number| format!("c{number}")).collect();
    let sql = format!("CREATE TABLE wide_{columns} ({})", names.join(", "));
    db.exec(&sql, ()).map(drop)
}

#[test]
fn each_limit_holds_where_it_was_set_and_its_error_names_the_setting() {
    let raised = SqlLimits::default()
        .parameters(1_000)
        .columns(150)
        .value_bytes(8 << 20);
    for (sql, parameters, columns, value) in [
        (
            SqlLimits::default(),
            MAX_BOUND_PARAMETERS,
            MAX_COLUMNS,
            MAX_VALUE_BYTES,
        ),
        (raised, 1_000, 150, 8 << 20),
        // What components need is never refused.
        (
            SqlLimits::default()
                .parameters(1)
                .columns(1)
                .value_bytes(usize::MAX),
            MAX_BOUND_PARAMETERS,
            MAX_COLUMNS,
            MOST_VALUE_BYTES,
        ),
    ] {
        let store = store(&SimDisk::new(), sql, 1 << 30);
        let db = open(&store, 1);
        db.exec("CREATE TABLE t (a)", ()).unwrap();
        let refused = |result: abide_storage::Result<()>, setting: &str| {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
            assert!(error.to_string().contains(setting), "{error}");
        };
        insert(&db, parameters).unwrap();
        refused(insert(&db, parameters + 1), "(storage.max_parameters)");
        create(&db, columns).unwrap();
        refused(create(&db, columns + 1), "(storage.max_columns)");
        db.kv_put("key", &vec![7; value]).unwrap();
        refused(
            db.kv_put("key", &vec![7; value + 1]),
            "(storage.max_value_bytes)",
        );
        let blob = |bytes: usize| {
            let sql = "INSERT INTO t SELECT zeroblob(?1)";
            db.exec(sql, (u32::try_from(bytes).unwrap(),)).map(drop)
        };
        blob(value).unwrap();
        refused(blob(2 * value + (1 << 20)), "(storage.max_value_bytes)");
    }
}

#[test]
fn a_large_value_survives_a_loss_of_power() {
    let disk = SimDisk::new();
    let sql = SqlLimits::default().value_bytes(MOST_VALUE_BYTES);
    let store = |disk: &SimDisk| store(disk, sql, 1 << 30);
    let value: Vec<u8> = (0..MOST_VALUE_BYTES).map(|at| (at >> 8) as u8).collect();
    let first = store(&disk);
    let db = open(&first, 1);
    db.kv_put("key", &value).unwrap();
    db.commit().unwrap();
    flush(&first);
    let lost = store(&disk.crash(1));
    assert_eq!(
        open(&lost, 1).kv_get("key").unwrap().as_deref(),
        Some(&*value)
    );
    lost.checkpoint().unwrap();
}
