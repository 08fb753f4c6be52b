//! Remembered results: how long, how many, and what is left of them.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, sync::Arc};

use abide_storage::{
    KeyedCall, ObjectDb, ObjectKey, Remembered, SimDisk, Store, StoreOptions,
    limits::{IDEMPOTENCY_TTL, MAX_IDEMPOTENCY_BYTES, MAX_REMEMBERED_RESULT_BYTES},
};

const NOW: u64 = 1_767_225_600_000;
const DAY: u64 = IDEMPOTENCY_TTL.as_millis() as u64;

fn open() -> (Store, ObjectDb) {
    let disk = Arc::new(SimDisk::new());
    let store = Store::open(disk, Path::new("/data"), StoreOptions::small()).unwrap();
    let namespace = store.namespace("test").unwrap();
    let key = ObjectKey {
        namespace,
        id: [1; 32],
    };
    let db = store.open_object(key).unwrap();
    (store, db)
}

fn remember(db: &ObjectDb, key: &str, result: &[u8], now: u64) {
    let call = KeyedCall {
        key,
        method: "pay",
        fingerprint: &[7; 32],
    };
    db.remember(call, Some(result), now).unwrap();
}

fn found(db: &ObjectDb, key: &str, now: u64) -> Option<Remembered> {
    db.remembered(key, now).unwrap()
}

/// What is found of a call with this result.
fn with(result: Option<&[u8]>) -> Remembered {
    Remembered {
        fingerprint: [7; 32],
        result: result.map(<[u8]>::to_vec),
    }
}

#[test]
fn a_result_is_remembered_until_it_expires_and_then_its_key_is_free() {
    let (_store, db) = open();
    assert_eq!(found(&db, "a", NOW), None);
    remember(&db, "a", b"first", NOW);
    db.commit().unwrap();
    assert_eq!(found(&db, "a", NOW + DAY - 1), Some(with(Some(b"first"))));
    assert_eq!(found(&db, "a", NOW + DAY), None);
    remember(&db, "a", b"second", NOW + DAY);
    assert_eq!(found(&db, "a", NOW + DAY), Some(with(Some(b"second"))));
}

#[test]
fn a_result_is_remembered_with_the_transaction_or_not_at_all() {
    let (_store, db) = open();
    remember(&db, "a", b"lost", NOW);
    db.rollback();
    assert_eq!(found(&db, "a", NOW), None);
}

#[test]
fn expired_results_go_a_few_at_a_time_when_new_ones_come() {
    let (_store, db) = open();
    for number in 0..20 {
        remember(&db, &format!("old {number}"), b"x", NOW);
    }
    let left = |db: &ObjectDb| {
        (0..20)
            .filter(|number| found(db, &format!("old {number}"), NOW).is_some())
            .count()
    };
    remember(&db, "new 1", b"x", NOW + DAY);
    assert_eq!(left(&db), 12);
    remember(&db, "new 2", b"x", NOW + DAY);
    remember(&db, "new 3", b"x", NOW + DAY);
    assert_eq!(left(&db), 0);
    assert!(found(&db, "new 1", NOW + DAY).is_some());
}

#[test]
fn the_oldest_results_go_when_there_is_too_much() {
    let (_store, db) = open();
    let large = vec![0; MAX_REMEMBERED_RESULT_BYTES];
    let fit = usize::try_from(MAX_IDEMPOTENCY_BYTES).unwrap() / large.len();
    for number in 0..=fit {
        remember(&db, &number.to_string(), &large, NOW);
        db.commit().unwrap();
    }
    assert_eq!(found(&db, "0", NOW), None);
    assert!(found(&db, &fit.to_string(), NOW).is_some());
    assert!(found(&db, "3", NOW).is_some());
}

#[test]
fn a_result_that_is_too_large_is_left_out_and_its_call_is_remembered() {
    let (_store, db) = open();
    remember(&db, "a", &vec![0; MAX_REMEMBERED_RESULT_BYTES + 1], NOW);
    assert_eq!(found(&db, "a", NOW), Some(with(None)));
}

#[test]
fn an_object_that_deletes_everything_forgets_its_results_too() {
    let (_store, db) = open();
    remember(&db, "a", b"x", NOW);
    db.commit().unwrap();
    db.delete_all().unwrap();
    assert_eq!(found(&db, "a", NOW), None);
    remember(&db, "a", b"y", NOW);
    db.commit().unwrap();
    assert_eq!(found(&db, "a", NOW), Some(with(Some(b"y"))));
}
