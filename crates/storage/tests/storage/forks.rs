//! Forks to objects that exist and are empty, and to objects of another namespace.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_storage::{
    AlarmRow, ArchiveOptions, Bookmark, ErrorKind, KeyedCall, ObjectDb, ObjectKey, Store,
    StoreOptions, StoredCause,
};

use crate::{
    common::{flush, key, open},
    recovery_points::world::{MINUTE, World, noise, value},
};

/// Objects are not large, or everything is.
fn sizes() -> [u64; 2] {
    [StoreOptions::small().large_restore_bytes, 0]
}

/// The object of another namespace with the same id.
fn elsewhere(store: &Store, id: u8) -> ObjectKey {
    ObjectKey {
        namespace: store.namespace("others").unwrap(),
        ..key(store, id)
    }
}

/// Writes an object of many pages.
fn origin(store: &Store) -> Bookmark {
    let db = open(store, 1);
    db.set_name("origin");
    db.kv_put("noise", &noise(1, 60_000)).unwrap();
    db.kv_put("k", b"the origin").unwrap();
    db.set_alarm(Some(&AlarmRow::at(1_000))).unwrap();
    db.commit().unwrap();
    flush(store);
    db.bookmark()
}

/// Writes an object and empties it, so that it is stored without content. Returns the bookmark of its content.
fn emptied(store: &Store, target: ObjectKey) -> Bookmark {
    let db = store.open_object(target).unwrap();
    db.set_name("target");
    db.kv_put("k", b"before").unwrap();
    db.commit().unwrap();
    let full = db.bookmark();
    db.kv_delete("k").unwrap();
    remember(&db, "its own");
    db.commit().unwrap();
    flush(store);
    full
}

fn remember(db: &ObjectDb, result: &str) {
    let call = KeyedCall {
        key: "once",
        method: "act",
        fingerprint: &[7; 32],
    };
    db.remember(call, Some(result.as_bytes()), 1_000_000_000_000)
        .unwrap();
}

fn remembered(db: &ObjectDb) -> Option<String> {
    let known = db.remembered("once", 1_000_000_000_000).unwrap();
    known.map(|call| String::from_utf8(call.result.unwrap()).unwrap())
}

#[test]
fn a_fork_to_an_empty_object_of_another_namespace_has_the_state() {
    for large in sizes() {
        let mut world = World::with(ArchiveOptions::default(), large);
        let at = origin(&world.store);
        let origin_db = open(&world.store, 1);
        remember(&origin_db, "of the origin");
        origin_db.commit().unwrap();
        flush(&world.store);
        let (from, now) = (key(&world.store, 1), origin_db.bookmark());
        drop(origin_db);
        let to = elsewhere(&world.store, 2);
        let full = emptied(&world.store, to);
        let before = world.store.open_object(to).unwrap().timeline().unwrap().id;
        world.store.fork(from, &now, to, None).unwrap();
        for reopened in [false, true] {
            let db = world.store.open_object(to).unwrap();
            assert_eq!(value(&db).unwrap(), "the origin");
            assert_eq!(db.kv_get("noise").unwrap().unwrap(), noise(1, 60_000));
            assert_eq!(db.name().unwrap().unwrap(), "target", "it keeps its name");
            assert_eq!(remembered(&db).unwrap(), "its own");
            let timeline = db.timeline().unwrap();
            assert!(timeline.id > before && timeline.dormant);
            let cause = StoredCause::Forked {
                origin: from.id,
                bookmark: now,
            };
            assert_eq!(timeline.cause, cause);
            assert!(db.alarm().unwrap().is_some());
            assert_eq!(world.store.alarms().get(to), None, "it is dormant");
            drop(db);
            if !reopened {
                world.reopen();
            }
        }
        let undo = world.store.bookmark(to).unwrap();
        world.store.restore(to, &full).unwrap();
        let db = world.store.open_object(to).unwrap();
        assert_eq!(value(&db).unwrap(), "before");
        drop(db);
        world.store.restore(to, &undo).unwrap();
        let db = world.store.open_object(to).unwrap();
        assert_eq!(value(&db).unwrap(), "the origin");
        drop(db);
        // The origin is as it was, and the empty object may be forked to under another name.
        assert_eq!(world.get(1).as_deref(), Some("the origin"));
        let third = elsewhere(&world.store, 3);
        emptied(&world.store, third);
        world.store.fork(from, &at, third, Some("renamed")).unwrap();
        let db = world.store.open_object(third).unwrap();
        assert_eq!(db.name().unwrap().unwrap(), "renamed");
        drop(db);
        world.store.checkpoint().unwrap();
        world.store.verify_archive().unwrap();
    }
}

