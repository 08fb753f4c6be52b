//! A cut is refused if an object could be missing from it, or wrong.

use std::time::Duration;

use abide_storage::{ArchiveOptions, Cut, Disk as _, ErrorKind, OpenMode, Result};

use super::objects;
use crate::{
    common::{flush, key},
    recovery_points::world::{MINUTE, World, off, put_noise},
};

fn delete(world: &World, id: u8) {
    super::delete(&world.store, key(&world.store, id));
}

fn ids(world: &World, cut: &Cut) -> Vec<u8> {
    let found = objects(&world.store, cut, 9).unwrap();
    found.iter().map(|object| object.key.id[0]).collect()
}

fn must_be_refused<R: std::fmt::Debug>(result: Result<R>, why: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

/// Sweeps until the archive has every object.
fn complete(world: &World) {
    for _ in 0..50 {
        world.keep();
        world.store.checkpoint().unwrap();
    }
    assert!(world.store.stats().archive_complete);
}

#[test]
fn a_cut_without_an_archive_is_refused() {
    let world = World::new(off());
    world.put(1, "one");
    must_be_refused(world.store.cut(), "archive is off");
}

#[test]
fn a_cut_waits_for_the_objects_that_the_archive_lacks() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "ends without the archive");
    world.put(2, "is written without the archive");
    world.store.checkpoint().unwrap();
    let early = world.store.cut().unwrap();
    world.reopen_with(off());
    delete(&world, 1);
    world.put(2, "two");
    world.put(3, "begins without the archive");
    world.put(4, "lives and ends without the archive");
    delete(&world, 4);
    world.store.checkpoint().unwrap();
    world.reopen_with(ArchiveOptions::default());
    must_be_refused(world.store.cut(), "abide_archive_complete");
    complete(&world);
    let cut = world.store.cut().unwrap();
    assert_eq!(ids(&world, &cut), [2, 3]);
    // What happened since is unknown.
    must_be_refused(objects(&world.store, &early, 9), "begin it again");
}

#[test]
fn objects_that_were_deleted_since_and_forgotten_are_not_left_out() {
    let archive = ArchiveOptions::default().retention(Duration::from_mins(10));
    let world = World::new(archive);
    world.put(1, "will be deleted");
    world.put(2, "stays");
    let cut = world.store.cut().unwrap();
    assert_eq!(ids(&world, &cut), [1, 2]);
    delete(&world, 1);
    world.store.checkpoint().unwrap();
    assert_eq!(ids(&world, &cut), [1, 2]);
    for seed in 0..40 {
        world.pass(MINUTE);
        put_noise(&world.store, seed, 20_000).unwrap();
        flush(&world.store);
        world.store.checkpoint().unwrap();
        world.keep();
    }
    must_be_refused(objects(&world.store, &cut, 9), "archive.retention");
}

#[test]
fn a_quarantined_object_is_in_a_cut_with_its_history_and_named_without() {
    for has_history in [true, false] {
        let mut world = World::new(ArchiveOptions::default());
        if !has_history {
            world.reopen_with(off());
        }
        world.put(1, "one");
        world.put(2, "two");
        world.store.checkpoint().unwrap();
        let path = world.store.object_path(key(&world.store, 1)).unwrap();
        if !has_history {
            world.reopen_with(off());
        }
        world.disk = world.disk.after_kill();
        let file = world.disk.open(&path, OpenMode::Existing).unwrap();
        file.set_len(0).unwrap();
        world.reopen_with(ArchiveOptions::default());
        // It is noticed.
        world.store.open_object(key(&world.store, 1)).unwrap_err();
        assert_eq!(world.store.quarantined().len(), 1);
        if has_history {
            complete(&world);
        } else {
            for _ in 0..50 {
                world.keep();
                world.store.checkpoint().unwrap();
            }
            assert!(!world.store.stats().archive_complete);
        }
        let cut = world.store.cut().unwrap();
        let found = objects(&world.store, &cut, 9).unwrap();
        let known: Vec<_> = found
            .iter()
            .map(|object| (object.key.id[0], object.bookmark.is_some()))
            .collect();
        assert_eq!(known, [(1, has_history), (2, true)]);
    }
}

#[test]
fn a_changed_text_is_no_cut() {
    let world = World::new(ArchiveOptions::default());
    world.put(1, "one");
    let text = world.store.cut().unwrap().to_string();
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(changed.parse::<Cut>().is_err(), "{changed}");
    }
}
