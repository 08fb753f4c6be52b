//! A commit that waits for room is seen while it waits, with what it waits for, and counted afterwards.

use crate::{
    common::key,
    stalls::{LONG, open, options, put, until},
};
use abide_storage::{Disk as _, DiskOp, FaultyDisk, OpenMode, Store, StoreOptions, WaitReason};
use std::path::Path;

/// Commits until one waits, with such operations held, and then lets them go.
fn waits_for(reason: WaitReason, held: (DiskOp, &str), options: StoreOptions, length: usize) {
    let disk = FaultyDisk::default();
    let store = open(&disk, options);
    stalled(&disk, &store, reason, held, length);
}

fn stalled(
    disk: &FaultyDisk,
    store: &Store,
    reason: WaitReason,
    held: (DiskOp, &str),
    length: usize,
) {
    let key = key(store, 1);
    disk.hold(&[held.0], held.1);
    let worker = {
        let store = store.clone();
        std::thread::spawn(move || {
            let db = store.open_object(key).expect("the object");
            for n in 0.. {
                put(&db, n, length);
                let stats = store.stats();
                if stats.commit_waits[reason as usize].count > 0 {
                    break;
                }
            }
        })
    };
    until("a commit waits for this", || {
        store
            .commit_wait()
            .is_some_and(|wait| wait.reason == reason)
    });
    let wait = store.commit_wait().expect("it still waits");
    until("the wait lasts", || {
        let now = store.commit_wait().expect("it still waits");
        now.reason == reason && now.lasted > wait.lasted
    });
    let during = store.stats();
    assert_eq!(during.commits_waiting, 1);
    assert!(during.commit_waits[reason as usize].seconds > 0.0);
    disk.clear();
    worker.join().expect("the commit continues");
    let after = store.stats();
    assert_eq!((after.commits_waiting, store.commit_wait()), (0, None));
    let (during, after) = (during.commit_waits, after.commit_waits);
    assert!(after[reason as usize].seconds >= during[reason as usize].seconds);
    store.close().expect("a clean end");
}

#[test]
fn a_commit_that_waits_for_a_checkpoint_to_free_log_says_so() {
    let options = options().checkpoint_bytes(1 << 20);
    waits_for(
        WaitReason::LogBound,
        (DiskOp::Sync, "/objects/"),
        options,
        16_000,
    );
}

#[test]
fn a_commit_that_waits_for_a_segment_says_so() {
    waits_for(
        WaitReason::Segment,
        (DiskOp::Open, ".seg"),
        options(),
        16_000,
    );
}

#[test]
fn a_commit_that_waits_for_the_disk_to_sync_says_so() {
    let options = options()
        .segment_bytes(256 << 20)
        .checkpoint_bytes(1 << 30)
        .checkpoint_interval(LONG);
    let disk = FaultyDisk::default();
    let store = open(&disk, options);
    // Segments are prepared one after the other: if there are two, one is ready that has room for more than may wait for a
    // sync.
    let db = store.open_object(key(&store, 2)).expect("the object");
    let has_large_segments = || {
        let files = disk.list(Path::new("/data/log")).expect("the log");
        let lengths = files.iter().map(|name| {
            let path = Path::new("/data/log").join(name);
            disk.open(&path, OpenMode::Existing)
                .and_then(|file| file.len())
                .expect("a segment")
        });
        lengths.filter(|bytes| *bytes >= 128 << 20).count() > 1
    };
    for n in 0.. {
        put(&db, n, 1 << 20);
        if has_large_segments() {
            break;
        }
    }
    drop(db);
    stalled(
        &disk,
        &store,
        WaitReason::UnsyncedBytes,
        (DiskOp::Sync, ".seg"),
        1 << 20,
    );
}