#[test]
fn a_fork_to_an_object_with_content_is_refused_and_changes_nothing() {
    type Write = fn(&ObjectDb);
    let contents: [(&str, Write); 8] = [
        ("key", |db| db.kv_put("k", b"content").unwrap()),
        ("table", |db| {
            db.exec("CREATE TABLE t (a)", ()).unwrap();
        }),
        ("view", |db| {
            db.exec("CREATE VIEW v AS SELECT 1", ()).unwrap();
        }),
        ("alarm", |db| {
            db.set_alarm(Some(&AlarmRow::at(5_000))).unwrap();
        }),
        ("named alarm", |db| {
            db.set_named_alarm("n", Some(&AlarmRow::at(5_000))).unwrap();
        }),
        ("failed alarm", |db| {
            let row = AlarmRow {
                failed: true,
                ..AlarmRow::at(5_000)
            };
            db.set_alarm(Some(&row)).unwrap();
        }),
        ("user_version", |db| {
            db.exec("PRAGMA user_version = 3", ()).unwrap();
        }),
        ("requested restore", |db| {
            let bookmark = db.bookmark();
            db.request_restore(&bookmark).unwrap();
        }),
    ];
    for (content, write) in contents {
        let world = World::new(ArchiveOptions::default());
        let at = origin(&world.store);
        let to = elsewhere(&world.store, 2);
        emptied(&world.store, to);
        let db = world.store.open_object(to).unwrap();
        write(&db);
        db.commit().unwrap();
        flush(&world.store);
        drop(db);
        let before = world.store.bookmark(to).unwrap();
        let from = key(&world.store, 1);
        let refused = world.store.fork(from, &at, to, Some("copy")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Input, "{content}");
        let text = refused.to_string();
        assert!(text.contains("not empty"), "{content}: {text}");
        assert_eq!(world.store.bookmark(to).unwrap(), before, "{content}");
    }
}

#[test]
fn a_fork_to_a_dormant_object_that_was_emptied_replaces_it() {
    let world = World::new(ArchiveOptions::default());
    let at = origin(&world.store);
    let (from, to) = (key(&world.store, 1), elsewhere(&world.store, 2));
    world.store.fork(from, &at, to, Some("copy")).unwrap();
    let db = world.store.open_object(to).unwrap();
    let first = db.timeline().unwrap().id;
    db.delete_all().unwrap();
    db.commit().unwrap();
    flush(&world.store);
    drop(db);
    world.store.fork(from, &at, to, None).unwrap();
    let db = world.store.open_object(to).unwrap();
    assert_eq!(value(&db).unwrap(), "the origin");
    assert_eq!(db.name().unwrap().unwrap(), "copy");
    assert!(db.timeline().unwrap().id > first);
}

#[test]
fn an_object_is_not_forked_to_itself() {
    let world = World::new(ArchiveOptions::default());
    let own = key(&world.store, 1);
    let full = emptied(&world.store, own);
    let refused = world.store.fork(own, &full, own, None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Input);
    assert!(refused.to_string().contains("restore"), "{refused}");
    assert_eq!(world.get(1), None);
}

/// What must be true of the target after a crash.
fn check(mut world: World, full: &Bookmark, is_forked: bool, context: &str) -> bool {
    let to = elsewhere(&world.store, 2);
    let db = world.store.open_object(to).unwrap();
    let check = db.exec("PRAGMA integrity_check", ()).unwrap();
    assert_eq!(check.one::<String>().unwrap(), "ok", "{context}");
    let found = value(&db);
    assert_eq!(db.name().unwrap().as_deref(), Some("target"), "{context}");
    assert_eq!(remembered(&db).unwrap(), "its own", "{context}");
    assert_eq!(db.timeline().unwrap().dormant, found.is_some(), "{context}");
    match &found {
        None => assert!(db.is_vacant().unwrap() && !is_forked, "{context}"),
        Some(found) => {
            assert_eq!(found, "the origin", "{context}");
            let all = db.kv_get("noise").unwrap().unwrap();
            assert!(all == noise(1, 60_000), "{context}");
        }
    }
    db.kv_put("k", b"continues").unwrap();
    db.commit().unwrap();
    flush(&world.store);
    drop(db);
    world.store.checkpoint().unwrap();
    world.reopen();
    let db = world.store.open_object(to).unwrap();
    assert_eq!(value(&db).as_deref(), Some("continues"), "{context}");
    drop(db);
    assert_eq!(world.store.quarantined(), [], "{context}");
    world.store.restore(to, full).unwrap();
    let db = world.store.open_object(to).unwrap();
    assert_eq!(value(&db).as_deref(), Some("before"), "{context}");
    assert_eq!(world.get(1).as_deref(), Some("the origin"), "{context}");
    world.store.verify_archive().unwrap();
    found.is_some()
}

#[test]
fn s17_a_fork_to_an_empty_object_survives_a_loss_of_power_at_any_change() {
    for large in sizes() {
        let (mut whole, mut absent) = (0, 0);
        for stop in 0.. {
            let world = World::with(ArchiveOptions::default(), large);
            let at = origin(&world.store);
            let full = emptied(&world.store, elsewhere(&world.store, 2));
            world.pass(MINUTE);
            let reopened = |disk| World {
                store: World::open(&disk, &world.clock, world.archive, large),
                clock: world.clock.clone(),
                archive: world.archive,
                large,
                disk,
            };
            let run = reopened(world.disk.after_kill());
            run.disk.stop_at(run.disk.changes() + stop);
            let (from, to) = (key(&run.store, 1), elsewhere(&run.store, 2));
            let forked = run.store.fork(from, &at, to, None);
            let is_over = !run.disk.has_stopped();
            let World { disk, store, .. } = run;
            drop(store);
            for (disk, how) in [
                (disk.crash(stop), "power cut"),
                (disk.after_kill(), "killed"),
            ] {
                let context = format!("large from {large}: {how} at change {stop}");
                if check(reopened(disk), &full, forked.is_ok(), &context) {
                    whole += 1;
                } else {
                    absent += 1;
                }
            }
            if is_over {
                forked.unwrap();
                break;
            }
        }
        assert!(whole > 0 && absent > 10, "{whole} {absent}");
    }
}
