//! A checkpoint writes files that hold commits after its redo position, and archives snapshots of them.

use std::{path::Path, sync::Arc, time::Duration};

use abide_storage::{
    ArchiveOptions, Disk as _, DiskOp, FaultyDisk, HistoryCopy, SimDisk, Store, StoreOptions,
};

use super::life::{restore, write_file};
use crate::{
    common::{DIR, flush, open, read_file},
    recovery_points::world::{noise, value},
};

const OTHERS: std::ops::Range<u8> = 2..9;
const EARLIER: u64 = 1_000_000;
const LATER: u64 = 2_000_000;

fn options(millis: u64) -> StoreOptions {
    StoreOptions::small()
        .manual(true)
        .unix_millis(Arc::new(move || millis))
        .archive(ArchiveOptions::default().retention(Duration::from_mins(1)))
}

/// A directory that is restored from a copy, with every object.
fn restored(disk: &SimDisk, copy: &HistoryCopy) -> SimDisk {
    assert!(copy.is_complete);
    let restored = SimDisk::new();
    restored
        .create_dir_all(&Path::new(DIR).join("archive"))
        .unwrap();
    for run in &copy.runs {
        write_file(&restored, &run.path, &read_file(disk, &run.path));
    }
    let made = restore(&restored, &copy.manifest, None, &options(LATER)).unwrap();
    assert_eq!(made.quarantined, []);
    restored
}

fn write(store: &Store, id: u8, text: &str) {
    let db = open(store, id);
    db.kv_put("k", text.as_bytes()).unwrap();
    // More history than it has pages, so that the next checkpoint archives a snapshot.
    for seed in [0, 1000] {
        db.kv_put("noise", &noise(seed + u64::from(id), 200_000))
            .unwrap();
        db.commit().unwrap();
    }
}

/// A store whose last checkpoint has written files that are ahead of it.
fn ahead() -> (SimDisk, Store) {
    let sim = SimDisk::new();
    let disk = FaultyDisk::new(sim.clone());
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options(EARLIER)).unwrap();
    for id in (1..2).chain(OTHERS) {
        write(&store, id, "before");
    }
    flush(&store);
    // The first file that it comes to.
    disk.hold(&[DiskOp::Write], ".sqlite");
    let checkpoint = {
        let store = store.clone();
        std::thread::spawn(move || store.checkpoint())
    };
    disk.wait_until_held();
    for id in OTHERS {
        let db = open(&store, id);
        db.kv_put("k", b"after").unwrap();
        db.commit().unwrap();
    }
    flush(&store);
    disk.clear();
    checkpoint.join().unwrap().unwrap();
    (sim, store)
}

#[test]
fn s23_a_snapshot_of_commits_after_the_copy_is_continued_by_the_tail() {
    let (sim, store) = ahead();
    let copy = store.history_copy().unwrap();
    let whole = store.durable();
    let mut parts = Vec::new();
    let mut from = copy.archived;
    while from < whole {
        let part = store.log_part(Some(from), 1).unwrap().unwrap();
        from = part.end;
        parts.push(part);
    }
    for shipped in 0..=parts.len() {
        let restored = SimDisk::new();
        for dir in ["archive", "tail"] {
            restored.create_dir_all(&Path::new(DIR).join(dir)).unwrap();
        }
        for run in &copy.runs {
            write_file(&restored, &run.path, &read_file(&sim, &run.path));
        }
        for (number, part) in parts[..shipped].iter().enumerate() {
            write_file(&restored, &super::shipped::file(number), &part.bytes);
        }
        let made = restore(&restored, &copy.manifest, None, &options(LATER)).unwrap();
        assert_eq!(made.quarantined, []);
        assert_eq!(made.log_commits, shipped as u64);
        let store = Store::open(Arc::new(restored.clone()), Path::new(DIR), options(LATER));
        let store = store.unwrap();
        // In the order of their ids.
        for id in OTHERS.take(shipped) {
            assert_eq!(value(&open(&store, id)).as_deref(), Some("after"));
        }
        for id in OTHERS {
            let db = open(&store, id);
            db.kv_put("k", b"again").unwrap();
            db.commit().unwrap();
        }
        flush(&store);
        store.checkpoint().unwrap();
        let again = self::restored(&restored, &store.history_copy().unwrap());
        let store = Store::open(Arc::new(again), Path::new(DIR), options(LATER)).unwrap();
        for id in OTHERS {
            assert_eq!(value(&open(&store, id)).as_deref(), Some("again"), "{id}");
        }
    }
}

#[test]
fn s23_a_snapshot_of_commits_after_the_copy_is_restored() {
    let (sim, store) = ahead();
    let copy = store.history_copy().unwrap();
    let restored_disk = restored(&sim, &copy);
    let store = Store::open(
        Arc::new(restored_disk.clone()),
        Path::new(DIR),
        options(LATER),
    )
    .unwrap();
    assert_eq!(value(&open(&store, 1)).as_deref(), Some("before"));
    let values = OTHERS.map(|id| value(&open(&store, id)).unwrap());
    let values: Vec<_> = values.collect();
    assert!(
        values
            .iter()
            .all(|value| value == "before" || value == "after")
    );
    assert!(values.contains(&"after".to_owned()), "no file was ahead");
    // They continue from these snapshots, or are idle, also when what is before them has expired.
    let (idle, busy): (Vec<u8>, Vec<u8>) = OTHERS.partition(|id| id % 2 == 0);
    for id in &busy {
        let db = open(&store, *id);
        db.kv_put("k", b"again").unwrap();
        db.commit().unwrap();
    }
    flush(&store);
    store.checkpoint().unwrap();
    store.run_maintenance().unwrap();
    let folded = store.history_copy().unwrap();
    let old = &copy.runs[0];
    assert!(!folded.runs.contains(old), "it has not expired");
    let again = restored(&restored_disk, &folded);
    let store = Store::open(Arc::new(again), Path::new(DIR), options(LATER)).unwrap();
    for id in busy {
        assert_eq!(value(&open(&store, id)).as_deref(), Some("again"), "{id}");
    }
    for id in idle {
        let before = &values[usize::from(id - OTHERS.start)];
        assert_eq!(value(&open(&store, id)).as_ref(), Some(before), "{id}");
    }
    store.verify_archive().unwrap();
}
