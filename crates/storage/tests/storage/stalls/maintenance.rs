//! Commits beside a checkpoint and an archive that the disk holds up, and beside threads that panic.

use crate::{
    common::key,
    stalls::{LONG, noise, open, options, put, until},
};
use abide_storage::{DiskOp, Fault, FaultyDisk, WaitReason};

/// Commits several segments' worth while `held` is held. Those must not wait for it.
fn commits_pass(held: &'static str) {
    let disk = FaultyDisk::default();
    let store = open(&disk, options());
    let key = key(&store, 1);
    disk.hold(&[DiskOp::Sync], held);
    let (done, told) = std::sync::mpsc::channel();
    let worker = {
        let (store, disk) = (store.clone(), disk.clone());
        std::thread::spawn(move || {
            let db = store.open_object(key).expect("the object");
            put(&db, 0, 100);
            disk.wait_until_held();
            for n in 0..200 {
                put(&db, n, 16_000);
            }
            while store.durable().get() < store.stats().appended_lsn {
                std::thread::yield_now();
            }
            let _ = done.send(());
        })
    };
    let waited = told.recv_timeout(LONG);
    disk.clear();
    worker.join().expect("the commits");
    store.close().expect("a clean end");
    assert!(waited.is_ok(), "commits waited for {held}");
    assert!(store.stats().log_bytes > 3 << 20);
}

#[test]
fn commits_do_not_wait_for_the_files_of_a_checkpoint() {
    commits_pass("/objects/");
}

#[test]
fn commits_do_not_wait_for_the_archive() {
    commits_pass("/archive/");
}

#[test]
fn commits_do_not_wait_for_the_manifest() {
    commits_pass("/MANIFEST");
}

#[test]
fn the_log_stays_within_its_bound_while_a_checkpoint_is_held() {
    let disk = FaultyDisk::default();
    let bound = 4 * (2 << 20);
    let store = open(&disk, options().checkpoint_bytes(2 << 20));
    disk.hold(&[DiskOp::Sync], "/objects/");
    let worker = {
        let store = store.clone();
        std::thread::spawn(move || {
            let db = store.open_object(key(&store, 1)).expect("the object");
            for n in 0..1000 {
                put(&db, n, 16_000);
            }
        })
    };
    // Before that a commit may wait a moment for a segment that is just being prepared.
    until("a commit waits for the bound", || {
        let wait = store.commit_wait();
        let used = store.stats().appended_lsn;
        wait.is_some_and(|wait| wait.reason == WaitReason::LogBound) && used + (1 << 20) >= bound
    });
    let log = store.stats().appended_lsn;
    assert!(log <= bound, "{log} bytes of log, {bound} are the bound");
    disk.clear();
    worker.join().expect("the commits");
    store.close().expect("a clean end");
}

#[test]
fn a_panic_of_a_checkpoint_fails_the_log_and_the_store_closes() {
    panic_is_told(DiskOp::Sync, "/objects/");
}

#[test]
fn a_panic_of_the_archive_fails_the_log_and_the_store_closes() {
    panic_is_told(DiskOp::Sync, "/archive/");
}

#[test]
fn a_panic_while_preparing_a_segment_fails_the_log() {
    panic_is_told(DiskOp::Sync, "/log/0000000000000004");
}

fn panic_is_told(op: DiskOp, path: &str) {
    let disk = FaultyDisk::default();
    let store = open(&disk, options());
    let (told, heard) = std::sync::mpsc::channel();
    store.subscribe(Box::new(move |progress| {
        if progress == abide_storage::Progress::Failed {
            let _ = told.send(());
        }
    }));
    disk.inject(&[op], path, Fault::panic());
    let db = store.open_object(key(&store, 1)).expect("the object");
    for n in 0..100 {
        db.kv_put("noise", &noise(n, 16_000)).expect("a value");
        if db.commit().is_err() {
            break;
        }
    }
    heard.recv_timeout(LONG).expect("listeners are told");
    assert!(store.failed());
    let refused = db.kv_put("k", b"v").and_then(|()| db.commit());
    let refused = refused.expect_err("nothing more is accepted").to_string();
    assert!(refused.contains("panicked"), "{refused}");
    drop(db);
    let (closed, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = store.close();
        let _ = closed.send(());
    });
    heard.recv_timeout(LONG).expect("the store closes");
}
