//! What is refused, and leaves all as it was: commits, and data directories.

use std::path::Path;

use abide_storage::{Disk as _, ErrorKind, SimDisk};

use crate::{
    common::{DIR, flush, manual, open, try_manual},
    invariants::acts::{get, put},
};

#[test]
fn s12_a_full_disk_refuses_commits_and_recovers_without_loss() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "kept");
    flush(&store);
    disk.set_capacity(Some(disk.used()));
    let mut acknowledged = String::from("kept");
    let mut db = Some(db);
    let mut refused = None;
    for i in 0..200 {
        let object = db.get_or_insert_with(|| open(&store, 1));
        let value = i.to_string();
        object.kv_put("k", value.as_bytes()).unwrap();
        object
            .kv_put(&format!("large {i}"), &vec![7; 20_000])
            .unwrap();
        match object.commit() {
            Ok(_) => {
                flush(&store);
                acknowledged = value;
            }
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("the disk is full");
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert!(!store.failed() && store.stats().no_space);
    drop(db);
    // Reads continue, and what was acknowledged is there, also for a process that starts on the full disk.
    assert_eq!(get(&open(&store, 1)).unwrap(), acknowledged);
    let killed = disk.after_kill();
    assert_eq!(get(&open(&manual(&killed), 1)).unwrap(), acknowledged);
    disk.set_capacity(None);
    store.run_maintenance().unwrap();
    put(&open(&store, 1), "again");
    flush(&store);
    assert!(!store.stats().no_space);
    assert_eq!(
        get(&open(&manual(&disk.after_kill()), 1)).as_deref(),
        Some("again")
    );
}

#[test]
fn s13_a_refused_commit_leaves_the_committed_state_as_it_was() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "committed");
    disk.fail_syncs(true);
    store.write_group();
    db.kv_put("k", b"refused").unwrap();
    db.commit().unwrap_err();
    drop(db);
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("committed"));
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let disk = SimDisk::new();
    let _store = manual(&disk);
    let error = try_manual(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(
        error.to_string().contains("in use by another process"),
        "{error}"
    );
}

#[test]
fn a_directory_that_has_files_but_no_manifest_is_refused() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    put(&open(&store, 1), "1");
    store.close().unwrap();
    drop(store);
    disk.remove(&Path::new(DIR).join("MANIFEST")).unwrap();
    let error = try_manual(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("no MANIFEST"), "{error}");
}
