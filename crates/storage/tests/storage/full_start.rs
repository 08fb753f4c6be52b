//! A start on a full disk: what it must write has a reserve.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::common::{DIR, manual, open, try_manual};
use abide_storage::{
    Disk as _, ErrorKind, OpenMode, SimDisk, Store, limits::RECOVERY_RESERVE_BYTES,
};
use std::path::Path;

/// Writes one row, durably.
fn put(store: &Store, round: u64) -> abide_storage::Result<()> {
    let db = open(store, 1);
    db.kv_put("round", &round.to_le_bytes())?;
    db.kv_put("noise", &vec![round as u8; 20_000])?;
    db.commit()?;
    drop(db);
    while store.write_group() {}
    Ok(())
}

fn round(store: &Store) -> u64 {
    let bytes = open(store, 1).kv_get("round").unwrap().unwrap();
    u64::from_le_bytes(bytes.as_slice().try_into().unwrap())
}

fn reserved(disk: &SimDisk) -> u64 {
    let path = Path::new(DIR).join("RESERVE");
    disk.open(&path, OpenMode::Existing).unwrap().len().unwrap()
}

/// Writes until the disk is full. Returns the last round that is durable.
fn fill(store: &Store, from: u64) -> u64 {
    for round in from.. {
        if let Err(error) = put(store, round) {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            return round - 1;
        }
    }
    unreachable!()
}

#[test]
fn a_node_on_a_full_disk_restarts_reads_refuses_writes_and_recovers() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    put(&store, 1).unwrap();
    assert_eq!(reserved(&disk), RECOVERY_RESERVE_BYTES);
    disk.set_capacity(Some(disk.used() + 100_000));
    let mut last = fill(&store, 2);
    // Something else takes what is left.
    disk.set_capacity(Some(disk.used()));
    let mut killed = disk.after_kill();
    drop(store);
    for start in 0..5 {
        killed.set_capacity(Some(killed.used()));
        let store = manual(&killed);
        assert_eq!(round(&store), last, "start {start}");
        last = fill(&store, last + 1);
        assert!(reserved(&killed) > RECOVERY_RESERVE_BYTES / 2, "{start}");
        let after = killed.after_kill();
        drop(store);
        killed = after;
    }
    killed.set_capacity(Some(killed.used()));
    let store = manual(&killed);
    last = fill(&store, last + 1);
    let refused = put(&store, last + 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    assert!(refused.to_string().contains("space"), "{refused}");
    killed.set_capacity(None);
    store.run_maintenance().unwrap();
    put(&store, last + 1).unwrap();
    assert_eq!(reserved(&killed), RECOVERY_RESERVE_BYTES);
    store.close().unwrap();
}

#[test]
fn a_reserve_that_is_missing_is_made_when_there_is_room() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    put(&store, 1).unwrap();
    store.close().unwrap();
    let disk = disk.after_kill();
    disk.remove(&Path::new(DIR).join("RESERVE")).unwrap();
    disk.set_capacity(Some(disk.used()));
    let refused = try_manual(&disk).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    let disk = disk.after_kill();
    let store = manual(&disk);
    assert_eq!(reserved(&disk), RECOVERY_RESERVE_BYTES);
    store.close().unwrap();
}
