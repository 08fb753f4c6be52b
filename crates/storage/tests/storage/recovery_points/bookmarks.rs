//! What a bookmark names, and which one is refused.

use abide_storage::{ArchiveOptions, ErrorKind};

use crate::{
    common::{key, open},
    recovery_points::world::{MINUTE, World},
};

#[test]
fn every_commit_can_be_restored_from_the_log_or_the_archive() {
    let world = World::new(ArchiveOptions::default());
    let mut bookmarks = Vec::new();
    for i in 0..40 {
        bookmarks.push(world.put(1, &format!("value {i}")));
        if i % 7 == 0 {
            world.store.checkpoint().unwrap();
        }
    }
    for (i, bookmark) in bookmarks.iter().enumerate() {
        let expected = format!("value {i}");
        assert_eq!(world.at(1, bookmark).unwrap(), Some(expected));
    }
    assert!(bookmarks.is_sorted());
    assert_eq!(world.get(1).unwrap(), "value 39");
}

#[test]
fn bookmarks_stay_valid_after_restarts_and_for_unwritten_objects() {
    let mut world = World::new(ArchiveOptions::default());
    let old = world.put(1, "old");
    world.store.checkpoint().unwrap();
    world.put(2, "other");
    world.reopen();
    let looked = open(&world.store, 1).bookmark();
    assert!(looked > old, "{looked:?} {old:?}");
    world.put(1, "new");
    world.reopen();
    assert_eq!(world.at(1, &old).unwrap().unwrap(), "old");
    assert_eq!(world.at(1, &looked).unwrap().unwrap(), "old");
}

#[test]
fn a_bookmark_taken_within_a_transaction_names_the_commit_that_ends_it() {
    let world = World::new(ArchiveOptions::default());
    let db = open(&world.store, 1);
    db.kv_put("k", b"within").unwrap();
    let within = db.bookmark();
    db.commit().unwrap();
    // A transaction without a change makes a commit too if a bookmark was taken in it.
    db.kv_put("k", b"within").unwrap();
    let same = db.bookmark();
    db.commit().unwrap();
    db.kv_put("k", b"after").unwrap();
    db.commit().unwrap();
    drop(db);
    assert!(within < same);
    assert_eq!(world.at(1, &within).unwrap().unwrap(), "within");
    assert_eq!(world.at(1, &same).unwrap().unwrap(), "within");
}

#[test]
fn a_bookmark_of_a_commit_that_was_never_durable_is_refused() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "kept");
    let lost = {
        let db = open(&world.store, 1);
        db.kv_put("k", b"lost").unwrap();
        db.commit().unwrap();
        db.bookmark()
    };
    world.reopen();
    assert_eq!(world.get(1).unwrap(), "kept");
    world.put(1, "next");
    let error = world.at(1, &lost).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(
        error.to_string().contains("never became durable"),
        "{error}"
    );
    assert_eq!(world.get(1).unwrap(), "next");
}

#[test]
fn the_bookmark_for_a_time_is_the_last_commit_at_or_before_it() {
    let world = World::new(ArchiveOptions::default());
    let mut times = Vec::new();
    for i in 0..10 {
        world.pass(MINUTE);
        world.put(1, &format!("early {i}"));
        world.put(1, &format!("late {i}"));
        times.push(world.now());
        if i % 3 == 0 {
            world.store.checkpoint().unwrap();
        }
    }
    let at = |time| {
        let bookmark = world.store.bookmark_at(key(&world.store, 1), time);
        bookmark.and_then(|bookmark| world.at(1, &bookmark))
    };
    for (i, &time) in times.iter().enumerate() {
        assert_eq!(at(time).unwrap().unwrap(), format!("late {i}"));
        assert_eq!(at(time + MINUTE - 1).unwrap().unwrap(), format!("late {i}"));
    }
    let error = at(times[0] - 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(
        error
            .to_string()
            .contains("first commit was at 2001-09-09T"),
        "{error}"
    );
}
