//! Objects that are not written while the archive gets them.

use abide_storage::{
    ArchiveOptions, Disk as _, DiskOp, FaultyDisk, Repair, SimDisk, Store, StoreOptions, errno,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, flush, key, open};
use crate::faults::world;
use crate::recovery_points::world::{MINUTE, World, off};
use crate::sweep::copies::{FromRuns, content, delete, sweep};

fn on() -> ArchiveOptions {
    ArchiveOptions::default()
}

/// Each of these objects has this value in the runs alone.
fn assert_in_runs(world: &World, expected: &[(u8, Option<&str>)]) {
    let copy = world.store.history_copy().unwrap();
    assert!(copy.is_complete && copy.missing_objects == 0, "{copy:?}");
    let mut built = FromRuns::new(&world.disk, &copy);
    for (id, value) in expected {
        let state = built.state(key(&world.store, *id)).unwrap();
        let found = state.get("k").map(|value| str::from_utf8(value).unwrap());
        assert_eq!(found, *value, "object {id}");
    }
}

#[test]
fn s22_an_object_older_than_the_archive_gets_into_it_without_a_commit() {
    let mut world = World::new(off());
    world.put(1, "old");
    world.put(2, "also old");
    world.store.checkpoint().unwrap();
    world.reopen_with(on());
    sweep(&world.store);
    assert_in_runs(&world, &[(1, Some("old")), (2, Some("also old"))]);
    // Nothing is done twice.
    let runs = world.runs();
    for _ in 0..3 {
        world.reopen();
        world.keep();
    }
    assert_eq!(world.runs(), runs);
    assert_eq!(world.get(1).unwrap(), "old");
}

#[test]
fn s22_commits_made_while_the_archive_was_off_get_into_it() {
    let mut world = World::new(on());
    for id in 1..=4 {
        world.put(id, "archived");
    }
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    world.put(2, "while off");
    world.put(4, "while off");
    world.store.checkpoint().unwrap();
    // In the log's tail when it is switched on.
    world.put(3, "in the tail");
    world.put(4, "in the tail");
    world.reopen_with(on());
    assert!(!world.store.stats().archive_complete);
    world.store.checkpoint().unwrap();
    sweep(&world.store);
    let expected = [
        (1, Some("archived")),
        (2, Some("while off")),
        (3, Some("in the tail")),
        (4, Some("in the tail")),
    ];
    assert_in_runs(&world, &expected);
    // What was known before can still be restored, and what is written now.
    let newest = world.put(2, "newest");
    world.store.checkpoint().unwrap();
    assert_eq!(world.at(2, &newest).unwrap().unwrap(), "newest");
    assert!(world.store.stats().archive_complete);
}

#[test]
fn s22_an_object_deleted_while_the_archive_was_off_is_gone_from_it() {
    let mut world = World::new(on());
    let before = world.put(1, "archived");
    world.put(2, "stays");
    world.put(3, "returns");
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    delete(&world.store, 1);
    delete(&world.store, 3);
    world.store.checkpoint().unwrap();
    world.put(3, "again");
    world.store.checkpoint().unwrap();
    world.pass(MINUTE);
    let between = world.now();
    world.pass(MINUTE);
    world.reopen_with(on());
    sweep(&world.store);
    assert_in_runs(&world, &[(1, None), (2, Some("stays")), (3, Some("again"))]);
    // Its history stays, and does not claim to know when it ended.
    let object = key(&world.store, 1);
    assert_eq!(world.at(1, &before).unwrap().unwrap(), "archived");
    world.store.bookmark_at(object, between).unwrap_err();
    world.restore(1, &before).unwrap();
    assert_eq!(world.get(1).unwrap(), "archived");
    assert_eq!(world.store.quarantined(), []);
    world.store.checkpoint().unwrap();
    assert_in_runs(&world, &[(1, Some("archived"))]);
}

