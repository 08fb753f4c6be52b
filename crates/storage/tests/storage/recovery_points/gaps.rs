//! An archive that was off for a while.

use std::path::PathBuf;

use abide_storage::{ArchiveOptions, ErrorKind};

use crate::{
    common::key,
    recovery_points::world::{MINUTE, World, off},
};

#[test]
fn a_later_enabled_archive_says_since_when_an_object_can_be_restored() {
    let mut world = World::new(off());
    let before = world.put(1, "before");
    world.put(1, "still before");
    world.store.checkpoint().unwrap();
    assert_eq!(world.runs(), [] as [PathBuf; 0]);
    world.reopen_with(ArchiveOptions::default());
    let begin = world.now() - MINUTE;
    world.pass(MINUTE);
    world.put(1, "archived");
    world.store.checkpoint().unwrap();
    world.pass(MINUTE);
    let since = world.put(1, "since");
    for refused in [
        world.at(1, &before).map(drop),
        world
            .store
            .bookmark_at(key(&world.store, 1), begin)
            .map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(
            error.to_string().contains("begins at 2001-09-09T"),
            "{error}"
        );
    }
    assert_eq!(world.at(1, &since).unwrap().unwrap(), "since");
}

#[test]
fn history_continues_after_the_archive_was_off_and_the_gap_is_refused() {
    let on = ArchiveOptions::default();
    let mut world = World::new(on);
    let early = world.put(1, "early");
    world.store.checkpoint().unwrap();
    let late = world.put(1, "late");
    world.reopen_with(off());
    let between = world.put(1, "between");
    world.put(1, "between still");
    world.store.checkpoint().unwrap();
    world.reopen_with(on);
    world.put(1, "after");
    world.store.checkpoint().unwrap();
    let after = world.put(1, "long after");
    for (bookmark, expected) in [(early, "early"), (after, "long after")] {
        assert_eq!(world.at(1, &bookmark).unwrap().unwrap(), expected);
    }
    // It was durable in the log's tail, but no checkpoint had archived it.
    assert!(world.at(1, &late).is_err());
    assert_eq!(world.at(1, &between).unwrap_err().kind(), ErrorKind::Input);
}

#[test]
fn s17_a_restore_over_a_state_that_the_archive_lacks_can_be_undone() {
    let mut world = World::new(ArchiveOptions::default());
    let early = world.put(1, "early");
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    world.put(1, "between");
    world.put(1, "the present");
    world.store.checkpoint().unwrap();
    world.reopen_with(ArchiveOptions::default());
    let undo = world.restore(1, &early).unwrap();
    assert_eq!(world.get(1).unwrap(), "early");
    world.restore(1, &undo).unwrap();
    assert_eq!(world.get(1).unwrap(), "the present");
}

#[test]
fn s17_a_restore_can_be_undone_while_the_archive_is_off() {
    let mut world = World::new(ArchiveOptions::default());
    let early = world.put(1, "early");
    world.put(1, "the present");
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    world.put(1, "later");
    let undo = world.restore(1, &early).unwrap();
    let redo = world.restore(1, &undo).unwrap();
    assert_eq!(world.get(1).unwrap(), "later");
    world.reopen_with(ArchiveOptions::default());
    world.put(1, "on again");
    world.restore(1, &redo).unwrap();
    assert_eq!(world.get(1).unwrap(), "early");
}

#[test]
fn a_time_at_which_the_archive_was_off_is_refused() {
    let mut world = World::new(ArchiveOptions::default());
    let early = world.put(1, "early");
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    world.pass(MINUTE);
    world.put(1, "between");
    let then = world.now();
    let at = |world: &World, time| {
        let found = world.store.bookmark_at(key(&world.store, 1), time);
        found.and_then(|bookmark| world.at(1, &bookmark))
    };
    for archive in [off(), ArchiveOptions::default()] {
        // When it is switched on, it gets a snapshot, which is later.
        world.pass(1);
        world.reopen_with(archive);
        let error = at(&world, then).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        let text = error.to_string();
        assert!(text.contains("are not in the archive"), "{text}");
        world.store.checkpoint().unwrap();
    }
    world.reopen_with(off());
    world.put(1, "off once more");
    world.store.checkpoint().unwrap();
    let off_again = world.now();
    world.pass(1);
    world.reopen_with(ArchiveOptions::default());
    world.pass(MINUTE);
    world.put(1, "after");
    assert!(at(&world, then).is_err());
    assert_eq!(world.at(1, &early).unwrap().unwrap(), "early");
    assert!(at(&world, off_again).is_err());
    assert_eq!(
        at(&world, world.now() - MINUTE).unwrap().unwrap(),
        "off once more"
    );
    assert_eq!(at(&world, world.now()).unwrap().unwrap(), "after");
}
