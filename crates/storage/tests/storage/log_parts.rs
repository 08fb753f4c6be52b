//! The durable log, read in parts while it is written, archived and recycled.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, flush, manual, open, segments};
use crate::recovery_points::world::noise;
use abide_storage::{DiskOp, ErrorKind, FaultyDisk, Lsn, SimDisk, SplitMix64, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Commits a new value to an object.
fn put(store: &Store, id: u8, bytes: usize) {
    static VALUES: AtomicU64 = AtomicU64::new(0);
    let number = VALUES.fetch_add(1, Ordering::Relaxed);
    let db = open(store, id);
    db.kv_put("k", &noise(number, bytes)).unwrap();
    db.commit().unwrap();
}

/// Reads all parts from `from` on, and returns the length of each one's bytes.
fn read(store: &Store, mut from: Lsn, most: usize) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some(part) = store.log_part(Some(from), most).unwrap() {
        assert_eq!(part.first, from);
        lengths.push((part.end.get() - part.first.get()) as usize);
        assert!(part.bytes.len() > *lengths.last().unwrap());
        from = part.end;
    }
    assert_eq!(from, store.durable_here());
    lengths
}

#[test]
fn parts_have_the_durable_log_and_nothing_else() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    assert_eq!(store.log_part(None, 1000).unwrap(), None);
    put(&store, 1, 10);
    assert_eq!(store.log_part(None, 1000).unwrap(), None, "not durable");
    flush(&store);
    for id in 0..20 {
        put(&store, id, 3000);
        flush(&store);
    }
    put(&store, 1, 600_000);
    let durable = store.durable_here();
    let part = store.log_part(None, usize::MAX).unwrap().unwrap();
    assert_eq!((part.first, part.end), (Lsn::ZERO, durable));
    flush(&store);
    let all = store.durable_here().get();
    for most in [0, 1, 500, 10_000, 1 << 20, usize::MAX] {
        let lengths = read(&store, Lsn::ZERO, most);
        assert_eq!(lengths.iter().sum::<usize>() as u64, all, "{most}");
        let most = most.max(270_000);
        assert!(lengths.iter().all(|length| *length <= most), "{lengths:?}");
    }
    // The same after a start, which begins another segment.
    drop(store);
    let store = manual(&disk.after_kill());
    put(&store, 2, 10);
    flush(&store);
    let lengths = read(&store, Lsn::ZERO, 500);
    assert!(lengths.iter().sum::<usize>() as u64 > all);
}

#[test]
fn a_part_after_what_was_archived_begins_at_what_is_kept() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    for _ in 0..8 {
        put(&store, 1, 200_000);
        flush(&store);
    }
    store.checkpoint().unwrap();
    let archived = store.durable_here();
    assert_eq!(store.log_part(None, 1000).unwrap(), None);
    put(&store, 2, 10);
    flush(&store);
    let part = store.log_part(None, 1000).unwrap().unwrap();
    assert_eq!((part.first, part.end), (archived, store.durable_here()));
    let part = store.log_part(Some(Lsn::ZERO), 1000).unwrap().unwrap();
    assert!(part.first > Lsn::ZERO && part.first <= archived);
}

#[test]
fn a_damaged_record_is_reported_and_not_given_out() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    for id in 0..10 {
        put(&store, id, 100);
        flush(&store);
    }
    let whole = store.log_part(None, usize::MAX).unwrap().unwrap();
    let first = store.log_part(None, 1).unwrap().unwrap();
    let segment = segments(&disk).remove(0);
    let offset = 4096 + first.end.get() + 120;
    disk.flip(&segment, offset);
    let error = store.log_part(None, usize::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    let told = format!(
        "the log is damaged in {} at position {}",
        segment.display(),
        first.end
    );
    assert!(error.to_string().starts_with(&told), "{error}");
    disk.flip(&segment, offset);
    disk.flip(&segment, 20);
    store.log_part(None, usize::MAX).unwrap_err();
    disk.flip(&segment, 20);
    assert_eq!(store.log_part(None, usize::MAX).unwrap(), Some(whole));
}

#[test]
fn parts_continue_over_a_transaction_that_a_crash_has_cut_off() {
    let mut cut_off = 0;
    for stop in 0..14 {
        for seed in 0..4 {
            let disk = SimDisk::new();
            let store = manual(&disk);
            put(&store, 1, 10);
            flush(&store);
            let before = store.durable_here();
            // Of several segments.
            put(&store, 2, 1_200_000);
            let whole = store.appended();
            disk.stop_at(disk.changes() + stop);
            flush(&store);
            drop(store);
            let disk = disk.crash(seed);
            let store = manual(&disk);
            let recovered = store.durable_here();
            assert!(recovered == before || recovered == whole);
            cut_off += u64::from(recovered == before);
            put(&store, 3, 300_000);
            flush(&store);
            put(&store, 4, 10);
            flush(&store);
            for most in [1, 100_000, usize::MAX] {
                let lengths = read(&store, Lsn::ZERO, most);
                let read = lengths.iter().sum::<usize>() as u64;
                assert_eq!(read, store.durable_here().get());
            }
        }
    }
    assert!(cut_off > 20, "{cut_off}");
}

#[test]
fn an_error_of_the_disk_is_reported_as_one() {
    let disk = FaultyDisk::default();
    let options = StoreOptions::small().manual(true);
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    put(&store, 1, 10);
    flush(&store);
    for op in [DiskOp::Open, DiskOp::Read] {
        disk.fail(&[op], "/log/", abide_storage::errno::EIO);
        let error = store.log_part(None, 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        disk.clear();
    }
    store.log_part(None, 1000).unwrap().unwrap();
}

#[test]
fn parts_are_read_while_segments_are_recycled() {
    let disk = SimDisk::new();
    let options = StoreOptions::small().checkpoint_bytes(600 << 10);
    let store = Store::open(Arc::new(disk), Path::new(DIR), options).unwrap();
    let (done, read) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_u32;
            // Until the reader has had its turns, too.
            while round < 200 || (read.load(Ordering::Relaxed) <= 10 && round < 20_000) {
                put(&store, u8::try_from(round % 7).unwrap(), 50_000);
                if round % 20 == 19 {
                    store.checkpoint().unwrap();
                }
                round += 1;
            }
            done.store(true, Ordering::Release);
        });
        let mut random = SplitMix64::new(1);
        let mut from = Lsn::ZERO;
        while !done.load(Ordering::Acquire) {
            let most = 1 << random.below(20);
            // From a place that may just be released, too.
            let asked = if random.below(3) == 0 {
                Lsn::ZERO
            } else {
                from
            };
            let Some(part) = store.log_part(Some(asked), most).unwrap() else {
                continue;
            };
            assert!(part.first >= asked && part.end > part.first);
            assert!(part.end <= store.durable_here());
            if asked == from {
                from = part.end;
                read.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert!(read.into_inner() > 10);
    store.close().unwrap();
}