#[test]
fn a_deleted_object_stays_gone_when_its_history_expires() {
    let retention = Duration::from_mins(50);
    let mut world = World::new(on());
    world.put(1, "archived");
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    delete(&world.store, 1);
    world.store.checkpoint().unwrap();
    world.reopen_with(on().retention(retention));
    sweep(&world.store);
    for i in 0..100 {
        world.pass(MINUTE);
        world.put(2, &format!("value {i}"));
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert!(world.store.stats().archive_complete);
    assert!(!world.store.has_history(key(&world.store, 1)));
    assert_in_runs(&world, &[(1, None), (2, Some("value 99"))]);
}

#[test]
fn a_deleted_class_needs_no_state_in_the_archive() {
    let mut world = World::new(off());
    world.put(1, "old");
    world.store.checkpoint().unwrap();
    world.store.delete_namespace("tests").unwrap();
    world.reopen_with(on());
    sweep(&world.store);
    assert_eq!(world.store.history_copy().unwrap().runs, []);
}

#[test]
fn an_object_that_is_quarantined_is_missing_until_it_is_repaired() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = world::store_without_archive(&disk);
    for id in 1..=3 {
        world::put(&store, id, "old").unwrap();
    }
    store.close().unwrap();
    let file = world::path(&store, 2);
    drop(store);
    let bytes = disk.open(&file, abide_storage::OpenMode::Existing).unwrap();
    bytes.write_at(&[0; 100], 0).unwrap();

    let store = world::store(&disk);
    for _ in 0..5 {
        store.run_maintenance().unwrap();
    }
    let stats = store.stats();
    assert!(!stats.archive_complete);
    assert_eq!(stats.archive_missing_objects, 1);
    let copy = store.history_copy().unwrap();
    assert!(!copy.is_complete && copy.missing_objects == 1);
    world::get(&store, 2).unwrap_err();
    store.repair(key(&store, 2), Repair::Anew).unwrap();
    store.checkpoint().unwrap();
    sweep(&store);
    assert_eq!(store.stats().archive_missing_objects, 0);
}

#[test]
fn an_object_that_cannot_be_read_is_missing_and_the_others_are_not() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = world::store_without_archive(&disk);
    for id in 1..=9 {
        world::put(&store, id, "old").unwrap();
    }
    store.close().unwrap();
    let file = world::path(&store, 5);
    drop(store);
    disk.fail(&[DiskOp::Read], file.to_str().unwrap(), errno::EIO);
    let store = world::store(&disk);
    for _ in 0..5 {
        store.run_maintenance().unwrap();
    }
    assert_eq!(store.stats().archive_missing_objects, 1);
    let tried = disk.failed();
    for _ in 0..50 {
        store.run_maintenance().unwrap();
    }
    assert_eq!(disk.failed(), tried, "it is not tried again and again");
    let has_history = |id| store.has_history(key(&store, id));
    let known: Vec<u8> = (1..=9).filter(|id| has_history(*id)).collect();
    assert_eq!(known, [1, 2, 3, 4, 6, 7, 8, 9]);
    disk.clear();
    store.close().unwrap();
    drop(store);
    sweep(&world::store(&disk));
}

#[test]
fn an_object_whose_file_is_missing_is_not_taken_for_a_deleted_one() {
    let mut world = World::new(on());
    world.put(1, "lost");
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    world.put(2, "while off");
    world.store.checkpoint().unwrap();
    world.reopen_with(on());
    // It sees every deletion from here on.
    sweep(&world.store);
    world.put(3, "damaged");
    world.store.checkpoint().unwrap();
    let path = world.store.object_path(key(&world.store, 1)).unwrap();
    world.disk.remove(&path).unwrap();
    // Something else makes it look.
    let file = world.store.object_path(key(&world.store, 3)).unwrap();
    let file = world
        .disk
        .open(&file, abide_storage::OpenMode::Existing)
        .unwrap();
    let bytes = [0; 100];
    let mut before = [0; 100];
    file.read_at(&mut before, 0).unwrap();
    file.write_at(&bytes, 0).unwrap();
    world.reopen();
    world
        .store
        .restore(key(&world.store, 3), &bookmark(&world, 3))
        .unwrap();
    world.store.checkpoint().unwrap();
    for _ in 0..5 {
        world.keep();
    }
    let stats = world.store.stats();
    assert_eq!(
        (stats.archive_complete, stats.archive_missing_objects),
        (false, 1)
    );
    // Its history has it.
    let newest = bookmark(&world, 1);
    world.restore(1, &newest).unwrap();
    assert_eq!(world.get(1).unwrap(), "lost");
    world.store.checkpoint().unwrap();
    sweep(&world.store);
    assert_in_runs(&world, &[(1, Some("lost")), (2, Some("while off"))]);
}

fn bookmark(world: &World, id: u8) -> abide_storage::Bookmark {
    let object = key(&world.store, id);
    world.store.bookmark_at(object, u64::MAX).unwrap()
}

