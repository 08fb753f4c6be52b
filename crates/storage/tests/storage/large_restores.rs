//! Restores and forks that write a whole object to a separate file, instead of changed pages to the log.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
};

use abide_storage::{
    ArchiveOptions, Bookmark, Disk as _, DiskOp, ErrorKind, FaultyDisk, ObjectDb, Result, SimDisk,
    SplitMix64, Store, StoreOptions, errno::EIO,
};

use crate::{
    common::{DIR, flush, key, open, read_file},
    recovery_points::world::{World, noise, off, value},
};

/// Everything is large.
const LARGE: u64 = 0;

fn world() -> World {
    World::with(ArchiveOptions::default(), LARGE)
}

/// Fills an object with many pages and returns the bookmark.
fn fill(store: &Store, id: u8, text: &str) -> Bookmark {
    let db = open(store, id);
    db.kv_put("noise", &noise(text.len() as u64, 300_000))
        .unwrap();
    db.kv_put("k", text.as_bytes()).unwrap();
    db.commit().unwrap();
    flush(store);
    db.bookmark()
}

fn is_sound(db: &ObjectDb) {
    let check = db.exec("PRAGMA integrity_check", ()).unwrap();
    assert_eq!(check.one::<String>().unwrap(), "ok");
}

/// The files of objects that are not called as they should be.
fn strays(store: &Store, disk: &SimDisk) -> Vec<String> {
    let mut found = Vec::new();
    for class in ["tests", "forks"] {
        let path = store.object_path(abide_storage::ObjectKey {
            namespace: store.namespace(class).unwrap(),
            id: [0; 32],
        });
        let path = path.unwrap();
        let class = path.ancestors().nth(2).unwrap();
        for part in disk.list(class).unwrap() {
            let names = disk.list(&class.join(part)).unwrap();
            found.extend(names.into_iter().filter(|name| !name.ends_with(".sqlite")));
        }
    }
    found
}

fn manifest(disk: &SimDisk) -> String {
    String::from_utf8(read_file(disk, &Path::new(DIR).join("MANIFEST"))).unwrap()
}

#[test]
fn a_large_restore_is_undone_and_leaves_nothing_beside_the_object() {
    let mut world = world();
    let first = fill(&world.store, 1, "the first");
    let second = fill(&world.store, 1, "the second state");
    let undo = world.restore(1, &first).unwrap();
    assert_eq!(undo, second);
    assert_eq!(world.get(1).as_deref(), Some("the first"));
    world.reopen();
    assert_eq!(world.get(1).as_deref(), Some("the first"), "from the log");
    let third = world.put(1, "after");
    world.store.checkpoint().unwrap();
    assert_eq!(strays(&world.store, &world.disk), [""; 0]);
    assert!(!manifest(&world.disk).contains("replacements"));
    world.restore(1, &undo).unwrap();
    assert_eq!(world.get(1).as_deref(), Some("the second state"));
    world.restore(1, &third).unwrap();
    assert_eq!(
        world.get(1).as_deref(),
        Some("after"),
        "without a checkpoint between"
    );
    is_sound(&open(&world.store, 1));
    for (bookmark, expected) in [
        (first, "the first"),
        (second, "the second state"),
        (third, "after"),
    ] {
        assert_eq!(world.at(1, &bookmark).unwrap().as_deref(), Some(expected));
    }
    world.store.verify_archive().unwrap();
}

#[test]
fn the_log_has_little_of_a_large_restore() {
    let world = world();
    let first = fill(&world.store, 1, "the first");
    fill(&world.store, 1, "the second state");
    world.store.checkpoint().unwrap();
    let before = world.store.durable();
    world.restore(1, &first).unwrap();
    flush(&world.store);
    let bytes = world.store.durable().get() - before.get();
    assert!(bytes < 60_000, "{bytes}");
}

#[test]
fn a_large_restore_works_without_an_archive() {
    let mut world = world();
    let first = fill(&world.store, 1, "the first");
    fill(&world.store, 1, "the second state");
    world.store.checkpoint().unwrap();
    world.reopen_with(off());
    world.restore(1, &first).unwrap();
    let restored = world.store.bookmark(key(&world.store, 1)).unwrap();
    world.reopen();
    assert_eq!(world.get(1).as_deref(), Some("the first"));
    world.put(1, "later");
    // The log has a commit whose state the archive does not have.
    world.reopen_with(ArchiveOptions::default());
    let last = world.put(1, "last");
    world.store.checkpoint().unwrap();
    assert_eq!(world.at(1, &last).unwrap().as_deref(), Some("last"));
    let refused = world.at(1, &restored).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Input, "{refused}");
    assert_eq!(world.at(1, &first).unwrap().as_deref(), Some("the first"));
    world.store.checkpoint().unwrap();
    assert_eq!(strays(&world.store, &world.disk), [""; 0]);
}

