//! Point-in-time recovery: bookmarks, restore, fork, and what keeps the archive small.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use abide_storage::{
    AlarmRow, ArchiveOptions, Bookmark, Disk as _, ErrorKind, ObjectDb, SimDisk, Store,
    StoreOptions,
};
use common::{key, open, read_file};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A store without threads, on a simulated disk, with a clock that the test moves.
struct World {
    disk: SimDisk,
    clock: Arc<AtomicU64>,
    archive: ArchiveOptions,
    store: Store,
}

const MINUTE: u64 = 60_000;

impl World {
    fn new(archive: ArchiveOptions) -> Self {
        let (disk, clock) = (SimDisk::new(), Arc::new(AtomicU64::new(1_000_000_000_000)));
        let store = Self::open(&disk, &clock, archive);
        Self {
            disk,
            clock,
            archive,
            store,
        }
    }

    fn open(disk: &SimDisk, clock: &Arc<AtomicU64>, archive: ArchiveOptions) -> Store {
        let clock = clock.clone();
        let options = StoreOptions {
            manual: true,
            archive,
            unix_millis: Arc::new(move || clock.load(Ordering::SeqCst)),
            ..StoreOptions::small()
        };
        Store::open(Arc::new(disk.clone()), Path::new(common::DIR), options).unwrap()
    }

    fn reopen_with(&mut self, archive: ArchiveOptions) {
        self.disk = self.disk.after_kill();
        self.archive = archive;
        self.store = Self::open(&self.disk, &self.clock, archive);
    }

    fn reopen(&mut self) {
        self.reopen_with(self.archive);
    }

    fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    fn pass(&self, millis: u64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    /// Puts a value and returns the bookmark of the commit.
    fn put(&self, id: u8, value: &str) -> Bookmark {
        let db = open(&self.store, id);
        db.kv_put("k", value.as_bytes()).unwrap();
        db.commit().unwrap();
        common::flush(&self.store);
        db.bookmark()
    }

    fn get(&self, id: u8) -> Option<String> {
        value(&open(&self.store, id))
    }

    fn restore(&self, id: u8, to: &Bookmark) -> abide_storage::Result<Bookmark> {
        self.store.restore(key(&self.store, id), to)
    }

    /// The value that an object had at a bookmark, seen in a fork.
    fn at(&self, id: u8, bookmark: &Bookmark) -> abide_storage::Result<Option<String>> {
        let (from, to) = (key(&self.store, id), self.unused());
        self.store.fork(from, bookmark, to, None)?;
        Ok(value(&self.store.open_object(to)?))
    }

    fn unused(&self) -> abide_storage::ObjectKey {
        let namespace = self.store.namespace("forks").unwrap();
        let id = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut key = key(&self.store, 0);
        key.namespace = namespace;
        key.id[..8].copy_from_slice(&id.to_le_bytes());
        key
    }

    fn runs(&self) -> Vec<PathBuf> {
        let dir = Path::new(common::DIR).join("archive");
        let mut names = self.disk.list(&dir).unwrap();
        names.sort();
        names.into_iter().map(|name| dir.join(name)).collect()
    }

    fn keep(&self) {
        self.store.keep_house().unwrap();
    }
}

fn value(db: &ObjectDb) -> Option<String> {
    let value = db.kv_get("k").unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

#[test]
fn every_commit_can_be_restored_whether_it_is_in_the_log_or_in_the_archive() {
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
fn bookmarks_are_valid_after_restarts_and_for_objects_that_were_not_written_since() {
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
    assert!(error.to_string().contains("never durable"), "{error}");
    assert_eq!(world.get(1).unwrap(), "next");
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
        let bookmark = world.store.bookmark_for_time(key(&world.store, 1), time);
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

#[test]
fn a_fork_has_the_state_and_a_name_of_its_own_and_never_replaces_an_object() {
    let world = World::new(ArchiveOptions::default());
    let (from, to) = (key(&world.store, 1), key(&world.store, 2));
    let db = open(&world.store, 1);
    db.set_name("original").unwrap();
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
fn a_restore_that_was_asked_for_is_done_once_and_forgotten_if_it_is_impossible() {
    let world = World::new(ArchiveOptions {
        retention: Duration::from_mins(10),
        ..ArchiveOptions::default()
    });
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
    assert!(error.to_string().contains("open already"), "{error}");
}

#[test]
fn an_archive_that_is_switched_on_later_says_since_when_an_object_can_be_restored() {
    let off = ArchiveOptions {
        enabled: false,
        ..ArchiveOptions::default()
    };
    let mut world = World::new(off);
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
            .bookmark_for_time(key(&world.store, 1), begin)
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
fn history_goes_on_after_the_archive_was_off_and_what_is_between_is_refused() {
    let on = ArchiveOptions::default();
    let mut world = World::new(on);
    let early = world.put(1, "early");
    world.store.checkpoint().unwrap();
    let late = world.put(1, "late");
    world.reopen_with(ArchiveOptions {
        enabled: false,
        ..on
    });
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
fn runs_are_merged_so_that_a_busy_month_is_a_handful_of_files() {
    let world = World::new(ArchiveOptions::default());
    let mut bookmarks = Vec::new();
    for i in 0..200 {
        world.pass(MINUTE);
        bookmarks.push(world.put(1, &format!("value {i}")));
        world.put(2 + i % 90, "other");
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert!(world.runs().len() <= 3 * 7, "{:?}", world.runs());
    for (i, bookmark) in bookmarks.iter().enumerate() {
        assert_eq!(
            world.at(1, bookmark).unwrap().unwrap(),
            format!("value {i}")
        );
    }
}

#[test]
fn history_older_than_the_retention_is_folded_and_the_rest_stays() {
    let world = World::new(ArchiveOptions {
        retention: Duration::from_mins(100),
        ..ArchiveOptions::default()
    });
    world.put(2, "idle");
    let mut bookmarks = Vec::new();
    for i in 0..400 {
        world.pass(MINUTE);
        bookmarks.push(world.put(1, &format!("value {i}")));
        world.store.checkpoint().unwrap();
        world.keep();
    }
    let horizon = world.now() - 100 * MINUTE;
    assert!(world.store.stats().archive_horizon_ms <= horizon);
    assert!(world.store.stats().archive_horizon_ms > horizon - 60 * MINUTE);
    for (i, bookmark) in bookmarks.iter().enumerate().skip(300) {
        assert_eq!(
            world.at(1, bookmark).unwrap().unwrap(),
            format!("value {i}")
        );
    }
    let error = world.at(1, &bookmarks[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("begins at"), "{error}");
    let now = world.now();
    let idle = world.store.bookmark_for_time(key(&world.store, 2), now);
    assert_eq!(world.at(2, &idle.unwrap()).unwrap().unwrap(), "idle");
}

#[test]
fn a_busy_object_does_not_cost_its_whole_history() {
    let world = World::new(ArchiveOptions {
        retention: Duration::from_mins(50),
        ..ArchiveOptions::default()
    });
    let db = open(&world.store, 1);
    let mut most = 0;
    for round in 0..400_u64 {
        world.pass(MINUTE);
        // Something that does not compress, 20 KiB a minute, 8 MB in all.
        let mut random = round;
        let noise: Vec<u8> = (0..20_000)
            .map(|_| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 56) as u8
            })
            .collect();
        db.kv_put("noise", &noise).unwrap();
        db.commit().unwrap();
        world.store.checkpoint().unwrap();
        world.keep();
        most = most.max(world.store.stats().archive_bytes);
    }
    assert!(most < 4_000_000, "{most}");
}

#[test]
fn an_archive_over_its_size_cap_forgets_the_oldest_history_first() {
    let world = World::new(ArchiveOptions {
        max_bytes: 300_000,
        ..ArchiveOptions::default()
    });
    let mut last = None;
    for i in 0..300 {
        world.pass(MINUTE);
        last = Some(world.put(1, &format!("{i:03}").repeat(3_000)));
        let db = open(&world.store, 1);
        let noise: Vec<u8> = (0..4_000_u64)
            .map(|n| ((n * n * (i + 3)) >> 7) as u8)
            .collect();
        db.kv_put("noise", &noise).unwrap();
        db.commit().unwrap();
        drop(db);
        world.store.checkpoint().unwrap();
        world.keep();
    }
    let stats = world.store.stats();
    assert!(stats.archive_bytes < 400_000, "{}", stats.archive_bytes);
    assert!(stats.archive_horizon_ms > 1_000_000_000_000 + 100 * MINUTE);
    let last = world.at(1, &last.unwrap()).unwrap().unwrap();
    assert_eq!(last, "299".repeat(3_000));
}

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
fn s16_damage_in_any_byte_of_a_run_is_seen_and_never_gives_a_wrong_state() {
    let world = World::new(ArchiveOptions::default());
    let mut bookmarks = Vec::new();
    for i in 0..12 {
        bookmarks.push(world.put(1, &format!("value {i}")));
        world.put(2, "other");
    }
    world.store.checkpoint().unwrap();
    let [run] = &world.runs()[..] else {
        panic!("{:?}", world.runs());
    };
    for at in 0..read_file(&world.disk, run).len() as u64 {
        let mut damaged = World {
            disk: world.disk.after_kill(),
            clock: world.clock.clone(),
            archive: world.archive,
            store: world.store.clone(),
        };
        damaged.disk.flip(run, at);
        damaged.reopen();
        let error = damaged.store.verify_archive().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "byte {at}: {error}");
        let (i, bookmark) = (at as usize % 12, &bookmarks[at as usize % 12]);
        match damaged.at(1, bookmark) {
            Ok(value) => assert_eq!(value.unwrap(), format!("value {i}"), "byte {at}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "byte {at}: {error}"),
        }
        // The object itself goes on, and so does its history.
        damaged.put(1, "after");
        damaged.store.checkpoint().unwrap();
    }
}

#[test]
fn a_restored_object_has_the_alarm_of_its_earlier_state_and_a_fork_has_none() {
    let mut world = World::new(ArchiveOptions::default());
    let set = |alarm: Option<i64>| {
        let db = open(&world.store, 1);
        db.kv_put("alarm was", &alarm.unwrap_or(0).to_le_bytes())
            .unwrap();
        db.set_alarm(alarm.map(AlarmRow::at).as_ref()).unwrap();
        db.commit().unwrap();
        common::flush(&world.store);
        db.bookmark()
    };
    let (early, late, none) = (set(Some(1_000)), set(Some(2_000)), set(None));
    let due = |world: &World, id| {
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
    assert_eq!(due(&world, 2), None);
}

const OFF: ArchiveOptions = ArchiveOptions {
    enabled: false,
    retention: Duration::from_hours(720),
    max_bytes: 64 << 30,
};

/// Something that does not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = std::iter::repeat_with(|| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    });
    bytes.take(len).collect()
}

fn put_noise(store: &Store, seed: u64, len: usize) -> abide_storage::Result<()> {
    let db = open(store, 1);
    db.kv_put("noise", &noise(seed, len))?;
    db.commit().map(drop)
}

#[test]
fn s17_a_restore_over_a_state_that_the_archive_lacks_can_be_undone() {
    let mut world = World::new(ArchiveOptions::default());
    let early = world.put(1, "early");
    world.store.checkpoint().unwrap();
    world.reopen_with(OFF);
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
    world.reopen_with(OFF);
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
    world.reopen_with(OFF);
    world.pass(MINUTE);
    world.put(1, "between");
    let then = world.now();
    let at = |world: &World, time| {
        let found = world.store.bookmark_for_time(key(&world.store, 1), time);
        found.and_then(|bookmark| world.at(1, &bookmark))
    };
    for archive in [OFF, ArchiveOptions::default()] {
        world.reopen_with(archive);
        let error = at(&world, then).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        let text = error.to_string();
        assert!(text.contains("are not in the archive"), "{text}");
        world.store.checkpoint().unwrap();
    }
    world.reopen_with(OFF);
    world.put(1, "off once more");
    world.store.checkpoint().unwrap();
    world.reopen_with(ArchiveOptions::default());
    world.pass(MINUTE);
    world.put(1, "after");
    assert!(at(&world, then).is_err());
    assert_eq!(world.at(1, &early).unwrap().unwrap(), "early");
    assert!(at(&world, world.now() - MINUTE).is_err());
    assert_eq!(at(&world, world.now()).unwrap().unwrap(), "after");
}

#[test]
fn s16_a_missing_run_never_stops_the_node_and_the_others_are_merged_around_it() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "first");
    world.store.checkpoint().unwrap();
    world.disk.remove(&world.runs()[0]).unwrap();
    for start in 0..2 {
        for i in 0..20 {
            world.pass(1000);
            world.put(1, &format!("value {start} {i}"));
            world.store.checkpoint().unwrap();
            world.keep();
        }
        assert!(!world.store.failed());
        world.reopen();
    }
    assert!(world.runs().len() < 20, "{:?}", world.runs());
}

#[test]
fn s16_a_damaged_run_leaves_with_its_time_and_does_not_stop_the_tidying() {
    let world = World::new(ArchiveOptions {
        retention: Duration::from_mins(50),
        ..ArchiveOptions::default()
    });
    let idle = world.put(2, "idle");
    world.put(1, "first");
    world.store.checkpoint().unwrap();
    world.pass(MINUTE);
    world.put(1, "second");
    world.store.checkpoint().unwrap();
    world.disk.flip(&world.runs()[1], 80); // In its first block.
    let mut last = Vec::new();
    for i in 0..200 {
        world.pass(MINUTE);
        last.push(world.put(1, &format!("value {i}")));
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert!(world.runs().len() < 60, "{:?}", world.runs());
    let horizon = world.store.stats().archive_horizon_ms;
    assert!(horizon > world.now() - 100 * MINUTE);
    assert_eq!(world.at(2, &idle).unwrap().unwrap(), "idle");
    for (i, bookmark) in last.iter().enumerate().skip(160) {
        assert_eq!(
            world.at(1, bookmark).unwrap().unwrap(),
            format!("value {i}")
        );
    }
}

#[test]
fn s16_a_damaged_run_costs_only_the_history_in_it() {
    let mut world = World::new(ArchiveOptions::default());
    let one = world.put(1, "one");
    world.store.checkpoint().unwrap();
    let run = world.runs()[0].clone();
    let two = world.put(2, "two");
    world.put(2, "two later");
    world.store.checkpoint().unwrap();
    let len = read_file(&world.disk, &run).len() as u64;
    world.disk.flip(&run, len - 20); // The footer.
    world.reopen();
    assert_eq!(world.at(2, &two).unwrap().unwrap(), "two");
    let error = world.at(1, &one).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(
        error.to_string().contains("0000000000000001.run"),
        "{error}"
    );
}

#[test]
fn a_short_retention_does_not_pile_up_runs() {
    let world = World::new(ArchiveOptions {
        retention: Duration::from_mins(8),
        ..ArchiveOptions::default()
    });
    put_noise(&world.store, 1, 1_000_000).unwrap();
    world.store.checkpoint().unwrap();
    for i in 0..300 {
        world.pass(MINUTE + 5000);
        world.put(2, &format!("value {i}"));
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert!(world.runs().len() < 50, "{} runs", world.runs().len());
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
        common::flush(&world.store);
        world.keep();
    }
    assert!(world.store.stats().archive_bytes > 1 << 20, "some is kept");
    let last = open(&world.store, 1).bookmark();
    world.store.checkpoint().unwrap();
    // A smaller size takes effect with the next start.
    world.reopen_with(ArchiveOptions {
        max_bytes: 1 << 20,
        ..ArchiveOptions::default()
    });
    world.keep();
    let bytes = world.store.stats().archive_bytes;
    assert!(bytes < 1 << 20, "{bytes}");
    assert!(world.at(1, &last).is_ok());
}

#[test]
fn s12_commits_go_on_when_the_disk_has_little_room_for_history() {
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
        common::flush(&world.store);
        world.keep();
    }
    assert!(!world.store.failed());
}

#[test]
fn the_archive_leaves_alone_what_it_has_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("archive");
    std::fs::create_dir_all(archive.join("lost+found")).unwrap();
    let (copy, left) = ("0000000000000007.run.bak", "0000000000000007.run");
    std::fs::write(archive.join(copy), "a copy").unwrap();
    std::fs::write(archive.join(left), "left by a crash").unwrap();
    let disk = Arc::new(abide_storage::RealDisk);
    let store = Store::open(disk, dir.path(), StoreOptions::small()).unwrap();
    store.close().unwrap();
    assert!(archive.join(copy).exists() && !archive.join(left).exists());
}
