//! An I/O error on one object's file concerns that object.

use abide_storage::{
    DiskOp, ErrorKind, Fault, FaultyDisk, SimDisk,
    errno::{EACCES, EIO, EISDIR, ENOENT},
};

use crate::common::{flush, key};
use crate::faults::world::{get, part, put, store};

#[test]
fn a_checkpoint_that_cannot_write_one_file_writes_the_others() {
    for (op, errno) in [
        (DiskOp::Open, EIO),
        (DiskOp::Open, EACCES),
        (DiskOp::Open, EISDIR),
        (DiskOp::Write, EIO),
        (DiskOp::SetLen, EIO),
        (DiskOp::Len, EIO),
        (DiskOp::Read, EIO),
    ] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk);
        for id in [1, 2] {
            put(&store, id, "old").unwrap();
        }
        store.checkpoint().unwrap();
        let bad = part(&store, 1);
        disk.fail(&[op], &bad, errno);
        let db = store.open_object(key(&store, 2)).unwrap();
        db.kv_put("k", b"new").unwrap();
        db.commit().unwrap();
        drop(db);
        let _ = put(&store, 1, "new");
        for _ in 0..6 {
            let _ = store.checkpoint();
            assert!(!store.failed(), "{op:?}");
        }
        assert_eq!(get(&store, 2).unwrap().as_deref(), Some("new"), "{op:?}");
        let live = store.stats().log_tail_bytes;
        assert!(
            live < 1000 || op == DiskOp::Read,
            "{op:?}: the log is given back"
        );
    }
}

#[test]
fn a_file_that_one_write_has_failed_on_is_written_by_the_next_checkpoint() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "old").unwrap();
    store.checkpoint().unwrap();
    put(&store, 1, "new").unwrap();
    put(&store, 2, "new").unwrap();
    disk.inject(
        &[DiskOp::Write],
        &part(&store, 1),
        Fault::error(EIO).times(1),
    );
    let error = store.checkpoint().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains(&part(&store, 1)), "{error}");
    // It continues meanwhile, and a crash finds what was acknowledged in the log.
    put(&store, 1, "newer").unwrap();
    for seed in 0..20 {
        let crashed = crate::faults::world::store(&FaultyDisk::new(disk.sim.crash(seed)));
        assert_eq!(get(&crashed, 1).unwrap().as_deref(), Some("newer"));
        assert_eq!(get(&crashed, 2).unwrap().as_deref(), Some("new"));
    }
    store.checkpoint().unwrap();
    assert!(store.stats().log_tail_bytes < 1000);
    assert_eq!(get(&store, 1).unwrap().as_deref(), Some("newer"));
}

#[test]
fn a_file_that_cannot_be_read_fails_its_object_alone_for_as_long() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "kept").unwrap();
    put(&store, 2, "kept").unwrap();
    store.checkpoint().unwrap();
    for (op, errno) in [
        (DiskOp::Open, EIO),
        (DiskOp::Open, EACCES),
        (DiskOp::Read, EIO),
    ] {
        disk.fail(&[op], &part(&store, 1), errno);
        let error = get(&store, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains(&part(&store, 1)), "{error}");
        put(&store, 2, "continues").unwrap();
        store.checkpoint().unwrap();
        assert!(!store.failed());
        disk.clear();
        assert_eq!(get(&store, 1).unwrap().as_deref(), Some("kept"));
    }
}

#[test]
fn a_file_that_has_gone_is_an_error_and_never_reads_as_empty_pages() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    let db = store.open_object(key(&store, 1)).unwrap();
    for n in 0..50 {
        db.kv_put(&format!("key {n}"), &[7; 5_000]).unwrap();
    }
    db.commit().unwrap();
    flush(&store);
    drop(db);
    store.checkpoint().unwrap();
    // Opened, so that it is known; its pages are read later.
    let db = store.open_object(key(&store, 1)).unwrap();
    db.kv_put("key 0", b"x").unwrap();
    db.commit().unwrap();
    store.checkpoint().unwrap();
    disk.fail(&[DiskOp::Open], &part(&store, 1), ENOENT);
    let mut missing = None;
    for n in 0..50 {
        match db.kv_get(&format!("key {n}")) {
            Ok(value) => assert!(value.is_some(), "key {n}"),
            Err(error) => missing = Some(error),
        }
    }
    let missing = missing.expect("some page was not in memory");
    assert!(missing.to_string().contains("missing"), "{missing}");
    assert!(!store.failed());
}