#[test]
fn a_deleted_object_that_was_replaced_stays_deleted() {
    for checkpoint in [false, true] {
        let mut world = world();
        let first = fill(&world.store, 1, "the first");
        fill(&world.store, 1, "the second state");
        world.restore(1, &first).unwrap();
        if checkpoint {
            world.store.checkpoint().unwrap();
        }
        let db = open(&world.store, 1);
        db.activate(false).unwrap();
        db.timeline_told().unwrap();
        db.delete_all().unwrap();
        db.commit().unwrap();
        drop(db);
        flush(&world.store);
        world.reopen();
        assert_eq!(world.get(1), None);
        world.store.checkpoint().unwrap();
        assert_eq!(strays(&world.store, &world.disk), [""; 0]);
        let again = world.put(1, "again");
        assert_eq!(world.at(1, &again).unwrap().as_deref(), Some("again"));
        assert_eq!(world.at(1, &first).unwrap().as_deref(), Some("the first"));
        assert_eq!(world.store.quarantined(), []);
    }
}

/// What a script has come to.
#[derive(Default)]
struct Seen {
    /// The states that object 1 may be in.
    values: Vec<&'static str>,
    /// Bookmarks of acknowledged states.
    past: Vec<(Bookmark, &'static str)>,
    is_forked: bool,
}

/// Restores, forks and undoes. What returns is acknowledged.
fn script(store: &Store, past: &[(Bookmark, &'static str)], seen: &mut Seen) -> Result<()> {
    let [(first, one), (_, two)] = *past else {
        panic!("two states");
    };
    seen.past = past.to_vec();
    seen.values = vec![two, one];
    let object = key(store, 1);
    let undo = store.restore(object, &first)?;
    seen.values = vec![one];
    let restored = store.bookmark(object)?;
    seen.past.push((restored, one));
    seen.values = vec![one, "after"];
    let db = store.open_object(object)?;
    db.kv_put("k", b"after")?;
    let lsn = db.commit()?.unwrap();
    let after = db.bookmark();
    drop(db);
    flush(store);
    if store.durable() < lsn {
        return Err(store.checkpoint().unwrap_err());
    }
    seen.values = vec!["after"];
    seen.past.push((after, "after"));
    let mut fork = object;
    fork.id = [5; 32];
    store.fork(object, &restored, fork, None)?;
    seen.is_forked = true;
    store.checkpoint()?;
    seen.values = vec!["after", two];
    store.restore(object, &undo)?;
    seen.values = vec![two];
    store.checkpoint()?;
    store.run_maintenance()
}

fn two_states() -> (SimDisk, Arc<AtomicU64>, [(Bookmark, &'static str); 2]) {
    let world = world();
    let first = fill(&world.store, 1, "the first");
    world.pass(1000);
    let second = fill(&world.store, 1, "the second state");
    fill(&world.store, 2, "beside");
    let clock = world.clock.clone();
    let disk = world.disk.after_kill();
    (
        disk,
        clock,
        [(first, "the first"), (second, "the second state")],
    )
}

/// Checks what a crash has left.
fn check(disk: &SimDisk, clock: &Arc<AtomicU64>, seen: &Seen, context: &str) {
    let mut world = World {
        disk: disk.clone(),
        clock: clock.clone(),
        archive: ArchiveOptions::default(),
        large: LARGE,
        store: World::open(disk, clock, ArchiveOptions::default(), LARGE),
    };
    assert_eq!(strays(&world.store, disk), [""; 0], "{context}");
    let found = world.get(1);
    let found = found.unwrap_or_else(|| panic!("{context}: there is no object"));
    assert!(
        seen.values.contains(&&*found),
        "{context}: {found}, not {:?}",
        seen.values
    );
    is_sound(&open(&world.store, 1));
    assert_eq!(world.get(2).as_deref(), Some("beside"), "{context}");
    let fork = world.get(5);
    if seen.is_forked {
        assert_eq!(fork.as_deref(), Some("the first"), "{context}");
    } else {
        assert!(
            [None, Some("the first")].contains(&fork.as_deref()),
            "{context}"
        );
    }
    for (bookmark, expected) in &seen.past {
        let at = world.at(1, bookmark);
        let at = at.unwrap_or_else(|error| panic!("{context}: {expected}: {error}"));
        assert_eq!(at.as_deref(), Some(*expected), "{context}");
    }
    assert_eq!(world.store.quarantined(), [], "{context}");
    world.put(1, "continues");
    world.store.checkpoint().unwrap();
    assert!(!manifest(&world.disk).contains("replacements"), "{context}");
    assert_eq!(strays(&world.store, disk), [""; 0], "{context}");
    world.reopen();
    assert_eq!(world.get(1).as_deref(), Some("continues"), "{context}");
    is_sound(&open(&world.store, 1));
    world.store.verify_archive().unwrap();
}

#[test]
fn s17_large_restores_survive_a_loss_of_power_at_any_change_of_the_disk() {
    for stop in 0..2_000 {
        let (disk, clock, past) = two_states();
        let store = World::open(&disk, &clock, ArchiveOptions::default(), LARGE);
        disk.stop_at(disk.changes() + stop);
        let mut seen = Seen::default();
        let done = script(&store, &past, &mut seen);
        drop(store);
        check(
            &disk.crash(stop),
            &clock,
            &seen,
            &format!("power cut at change {stop}"),
        );
        if !disk.has_stopped() {
            done.unwrap();
            assert!(stop > 100, "{stop}");
            return;
        }
        check(
            &disk.after_kill(),
            &clock,
            &seen,
            &format!("killed at change {stop}"),
        );
    }
    panic!("the script never ends");
}

#[test]
fn s17_a_second_loss_of_power_during_the_start_changes_nothing() {
    let mut random = SplitMix64::new(7);
    for stop in (0..400).step_by(3) {
        let (disk, clock, past) = two_states();
        let store = World::open(&disk, &clock, ArchiveOptions::default(), LARGE);
        disk.stop_at(disk.changes() + stop);
        let mut seen = Seen::default();
        let _ = script(&store, &past, &mut seen);
        drop(store);
        let disk = disk.crash(stop);
        disk.stop_at(disk.changes() + random.below(30));
        let clock_of = clock.clone();
        let options = StoreOptions::small()
            .manual(true)
            .large_restore_bytes(LARGE)
            .unix_millis(Arc::new(move || {
                clock_of.load(std::sync::atomic::Ordering::SeqCst)
            }));
        if let Ok(store) = Store::open(Arc::new(disk.clone()), Path::new(DIR), options) {
            let _ = store.checkpoint();
        }
        check(
            &disk.crash(stop + 1),
            &clock,
            &seen,
            &format!("two power cuts, {stop}"),
        );
    }
}

#[test]
fn a_full_disk_refuses_a_large_restore_and_leaves_the_object_as_it_was() {
    let mut refused = 0;
    for room in (0..900_000).step_by(20_000) {
        let (disk, clock, past) = two_states();
        let mut world = World {
            disk: disk.clone(),
            clock: clock.clone(),
            archive: ArchiveOptions::default(),
            large: LARGE,
            store: World::open(&disk, &clock, ArchiveOptions::default(), LARGE),
        };
        world.store.checkpoint().unwrap();
        disk.set_capacity(Some(disk.used() + room));
        let restored = world.restore(1, &past[0].0);
        disk.set_capacity(None);
        if let Err(error) = restored {
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{room}: {error}");
            assert_eq!(world.get(1).as_deref(), Some(past[1].1), "{room}");
            assert_eq!(strays(&world.store, &disk), [""; 0], "{room}");
            assert!(!manifest(&disk).contains("replacements"), "{room}");
            refused += 1;
            world.restore(1, &past[0].0).unwrap();
        }
        assert_eq!(world.get(1).as_deref(), Some(past[0].1), "{room}");
        world.reopen();
        assert_eq!(world.get(1).as_deref(), Some(past[0].1), "{room}");
        for (bookmark, expected) in past {
            assert_eq!(
                world.at(1, &bookmark).unwrap().as_deref(),
                Some(expected),
                "{room}"
            );
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_replaced_object_that_is_quarantined_can_be_accepted() {
    let disk = FaultyDisk::default();
    let reopen = || {
        let options = StoreOptions::small()
            .manual(true)
            .large_restore_bytes(LARGE);
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let store = reopen();
    let first = fill(&store, 1, "the first");
    fill(&store, 1, "the second state");
    store.checkpoint().unwrap();
    store.restore(key(&store, 1), &first).unwrap();
    let hex = hex::encode([1; 32]);
    disk.fail(&[DiskOp::Write], &format!("{hex}.sqlite"), EIO);
    while store.quarantined().is_empty() {
        let db = open(&store, 2);
        db.kv_put("k", b"more").unwrap();
        db.commit().unwrap();
        flush(&store);
        let _ = store.checkpoint();
    }
    let _ = store.checkpoint();
    disk.clear();
    drop(store);
    let store = reopen();
    store
        .repair(key(&store, 1), abide_storage::Repair::Accept)
        .unwrap();
    let db = open(&store, 1);
    assert_eq!(value(&db).as_deref(), Some("the first"));
    is_sound(&db);
}

#[test]
fn checkpoints_run_beside_large_restores() {
    let disk = SimDisk::new();
    let options = StoreOptions::small()
        .large_restore_bytes(LARGE)
        .checkpoint_bytes(200 << 10);
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    let write = |text: &str| {
        let db = open(&store, 1);
        db.kv_put("noise", &noise(text.len() as u64, 100_000))
            .unwrap();
        db.kv_put("k", text.as_bytes()).unwrap();
        let lsn = db.commit().unwrap().unwrap();
        while store.durable() < lsn {
            std::thread::yield_now();
        }
        db.bookmark()
    };
    let states = ["one", "the second", "a third state"].map(|text| (write(text), text));
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                store.checkpoint().unwrap();
            }
        });
        for round in 0..40 {
            let (bookmark, text) = states[round % 3];
            let restored = store.restore(key(&store, 1), &bookmark);
            if let Err(error) = restored {
                is_done.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("{round}: {error}");
            }
            let db = open(&store, 1);
            assert_eq!(value(&db).as_deref(), Some(text));
            db.kv_put(&format!("beside {round}"), &noise(3, 9_000))
                .unwrap();
            db.commit().unwrap();
            drop(db);
            is_sound(&open(&store, 1));
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    store.close().unwrap();
    drop(store);
    let store = Store::open(
        Arc::new(disk.after_kill()),
        Path::new(DIR),
        StoreOptions::small(),
    )
    .unwrap();
    assert_eq!(store.quarantined(), []);
    is_sound(&open(&store, 1));
    store.verify_archive().unwrap();
}

/// An object of 1 GiB on a real disk: restored, forked and undone, in bounded memory.
#[test]
#[ignore = "takes a minute and several GiB of disk"]
fn an_object_of_a_gibibyte_is_restored_forked_and_undone() {
    let dir = tempfile::tempdir().unwrap();
    let options = || StoreOptions::default().checkpoint_bytes(512 << 20);
    let open_store =
        || Store::open(Arc::new(abide_storage::RealDisk), dir.path(), options()).unwrap();
    let store = open_store();
    let object = key(&store, 1);
    let write = |generation: u64| {
        let db = store.open_object(object).unwrap();
        for at in 0..1024 {
            let value = noise(generation << 32 | at, 1 << 20);
            db.kv_put(&format!("key {at}"), &value).unwrap();
            db.commit().unwrap();
        }
        db.bookmark()
    };
    let holds = |store: &Store, object, generation: u64| {
        let db = store.open_object(object).unwrap();
        for at in (0..1024).step_by(73) {
            let value = db.kv_get(&format!("key {at}")).unwrap().unwrap();
            assert!(
                value == noise(generation << 32 | at, 1 << 20),
                "{generation}: {at}"
            );
        }
        is_sound(&db);
    };
    let first = write(1);
    let second = write(2);
    store.checkpoint().unwrap();
    let before = peak_kib();
    let undo = store.restore(object, &first).unwrap();
    holds(&store, object, 1);
    let mut fork = object;
    fork.id = [2; 32];
    store.fork(object, &second, fork, None).unwrap();
    holds(&store, fork, 2);
    store.restore(object, &undo).unwrap();
    holds(&store, object, 2);
    let grown = peak_kib() - before;
    assert!(grown < 300 << 10, "{grown} KiB");
    drop(store);
    let store = open_store();
    holds(&store, object, 2);
    holds(&store, fork, 2);
    assert_eq!(store.quarantined(), []);
}

/// The most memory that this process has had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse().unwrap()
}
