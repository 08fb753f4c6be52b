//! What a checkpoint may write, and when a segment of the log is used again.

use std::path::PathBuf;

use abide_storage::{Disk as _, DiskEvent, OpenMode, SimDisk};

use crate::{
    common::{flush, key, manual, open, read_file, segments, threaded},
    invariants::acts::{
        checkpoint_beside, get, is_publication, position, put, put_durably, wait_until,
    },
};

#[test]
fn s3_an_object_file_never_holds_what_is_not_durable() {
    let disk = SimDisk::new();
    let store = threaded(&disk);
    let db = open(&store, 1);
    let path = store.object_path(key(&store, 1)).unwrap();
    put_durably(&store, &db, "durable");
    // The preparation of segments syncs, too: none may take the place of a group's.
    store.run_maintenance().unwrap();
    disk.hold_syncs();
    let first = put(&db, "first");
    wait_until("the first group", || {
        store.stats().unsynced_bytes > 0 && disk.used() > 0
    });
    let checkpoint = checkpoint_beside(&store);
    // The checkpoint waits for the first group. A second commit comes, and then only the first becomes durable.
    std::thread::sleep(std::time::Duration::from_millis(20));
    put(&db, "second");
    let missing = || disk.open(&path, OpenMode::Existing).is_err();
    assert!(missing());
    disk.allow_syncs(1);
    wait_until("the first group's end", || store.durable() >= first);
    // What the checkpoint finds now has the second commit, so it waits again before it touches the file.
    for _ in 0..50 {
        assert!(missing());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    disk.release_syncs();
    checkpoint.join().unwrap().unwrap();
    assert!(!read_file(&disk, &path).is_empty());
}

#[test]
fn s4_the_first_image_after_a_checkpoint_is_full_and_mends_a_torn_file() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    db.kv_put("other", &[3; 500]).unwrap();
    put(&db, "before");
    store.checkpoint().unwrap();
    put(&db, "behind");
    flush(&store);
    let path = store.object_path(key(&store, 1)).unwrap();
    let killed = disk.after_kill();
    // A checkpoint that was cut short may have left any mixture in the pages that were written since.
    let pages = read_file(&killed, &path).len() as u64 / 4096;
    for page in 1..pages {
        killed.flip(&path, page * 4096 + 2000);
        killed.flip(&path, page * 4096 + 4090);
    }
    let store = manual(&killed);
    let db = open(&store, 1);
    assert_eq!(get(&db).as_deref(), Some("behind"));
    assert_eq!(db.kv_get("other").unwrap().unwrap(), [3; 500]);
}

#[test]
fn s4_a_commit_does_not_build_on_images_a_checkpoint_releases() {
    let disk = SimDisk::new();
    let store = threaded(&disk);
    let db = open(&store, 1);
    let path = store.object_path(key(&store, 1)).unwrap();
    db.kv_put("other", &[3; 500]).unwrap();
    put_durably(&store, &db, "before");
    disk.hold_syncs();
    let checkpoint = checkpoint_beside(&store);
    wait_until("the file's write", || {
        disk.open(&path, OpenMode::Existing)
            .is_ok_and(|f| f.len().unwrap() > 0)
    });
    let during = put(&db, "during");
    disk.release_syncs();
    checkpoint.join().unwrap().unwrap();
    wait_until("durability", || store.durable() >= during);
    drop(db);
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("during"));
    let store = manual(&disk.after_kill());
    let db = open(&store, 1);
    assert_eq!(get(&db).as_deref(), Some("during"));
    assert_eq!(db.kv_get("other").unwrap().unwrap(), [3; 500]);
}

#[test]
fn s11_a_segment_is_recycled_after_file_syncs_and_the_new_manifest() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    let fill = |from: u8| {
        for i in from..from + 30 {
            db.kv_put("k", &vec![i; 90_000]).unwrap();
            db.commit().unwrap();
            flush(&store);
            if store.stats().log_tail_bytes > 3 << 20 {
                break;
            }
        }
    };
    fill(0);
    let used: Vec<PathBuf> = segments(&disk);
    disk.record_events();
    store.checkpoint().unwrap();
    store.run_maintenance().unwrap();
    fill(40);
    let events = disk.take_events();
    let published = position(&events, is_publication).expect("a publication");
    let file_synced = position(
        &events,
        |e| matches!(e, DiskEvent::Sync(p) if p.extension().is_some_and(|e| e == "sqlite")),
    )
    .expect("a sync");
    assert!(file_synced < published);
    let touched = position(&events, |e| match e {
        DiskEvent::Write(path) | DiskEvent::Rename(path, _) => *path == used[0],
        _ => false,
    });
    assert!(touched.expect("the first segment is used again or removed") > published);
}
