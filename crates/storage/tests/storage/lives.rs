//! An object that deletes everything ends: its file goes, its history stays, and another object may begin in its place.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, sync::Arc, time::Duration};

use abide_storage::{
    ArchiveOptions, Bookmark, Disk as _, DiskOp, ErrorKind, FaultyDisk, ObjectDb, Repair, SimDisk,
    SplitMix64, Store, StoreOptions, errno::EIO,
};

use crate::{
    common::{DIR, flush, key, manual, open, tell},
    recovery_points::world::{MINUTE, World, value},
};

/// Deletes everything of an object, and closes it.
fn delete(store: &Store, id: u8) {
    let db = open(store, id);
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    flush(store);
}

fn put(store: &Store, id: u8, value: &str) {
    let db = open(store, id);
    db.kv_put("k", value.as_bytes()).unwrap();
    db.commit().unwrap();
    flush(store);
}

fn get(store: &Store, id: u8) -> Option<String> {
    value(&open(store, id))
}

fn exists(store: &Store, id: u8) -> bool {
    let key = key(store, id);
    let exists = store.has_object(key).unwrap();
    let listed = store.objects_after(key.namespace, None, 100).unwrap();
    assert_eq!(listed.contains(&key), exists);
    exists
}

fn has_file(store: &Store, disk: &SimDisk, id: u8) -> bool {
    let path = store.object_path(key(store, id)).unwrap();
    let names = disk.list(path.parent().unwrap()).unwrap();
    names
        .iter()
        .any(|name| *name == *path.file_name().unwrap().to_string_lossy())
}

#[test]
fn a_deleted_object_is_gone_with_its_file() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    put(&store, 1, "one");
    put(&store, 2, "two");
    store.checkpoint().unwrap();
    assert!(has_file(&store, &disk, 1));
    delete(&store, 1);
    assert!(!exists(&store, 1), "before the checkpoint");
    assert_eq!(get(&store, 1), None);
    assert!(!exists(&store, 1), "after it was read");
    store.checkpoint().unwrap();
    assert!(!has_file(&store, &disk, 1));
    assert!(!exists(&store, 1), "after the checkpoint");
    let store = manual(&disk.crash(1));
    assert!(!exists(&store, 1), "after a crash");
    assert_eq!(get(&store, 2).as_deref(), Some("two"));
    put(&store, 1, "again");
    assert!(exists(&store, 1));
    store.checkpoint().unwrap();
    let store = manual(&disk.crash(2));
    assert_eq!(get(&store, 2).as_deref(), Some("two"));
}

#[test]
fn an_object_with_anything_left_stays() {
    type Leave = fn(&ObjectDb);
    let leaves: [(&str, Leave); 5] = [
        ("a key", |db| db.kv_put("k", b"v").unwrap()),
        ("a table", |db| {
            db.exec("CREATE TABLE t (n)", ()).map(drop).unwrap();
        }),
        ("a version", |db| {
            db.exec("PRAGMA user_version = 1", ()).map(drop).unwrap();
        }),
        ("an alarm", |db| {
            db.set_alarm(Some(&abide_storage::AlarmRow::at(5))).unwrap();
        }),
        ("another transaction", |db| {
            db.commit().unwrap();
            db.kv_put("later", b"v").unwrap();
        }),
    ];
    for (what, leave) in leaves {
        let disk = SimDisk::new();
        let store = manual(&disk);
        put(&store, 1, "one");
        let db = open(&store, 1);
        db.delete_all().unwrap();
        leave(&db);
        db.commit().unwrap();
        drop(db);
        flush(&store);
        store.checkpoint().unwrap();
        assert!(exists(&store, 1) && has_file(&store, &disk, 1), "{what}");
    }
}

#[test]
fn a_deletion_that_is_rolled_back_does_not_end_the_object() {
    let store = manual(&SimDisk::new());
    put(&store, 1, "one");
    let db = open(&store, 1);
    db.delete_all().unwrap();
    db.rollback();
    drop(db);
    assert_eq!(get(&store, 1).as_deref(), Some("one"));
    // Nor does a transaction that is lost with the connection undo a deletion.
    let db = open(&store, 1);
    db.delete_all().unwrap();
    db.commit().unwrap();
    db.kv_put("k", b"lost").unwrap();
    drop(db);
    assert!(!exists(&store, 1));
}

