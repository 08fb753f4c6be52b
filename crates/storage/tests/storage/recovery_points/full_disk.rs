//! A disk without room: the archive waits, and gives way to commits.

use abide_storage::ArchiveOptions;

use crate::{
    common::{flush, open},
    recovery_points::world::{World, noise, put_noise},
};

#[test]
fn a_full_disk_keeps_the_log_until_it_can_be_archived() {
    let world = World::new(ArchiveOptions::default());
    let mut bookmarks = vec![world.put(1, "first")];
    world.store.checkpoint().unwrap();
    bookmarks.push(world.put(1, "second"));
    // Room for the object's file and the manifest, but not for another run.
    let used = world.disk.used();
    world.disk.set_capacity(Some(used + 900));
    world.store.checkpoint().unwrap();
    let stats = world.store.stats();
    assert!(stats.archive_failing && stats.archive_lag_bytes > 0 && !stats.no_space);
    bookmarks.push(world.put(1, "third"));
    world.disk.set_capacity(None);
    world.store.checkpoint().unwrap();
    assert!(!world.store.stats().archive_failing);
    for (bookmark, expected) in bookmarks.iter().zip(["first", "second", "third"]) {
        assert_eq!(world.at(1, bookmark).unwrap().unwrap(), expected);
    }
}

#[test]
fn a_merge_does_not_take_the_last_room_of_the_disk() {
    let world = World::new(ArchiveOptions::default());
    for i in 0..7 {
        world.pass(1000);
        put_noise(&world.store, i, 100_000).unwrap();
        world.store.checkpoint().unwrap();
        world.keep();
    }
    // Room for many small commits and their checkpoints, but not for a second copy of the history.
    world.disk.set_capacity(Some(world.disk.used() + 300_000));
    world.put(1, "small");
    world.store.checkpoint().unwrap();
    world.keep();
    let stats = world.store.stats();
    assert!(!stats.no_space && !stats.archive_failing);
}

#[test]
fn s12_history_gives_way_to_commits_when_the_disk_is_full() {
    let mut world = World::new(ArchiveOptions::default());
    world.disk.set_capacity(Some(30 << 20));
    for i in 0..700 {
        put_noise(&world.store, i, 100_000).unwrap();
        flush(&world.store);
        world.keep();
    }
    assert!(world.store.stats().archive_bytes > 1 << 20, "some is kept");
    let last = open(&world.store, 1).bookmark();
    world.store.checkpoint().unwrap();
    // A smaller size takes effect with the next start.
    world.reopen_with(ArchiveOptions::default().max_bytes(1 << 20));
    world.keep();
    let bytes = world.store.stats().archive_bytes;
    assert!(bytes < 1 << 20, "{bytes}");
    assert!(world.at(1, &last).is_ok());
}

#[test]
fn s12_commits_continue_when_the_disk_has_little_room_for_history() {
    let world = World::new(ArchiveOptions::default());
    // The objects themselves nearly fill the disk.
    put_noise(&world.store, 1, 1_900_000).unwrap();
    world.store.checkpoint().unwrap();
    world.keep();
    world.disk.set_capacity(Some(world.disk.used() + (6 << 20)));
    for i in 0..300 {
        let db = open(&world.store, 2);
        db.kv_put("noise", &noise(i, 100_000)).unwrap();
        db.commit().unwrap();
        drop(db);
        flush(&world.store);
        world.keep();
    }
    assert!(!world.store.failed());
}
