//! A log, or an object's file, that is not what was written.

use abide_storage::{Disk as _, ErrorKind, ObjectDb, OpenMode, SimDisk, Store};

use crate::{
    common::{flush, key, manual, open, read_file, segments, try_manual},
    invariants::acts::{get, put},
};

/// A group for each value.
fn put_each(store: &Store, db: &ObjectDb, values: &[&str]) -> Vec<u64> {
    values
        .iter()
        .map(|value| {
            let lsn = put(db, value);
            flush(store);
            lsn.get()
        })
        .collect()
}

/// The offset in the first segment of the record that ends at `end`, whose segment begins at position 0.
fn offset(end: u64) -> u64 {
    4096 + end - 1
}

#[test]
fn s5_a_hole_in_the_commit_numbers_quarantines_that_object_and_no_other() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let (a, b) = (open(&store, 1), open(&store, 2));
    put(&a, "1");
    put(&b, "1");
    store.checkpoint().unwrap();
    let path = store.object_path(key(&store, 1)).unwrap();
    let old = read_file(&disk, &path);
    put(&a, "2");
    put(&b, "2");
    store.checkpoint().unwrap();
    put(&a, "3");
    put(&b, "3");
    flush(&store);
    // An old copy of one object's file is put back.
    let disk = disk.after_kill();
    {
        let file = disk.open(&path, OpenMode::Existing).unwrap();
        file.set_len(0).unwrap();
        file.write_at(&old, 0).unwrap();
    }
    for _ in 0..2 {
        let store = manual(&disk);
        let error = store.open_object(key(&store, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("quarantined"), "{error}");
        assert_eq!(get(&open(&store, 2)).as_deref(), Some("3"));
        // Also when the log's tail is gone.
        store.close().unwrap();
    }
}

#[test]
fn s6_a_torn_tail_ends_replay_and_nothing_behind_it_is_taken() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let (a, b) = (open(&store, 1), open(&store, 2));
    put(&a, "kept");
    flush(&store);
    // One group: its records say nothing of one another.
    let torn = put(&a, "torn").get();
    put(&b, "behind");
    flush(&store);
    let disk = disk.after_kill();
    disk.flip(&segments(&disk)[0], offset(torn) - 8);
    let store = manual(&disk);
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("kept"));
    assert_eq!(get(&open(&store, 2)), None);
    // And it stays so, whatever is written now.
    put(&open(&store, 2), "new");
    flush(&store);
    let store = manual(&disk.after_kill());
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("kept"));
    assert_eq!(get(&open(&store, 2)).as_deref(), Some("new"));
}

#[test]
fn s7_damage_before_the_durable_end_is_refused_with_advice() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let ends = put_each(&store, &open(&store, 1), &["1", "2", "3", "4"]);
    let disk = disk.after_kill();
    disk.flip(&segments(&disk)[0], offset(ends[1]) - 8);
    let before = disk.changes();
    let error = try_manual(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let text = error.to_string();
    assert!(
        text.contains("damaged") && text.contains("backup") && text.contains("Nothing was changed"),
        "{text}"
    );
    assert_eq!(disk.changes(), before);
}

#[test]
fn s7_a_damaged_or_missing_segment_in_the_middle_is_refused() {
    let build = || {
        let disk = SimDisk::new();
        let store = manual(&disk);
        let db = open(&store, 1);
        for i in 0..40_u8 {
            db.kv_put(&format!("{i}"), &vec![i; 60_000]).unwrap();
            db.commit().unwrap();
            flush(&store);
            store.run_maintenance().unwrap();
        }
        drop(db);
        let killed = disk.after_kill();
        let used = segments(&killed);
        assert!(used.len() > 4, "{}", used.len());
        (killed, used)
    };
    for at in [10_u64, 4096 + 5000] {
        let (disk, used) = build();
        disk.flip(&used[1], at);
        let error = try_manual(&disk).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    let (disk, used) = build();
    disk.remove(&used[1]).unwrap();
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    // The header of the last segment that is in use.
    let (disk, used) = build();
    let last = used
        .iter()
        .rposition(|path| read_file(&disk, path)[..8] == *b"abidelog")
        .unwrap();
    disk.flip(&used[last], 10);
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn s7_a_damaged_header_of_the_redo_segment_is_refused() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "before");
    store.checkpoint().unwrap();
    put(&db, "acknowledged");
    flush(&store);
    let disk = disk.after_kill();
    disk.flip(&segments(&disk)[0], 10);
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    for segment in segments(&disk) {
        disk.remove(&segment).unwrap();
    }
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}