#[test]
fn s21_a_later_object_of_the_same_name_has_another_timeline() {
    let store = manual(&SimDisk::new());
    let timeline = || open(&store, 1).timeline().unwrap().id;
    let mut newest = None;
    for _ in 0..3 {
        put(&store, 1, "a life");
        let present = Some(timeline());
        assert!(present > newest, "{present:?} {newest:?}");
        newest = present;
        put(&store, 1, "continues");
        assert_eq!(Some(timeline()), newest);
        delete(&store, 1);
    }
}

#[test]
fn s21_each_fork_to_the_name_of_a_deleted_object_has_another_timeline() {
    let store = manual(&SimDisk::new());
    put(&store, 2, "the origin");
    let origin = key(&store, 2);
    let at = store.bookmark(origin).unwrap();
    let timeline = || open(&store, 1).timeline().unwrap().id;
    put(&store, 1, "a life");
    let mut newest = timeline();
    for _ in 0..3 {
        delete(&store, 1);
        store.fork(origin, &at, key(&store, 1), None).unwrap();
        let fork = open(&store, 1);
        assert_eq!(value(&fork).as_deref(), Some("the origin"));
        // A dormant object stays, and so does one whose code has not been told of its timeline.
        fork.activate(false).unwrap();
        fork.timeline_told().unwrap();
        fork.commit().unwrap();
        drop(fork);
        let present = timeline();
        assert!(present > newest, "{present} after {newest}");
        newest = present;
    }
}

#[test]
fn s21_commit_numbers_rise_from_life_to_life() {
    let store = manual(&SimDisk::new());
    let mut newest = String::new();
    for _ in 0..3 {
        for commit in 0..5 {
            put(&store, 1, &format!("commit {commit}"));
            let bookmark = store.bookmark(key(&store, 1)).unwrap().to_string();
            let number = bookmark.split('-').nth(2).unwrap().to_owned();
            assert!(number > newest, "{number} after {newest}");
            newest = number;
        }
        delete(&store, 1);
    }
}

/// Lives of one object, each step of which is acknowledged when it returns.
const STEPS: [Option<&str>; 8] = [
    Some("first"),
    None,
    Some("second"),
    Some("third"),
    None,
    Some("fourth"),
    None,
    Some("fifth"),
];

#[test]
fn s21_lives_survive_a_loss_of_power_at_any_change_of_the_disk() {
    let mut ended = 0;
    for stop in 0..2_000 {
        let disk = SimDisk::new();
        let store = manual(&disk);
        store.namespace("tests").unwrap();
        put(&store, 2, "beside");
        disk.stop_at(disk.changes() + stop);
        let (mut before, mut after) = (None, None);
        let done = STEPS.into_iter().enumerate().all(|(at, step)| {
            after = step;
            let stepped = store.open_object(key(&store, 1)).and_then(|db| {
                match step {
                    Some(value) => db.kv_put("k", value.as_bytes())?,
                    None => db.delete_all()?,
                }
                db.commit()
            });
            while store.write_group() {}
            let stepped = match stepped {
                Ok(lsn) => lsn.is_none_or(|lsn| store.durable() >= lsn),
                Err(_) => false,
            };
            if stepped {
                before = step;
            }
            stepped && (at % 2 == 1 || store.checkpoint().is_ok())
        });
        drop(store);
        let context = format!("power cut at change {stop}");
        let disk = disk.crash(stop);
        let store = manual(&disk);
        let found = get(&store, 1);
        assert!(
            [before, after].contains(&found.as_deref()),
            "{context}: {found:?}, not {before:?} or {after:?}"
        );
        assert_eq!(get(&store, 2).as_deref(), Some("beside"), "{context}");
        assert_eq!(store.quarantined(), [], "{context}");
        ended += usize::from(!exists(&store, 1));
        // It continues, over another crash.
        put(&store, 1, "continues");
        store.checkpoint().unwrap();
        let disk = disk.crash(stop + 1);
        let store = manual(&disk);
        assert_eq!(get(&store, 1).as_deref(), Some("continues"), "{context}");
        delete(&store, 1);
        store.checkpoint().unwrap();
        assert!(
            !has_file(&store, &disk, 1) && !exists(&store, 1),
            "{context}"
        );
        if done {
            assert!(stop > 50 && ended > 10, "{stop} {ended}");
            return;
        }
    }
    panic!("the lives never end");
}

