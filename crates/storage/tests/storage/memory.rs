//! What the engine keeps in memory counts against the node's budget, and its own share is bounded by it.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, flush, key, open};
use abide_storage::{MemoryBudget, MemoryUse, ObjectKey, SimDisk, Store, StoreOptions, limits};
use std::{path::Path, sync::Arc};

const BUDGET: u64 = 8 << 20;

fn store() -> Store {
    let options = StoreOptions::small()
        .manual(true)
        .memory(MemoryBudget::new(BUDGET));
    Store::open(Arc::new(SimDisk::new()), Path::new(DIR), options).unwrap()
}

fn taken(store: &Store, used_for: MemoryUse) -> u64 {
    store.memory().usage()[used_for as usize].bytes
}

#[test]
fn pages_that_files_lack_take_no_more_than_their_share_of_the_budget() {
    const COMMIT: usize = 100_000;
    let store = store();
    let namespace = key(&store, 0).namespace;
    let mut most = 0;
    for number in 0..100 {
        let id = [number; 32];
        let db = store.open_object(ObjectKey { namespace, id }).unwrap();
        db.kv_put("key", &vec![number; COMMIT]).unwrap();
        db.commit().unwrap();
        let taken = taken(&store, MemoryUse::Overlay);
        let pages = store.stats().overlay_bytes / limits::PAGE_BYTES as u64;
        assert_eq!(taken, pages * limits::OVERLAY_PAGE_BYTES);
        most = most.max(taken);
    }
    // A commit waits once the share is used, so the last one before it may pass it.
    let share = BUDGET / limits::OVERLAY_SHARE;
    assert!(
        most <= share + 2 * COMMIT as u64 && most > share / 2,
        "{most} of {share}"
    );
    assert!(store.stats().checkpoints > 0);
    store.checkpoint().unwrap();
    assert_eq!(taken(&store, MemoryUse::Overlay), 0);
}

#[test]
fn log_that_waits_for_the_disk_is_counted_until_it_is_durable() {
    let store = store();
    let db = open(&store, 1);
    for round in 0..10_u8 {
        db.kv_put("key", &vec![round; 10_000]).unwrap();
        db.commit().unwrap();
        assert_eq!(taken(&store, MemoryUse::Log), store.stats().unsynced_bytes);
    }
    assert!(taken(&store, MemoryUse::Log) > 10_000);
    flush(&store);
    assert_eq!(taken(&store, MemoryUse::Log), 0);
}

#[test]
fn a_connection_tells_what_it_takes_and_takes_more_when_it_reads_more() {
    let store = store();
    let db = open(&store, 1);
    db.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)", ())
        .unwrap();
    db.exec("INSERT INTO t (b) VALUES (zeroblob(500000))", ())
        .unwrap();
    db.commit().unwrap();
    store.checkpoint().unwrap();
    drop(db);
    let db = open(&store, 1);
    let empty = db.memory().unwrap();
    assert!((8_000..100_000).contains(&empty), "{empty}");
    assert_eq!(db.memory(), None, "nothing has changed");
    db.exec("SELECT length(hex(b)) FROM t", ()).unwrap();
    let full = db.memory().unwrap();
    assert!(full > empty + 400_000, "{empty} {full}");
}

#[test]
fn kept_statements_count_with_their_texts_and_long_ones_are_not_kept() {
    const LONG: usize = limits::MAX_KEPT_SQL_BYTES;
    let store = store();
    let db = open(&store, 1);
    let before = db.memory().unwrap();
    let select = |number: usize, bytes: usize| {
        let head = format!("SELECT {number} -- ");
        let sql = format!("{head}{}", "x".repeat(bytes - head.len()));
        db.exec(&sql, ()).unwrap();
    };
    for number in 0..limits::STATEMENT_CACHE {
        select(number, LONG + 1);
    }
    assert_eq!(db.memory(), None, "nothing is kept");
    for number in 0..limits::STATEMENT_CACHE {
        select(number, LONG);
    }
    let texts = (limits::STATEMENT_CACHE * LONG) as u64;
    let kept = db.memory().unwrap();
    assert!(
        kept > before + texts && kept < before + 4 * texts,
        "{before} {kept}"
    );
    for number in 0..limits::STATEMENT_CACHE {
        select(number, 30);
    }
    let short = db.memory().unwrap();
    assert!(short + texts < kept, "{kept} {short}");
}
