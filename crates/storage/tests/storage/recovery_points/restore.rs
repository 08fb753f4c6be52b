//! What an earlier state brings back: a restore, and a fork.

use std::time::Duration;

use abide_storage::{AlarmRow, ArchiveOptions, Bookmark, ErrorKind};

use crate::{
    common::{flush, key, open, tell},
    recovery_points::world::{MINUTE, World, value},
};

#[test]
fn a_restore_is_a_commit_that_another_restore_undoes() {
    let mut world = World::new(ArchiveOptions::default());
    let first = world.put(1, "first");
    world.put(1, "second");
    let undo = world.restore(1, &first).unwrap();
    assert_eq!(world.get(1).unwrap(), "first");
    let redo = world.restore(1, &undo).unwrap();
    assert_eq!(world.get(1).unwrap(), "second");
    world.restore(1, &redo).unwrap();
    assert_eq!(world.get(1).unwrap(), "first");
    world.put(1, "third");
    world.reopen();
    assert_eq!(world.get(1).unwrap(), "third");
    world.restore(1, &undo).unwrap();
    assert_eq!(world.get(1).unwrap(), "second");
}

#[test]
fn an_object_can_be_brought_back_to_before_its_first_commit() {
    let world = World::new(ArchiveOptions::default());
    let nothing = open(&world.store, 1).bookmark();
    world.put(1, "something");
    world.restore(1, &nothing).unwrap();
    assert_eq!(world.get(1), None);
}

#[test]
fn a_fork_has_the_state_under_a_new_name_and_replaces_no_object() {
    let world = World::new(ArchiveOptions::default());
    let (from, to) = (key(&world.store, 1), key(&world.store, 2));
    let db = open(&world.store, 1);
    db.set_name("original");
    db.kv_put("k", b"past").unwrap();
    db.commit().unwrap();
    let past = db.bookmark();
    db.kv_put("k", b"present").unwrap();
    db.commit().unwrap();
    drop(db);
    world.store.fork(from, &past, to, Some("copy")).unwrap();
    let fork = open(&world.store, 2);
    assert_eq!(value(&fork).unwrap(), "past");
    assert_eq!(fork.name().unwrap().unwrap(), "copy");
    drop(fork);
    let error = world.store.fork(from, &past, to, Some("again"));
    assert!(error.unwrap_err().to_string().contains("exists"));
    world.restore(1, &past).unwrap();
    assert_eq!(open(&world.store, 1).name().unwrap().unwrap(), "original");
}

#[test]
fn a_requested_restore_is_done_once_and_dropped_if_impossible() {
    let world = World::new(ArchiveOptions::default().retention(Duration::from_mins(10)));
    let ask = |to: &Bookmark| {
        let db = open(&world.store, 1);
        db.request_restore(to).unwrap();
        db.commit().unwrap();
        drop(db);
        world.store.restore_requested(key(&world.store, 1)).unwrap();
        let db = open(&world.store, 1);
        assert_eq!(db.requested_restore().unwrap(), None);
        value(&db).unwrap()
    };
    let first = world.put(1, "first");
    world.put(1, "second");
    assert_eq!(ask(&first), "first");
    for _ in 0..30 {
        world.pass(MINUTE);
        world.put(1, "later");
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert_eq!(ask(&first), "later");
}

#[test]
fn an_object_is_restored_as_large_as_it_was() {
    let world = World::new(ArchiveOptions::default());
    let db = open(&world.store, 1);
    let put = |count: usize| {
        for i in 0..count {
            db.kv_put(&format!("key {i}"), &vec![i as u8; 50_000])
                .unwrap();
        }
        db.commit().unwrap();
        db.bookmark()
    };
    let (large, size) = (put(100), db.database_size().unwrap());
    db.delete_all().unwrap();
    db.commit().unwrap();
    let small = put(3);
    drop(db);
    world.store.checkpoint().unwrap();
    world.restore(1, &large).unwrap();
    let db = open(&world.store, 1);
    assert_eq!(db.database_size().unwrap(), size);
    assert_eq!(db.kv_get("key 99").unwrap().unwrap(), vec![99; 50_000]);
    drop(db);
    world.restore(1, &small).unwrap();
    let db = open(&world.store, 1);
    assert!(db.database_size().unwrap() < 300_000);
    assert_eq!(db.kv_get("key 99").unwrap(), None);
    let check = db.exec("PRAGMA integrity_check", ()).unwrap();
    assert_eq!(check.one::<String>().unwrap(), "ok");
}

#[test]
fn an_object_that_is_open_is_not_restored() {
    let world = World::new(ArchiveOptions::default());
    let first = world.put(1, "first");
    let _open = open(&world.store, 1);
    let error = world.restore(1, &first).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("already open"), "{error}");
}

#[test]
fn a_restored_object_has_its_earlier_alarm_and_a_fork_is_not_due() {
    let mut world = World::new(ArchiveOptions::default());
    let set = |alarm: Option<i64>| {
        let db = open(&world.store, 1);
        db.kv_put("alarm was", &alarm.unwrap_or(0).to_le_bytes())
            .unwrap();
        db.set_alarm(alarm.map(AlarmRow::at).as_ref()).unwrap();
        db.commit().unwrap();
        flush(&world.store);
        db.bookmark()
    };
    let (early, late, none) = (set(Some(1_000)), set(Some(2_000)), set(None));
    let due = |world: &World, id| {
        tell(&world.store, id);
        let index = world.store.alarms().get(key(&world.store, id));
        let row = open(&world.store, id).alarm().unwrap();
        assert_eq!(index, row.map(|row| row.entry()), "row and index agree");
        index.map(|entry| entry.due)
    };
    for (bookmark, expected) in [(early, Some(1_000)), (late, Some(2_000)), (none, None)] {
        world
            .store
            .restore(key(&world.store, 1), &bookmark)
            .unwrap();
        assert_eq!(due(&world, 1), expected);
        world.reopen();
        assert_eq!(due(&world, 1), expected, "also after a restart");
    }
    world
        .store
        .fork(
            key(&world.store, 1),
            &early,
            key(&world.store, 2),
            Some("copy"),
        )
        .unwrap();
    // It has the alarm, which waits for the fork's activation.
    let index = |world: &World| world.store.alarms().get(key(&world.store, 2));
    assert_eq!(index(&world), None);
    world.reopen();
    assert_eq!(index(&world), None, "also after a restart");
    let copy = open(&world.store, 2);
    assert!(copy.timeline().unwrap().dormant);
    let inherited = copy.alarm().unwrap().map(|row| row.scheduled);
    assert_eq!(inherited, Some(1_000));
    copy.activate(false).unwrap();
    copy.commit().unwrap();
    drop(copy);
    assert_eq!(due(&world, 2), Some(1_000));
}