#[test]
fn a_file_that_cannot_be_removed_is_quarantined_and_never_comes_back() {
    let disk = FaultyDisk::default();
    let reopen = || {
        let options = StoreOptions::small().manual(true);
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let store = reopen();
    put(&store, 1, "deleted");
    put(&store, 2, "beside");
    store.checkpoint().unwrap();
    disk.fail(&[DiskOp::Remove], "objects", EIO);
    delete(&store, 1);
    assert!(store.checkpoint().is_err(), "it is tried again");
    while store.quarantined().is_empty() {
        put(&store, 2, "more");
        let _ = store.checkpoint();
    }
    store.checkpoint().unwrap();
    drop(store);
    let store = reopen();
    assert_eq!(get(&store, 2).as_deref(), Some("more"));
    let refused = store.open_object(key(&store, 1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    disk.clear();
    let refused = store.repair(key(&store, 1), Repair::Accept).unwrap_err();
    assert!(refused.to_string().contains("it was deleted"), "{refused}");
    store.repair(key(&store, 1), Repair::Anew).unwrap();
    assert_eq!(get(&store, 1), None);
}

/// What an object was, after each of its commits.
#[derive(Default)]
struct Model {
    present: Option<String>,
    past: Vec<(Bookmark, u64, Option<String>)>,
}

/// Random lives of a few objects beside a model: every acknowledged state can be restored, within a life and across.
#[test]
fn s21_every_state_of_random_lives_can_be_restored() {
    for seed in 0..60 {
        random_lives(seed);
    }
}

fn random_lives(seed: u64) {
    let mut random = SplitMix64::new(seed);
    let archive = ArchiveOptions::default().retention(Duration::from_hours(24));
    // With every second seed, restores and forks write files.
    let large = if seed.is_multiple_of(2) { 0 } else { 64 << 20 };
    let mut world = World::with(archive, large);
    let mut models: Vec<Model> = (0..3).map(|_| Model::default()).collect();
    for step in 0..120 {
        let id = random.below(3) as u8;
        let model = &mut models[usize::from(id)];
        let context = format!("seed {seed}, step {step}, object {id}");
        let remember = |world: &World, value: Option<String>, model: &mut Model| {
            let bookmark = world.store.bookmark(key(&world.store, id)).unwrap();
            model.past.push((bookmark, world.now(), value.clone()));
            model.present = value;
        };
        match random.below(12) {
            0..4 => {
                let value = format!("{step} {}", "x".repeat(random.below(9_000) as usize));
                world.put(id, &value);
                remember(&world, Some(value), model);
            }
            4 | 5 => {
                delete(&world.store, id);
                remember(&world, None, model);
            }
            6 | 7 => world.store.checkpoint().unwrap(),
            8 => world.keep(),
            9 => {
                flush(&world.store);
                world.reopen();
            }
            10 if !model.past.is_empty() => {
                let place = random.below(model.past.len() as u64) as usize;
                let (bookmark, _, value) = model.past[place].clone();
                let restored = world.restore(id, &bookmark);
                restored.unwrap_or_else(|error| panic!("{context}: {error}"));
                flush(&world.store);
                tell(&world.store, id);
                assert_eq!(world.get(id), value, "{context}");
                remember(&world, value, model);
            }
            _ => world.pass(MINUTE),
        }
        assert_eq!(world.get(id), models[usize::from(id)].present, "{context}");
        assert_eq!(world.store.quarantined(), [], "{context}");
    }
    world.keep();
    world.store.verify_archive().unwrap();
    for (id, model) in (0..).zip(&models) {
        for (at, (bookmark, time, value)) in model.past.iter().enumerate() {
            let context = format!(
                "seed {seed}, object {id}, state {at} of {}",
                model.past.len()
            );
            let found = world.at(id, bookmark);
            let found = found.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(found, *value, "{context}");
            let is_last = model
                .past
                .get(at + 1)
                .is_none_or(|(_, next, _)| next > time);
            if is_last {
                let by_time = world.store.bookmark_at(key(&world.store, id), *time);
                let by_time = by_time.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(
                    world.at(id, &by_time).unwrap(),
                    *value,
                    "{context}, by time"
                );
            }
        }
    }
}