#[test]
fn a_commit_that_waits_for_a_checkpoint_to_write_pages_says_so() {
    let disk = FaultyDisk::default();
    let options = options()
        .segment_bytes(16 << 20)
        .checkpoint_bytes(256 << 10);
    let store = open(&disk, options);
    let keys: Vec<_> = (1..=200).map(|id| key(&store, id)).collect();
    disk.hold(&[DiskOp::Sync, DiskOp::BarrierWait], "/objects");
    let worker = {
        let store = store.clone();
        std::thread::spawn(move || {
            // Small commits of many objects: the log has a few bytes of each page that the overlay holds whole.
            for key in keys.into_iter().cycle() {
                let db = store.open_object(key).expect("the object");
                put(&db, 1, 10);
                drop(db);
                let waits = store.stats().commit_waits;
                if waits[WaitReason::OverlayBound as usize].count > 0 {
                    break;
                }
            }
        })
    };
    until("a commit waits for the overlay", || {
        let wait = store.commit_wait();
        wait.is_some_and(|wait| wait.reason == WaitReason::OverlayBound)
    });
    disk.clear();
    worker.join().expect("the commit continues");
    store.close().expect("a clean end");
}

#[test]
fn a_commit_that_is_refused_for_want_of_disk_space_is_counted() {
    let disk = FaultyDisk::default();
    let store = open(&disk, options());
    let db = store.open_object(key(&store, 1)).expect("the object");
    disk.sim.set_capacity(Some(disk.sim.used()));
    let refused = (0..200).find_map(|n| {
        db.kv_put("noise", &crate::stalls::noise(n, 16_000))
            .expect("a value");
        db.commit().err()
    });
    let refused = refused.expect("a full disk");
    assert_eq!(
        refused.kind(),
        abide_storage::ErrorKind::NoSpace,
        "{refused}"
    );
    let waits = store.stats().commit_waits;
    assert!(waits[WaitReason::DiskSpace as usize].count > 0, "{waits:?}");
}

#[test]
fn a_transaction_that_waits_for_room_is_encoded_once() {
    let disk = FaultyDisk::default();
    let store = open(&disk, options());
    let key = key(&store, 1);
    disk.hold(&[DiskOp::Open], ".seg");
    let worker = {
        let store = store.clone();
        std::thread::spawn(move || {
            let db = store.open_object(key).expect("the object");
            for n in 0..5 {
                put(&db, n, 500_000);
            }
        })
    };
    until("a commit waits for some rounds", || {
        let wait = store.commit_wait();
        wait.is_some_and(|wait| wait.lasted.as_millis() > 500)
    });
    let stats = store.stats();
    disk.clear();
    worker.join().expect("the commits");
    // A checkpoint that begins or ends meanwhile may have made it necessary once more.
    let again = stats.encodings - stats.commits;
    assert!(again <= 3, "encoded {again} times in half a second");
    store.close().expect("a clean end");
}

#[test]
fn small_commits_do_not_overtake_a_large_one_that_waits_for_room() {
    let disk = FaultyDisk::default();
    let store = open(&disk, options());
    let [large, small] = [1, 2].map(|id| key(&store, id));
    let db = store.open_object(small).expect("the object");
    put(&db, 0, 100);
    drop(db);
    disk.hold(&[DiskOp::Open], ".seg");
    let commit = |key, values: u32, length| {
        let store = store.clone();
        std::thread::spawn(move || {
            let db = store.open_object(key).expect("the object");
            for n in 0..values {
                db.kv_put(&n.to_string(), &crate::stalls::noise(n, length))
                    .expect("a value");
            }
            db.commit()
                .expect("a commit")
                .expect("something was written")
        })
    };
    // Larger than the segments that are there.
    let large = commit(large, 4, 500_000);
    until("the large one waits", || store.stats().commits_waiting == 1);
    let small = commit(small, 1, 100);
    until("the small one waits behind it", || {
        assert!(!small.is_finished(), "it has overtaken the large one");
        store.stats().commits_waiting == 2
    });
    disk.clear();
    let [large, small] = [large, small].map(|commit| commit.join().expect("a commit"));
    assert!(large < small);
    store.close().expect("a clean end");
}
