//! The index of alarms beside files that cannot be read or are missing.

use abide_storage::{
    AlarmRow, Disk as _, DiskOp, ErrorKind, FaultyDisk, Repair, SimDisk, errno::EIO,
};

use crate::common::{flush, key, tell};
use crate::faults::world::{get, overwrite, part, put, store, try_store};

/// Objects with alarms, all in their files, and a saved index that is damaged.
fn damaged_index(objects: u8) -> FaultyDisk {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    for id in 1..=objects {
        put(&store, id, "kept").unwrap();
        let db = store.open_object(key(&store, id)).unwrap();
        db.set_alarm(Some(&AlarmRow::at(i64::from(id)))).unwrap();
        db.commit().unwrap();
    }
    flush(&store);
    store.close().unwrap();
    drop(store);
    let dir = std::path::Path::new(crate::common::DIR).join("alarms");
    let runs = disk.sim.list(&dir).unwrap();
    assert!(!runs.is_empty());
    for run in runs {
        overwrite(&disk.sim, &dir.join(run), b"damaged");
    }
    disk
}

#[test]
fn an_unreadable_file_in_an_index_rebuild_quarantines_its_object_alone() {
    for op in [DiskOp::Read, DiskOp::Open] {
        let disk = damaged_index(4);
        let broken = {
            let ids = FaultyDisk::new(disk.sim.after_kill());
            part(&store(&ids), 2)
        };
        disk.fail(&[op], &broken, EIO);
        let store = try_store(&disk).expect("the store opens");
        let quarantined = store.quarantined();
        assert_eq!(quarantined.len(), 1, "{quarantined:?}");
        assert_eq!(quarantined[0].key, key(&store, 2));
        assert!(quarantined[0].why.contains("os error 5"), "{quarantined:?}");
        let due = |id| store.alarms().get(key(&store, id)).map(|entry| entry.due);
        assert_eq!([1, 2, 3, 4].map(due), [Some(1), None, Some(3), Some(4)]);
        assert_eq!(get(&store, 2).unwrap_err().kind(), ErrorKind::Damaged);
        assert_eq!(get(&store, 3).unwrap().as_deref(), Some("kept"));
        disk.clear();
        // It is known after the next start, and a repair brings the alarm back.
        store.checkpoint().unwrap();
        drop(store);
        let store = self::store(&disk);
        assert_eq!(get(&store, 2).unwrap_err().kind(), ErrorKind::Damaged);
        store.repair(key(&store, 2), Repair::Accept).unwrap();
        assert_eq!(get(&store, 2).unwrap().as_deref(), Some("kept"));
        tell(&store, 2);
        let entry = store.alarms().get(key(&store, 2));
        assert_eq!(entry.map(|entry| entry.due), Some(2));
    }
}

#[test]
fn a_disk_whose_files_cannot_be_read_does_not_quarantine_them_all() {
    let disk = damaged_index(40);
    disk.fail(&[DiskOp::Read], ".sqlite", EIO);
    let error = try_store(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("check the disk"), "{error}");
    disk.clear();
    let store = store(&disk);
    assert_eq!(store.quarantined(), []);
    assert_eq!(store.alarms().counts().pending, 40);
}