#[test]
fn an_archive_whose_disk_is_nearly_full_gets_no_snapshots() {
    let disk = SimDisk::new();
    let open_store = |archive: ArchiveOptions| {
        let options = StoreOptions::small().manual(true).archive(archive);
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let store = open_store(off());
    let db = open(&store, 1);
    db.kv_put("k", b"old").unwrap();
    db.commit().unwrap();
    flush(&store);
    drop(db);
    store.close().unwrap();
    drop(store);
    disk.set_capacity(Some(disk.used() + (8 << 20)));
    let store = open_store(on());
    for _ in 0..5 {
        store.run_maintenance().unwrap();
    }
    assert!(!store.has_history(key(&store, 1)));
    assert!(!store.stats().archive_complete);
    store.close().unwrap();
    drop(store);
    disk.set_capacity(None);
    let store = open_store(on());
    sweep(&store);
    assert!(store.has_history(key(&store, 1)));
    assert_eq!(content(&open(&store, 1))["k"], b"old");
}

#[test]
fn s22_an_idle_object_whose_commits_are_in_a_hole_gets_into_the_archive() {
    let disk = FaultyDisk::default();
    let store = world::store(&disk);
    world::put(&store, 2, "first").unwrap();
    store.checkpoint().unwrap();
    assert!(store.stats().archive_complete);
    world::put(&store, 2, "in the hole").unwrap();
    // The log cannot be archived until it takes all its space.
    disk.fail(&[DiskOp::Write], "/archive/", errno::EIO);
    for n in 0.. {
        let db = open(&store, 1);
        db.kv_put("noise", &crate::recovery_points::world::noise(n, 1 << 20))
            .unwrap();
        db.commit().unwrap();
        drop(db);
        flush(&store);
        store.checkpoint().unwrap();
        if !store.archive_holes().is_empty() {
            break;
        }
    }
    assert!(!store.stats().archive_complete);
    let copy = store.history_copy().unwrap();
    assert!(!copy.is_complete);
    disk.clear();
    sweep(&store);
    let copy = store.history_copy().unwrap();
    let mut built = FromRuns::new(&disk.sim, &copy);
    let state = built.state(key(&store, 2)).unwrap();
    assert_eq!(state["k"], b"in the hole");
}

#[test]
fn an_object_whose_snapshot_fails_at_its_checkpoint_is_missing() {
    let disk = FaultyDisk::default();
    let store = world::store_without_archive(&disk);
    world::put(&store, 1, "old").unwrap();
    store.checkpoint().unwrap();
    world::put(&store, 1, "in the tail").unwrap();
    drop(store);
    let store = world::store(&disk);
    // A sweep leaves it to the next checkpoint.
    store.run_maintenance().unwrap();
    let file = world::path(&store, 1);
    let db = open(&store, 1);
    for n in 0..40 {
        db.kv_put(&format!("{n}"), &[n; 1000]).unwrap();
    }
    db.commit().unwrap();
    flush(&store);
    drop(db);
    disk.fail(&[DiskOp::Read], file.to_str().unwrap(), errno::EIO);
    store.checkpoint().unwrap();
    for _ in 0..5 {
        store.run_maintenance().unwrap();
    }
    assert!(!store.stats().archive_complete);
    assert_eq!(store.stats().archive_missing_objects, 1);
    disk.clear();
    world::put(&store, 1, "later").unwrap();
    store.checkpoint().unwrap();
    sweep(&store);
    let copy = store.history_copy().unwrap();
    let mut built = FromRuns::new(&disk.sim, &copy);
    let state = built.state(key(&store, 1)).unwrap();
    assert_eq!(state["k"], b"later");
}

#[test]
fn s22_an_object_whose_newest_state_a_fold_cannot_read_gets_another() {
    const STEP: u64 = 10 * MINUTE;
    let world = World::new(on().retention(Duration::from_mins(50)));
    world.put(2, "before");
    world.store.checkpoint().unwrap();
    world.pass(STEP);
    world.put(2, "newest");
    world.store.checkpoint().unwrap();
    let damaged = world.runs()[1].clone();
    world.disk.flip(&damaged, 80); // In its first block.
    for i in 0..20 {
        world.pass(STEP);
        world.put(1, &format!("value {i}"));
        world.store.checkpoint().unwrap();
        world.keep();
        let copy = world.store.history_copy().unwrap();
        let is_folded = copy.runs.iter().all(|run| run.path != damaged);
        if is_folded && copy.is_complete {
            assert_in_runs(&world, &[(2, Some("newest"))]);
        }
    }
    assert!(!world.runs().contains(&damaged));
    sweep(&world.store);
    assert_in_runs(&world, &[(1, Some("value 19")), (2, Some("newest"))]);
}
