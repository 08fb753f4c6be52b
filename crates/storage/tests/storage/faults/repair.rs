//! Quarantine, and every way out of it.

use abide_storage::{
    AlarmRow, Bookmark, Disk as _, DiskOp, ErrorKind, FaultyDisk, ObjectKey, OpenMode, Repair,
    SimDisk, Store, StoredCause, TimelineRow, errno::EIO,
};

use crate::common::{flush, key, read_file, tell};
use crate::faults::world::{
    content, get, overwrite, part, path, put, store, store_without_archive,
};

/// A disk with an old copy of object 1's file: its commits are "1", "2" and "3", its file has "1", the log's tail
/// "3". And the bookmarks of the first and the last.
pub(crate) fn with_an_old_file(make: fn(&FaultyDisk) -> Store) -> (FaultyDisk, Bookmark, Bookmark) {
    let disk = FaultyDisk::new(SimDisk::new());
    let before = make(&disk);
    let bookmark = |store: &Store| store.open_object(key(store, 1)).unwrap().bookmark();
    put(&before, 1, "1").unwrap();
    put(&before, 2, "other").unwrap();
    let first = bookmark(&before);
    before.checkpoint().unwrap();
    let path = path(&before, 1);
    let old = read_file(&disk.sim, &path);
    put(&before, 1, "2").unwrap();
    before.checkpoint().unwrap();
    put(&before, 1, "3").unwrap();
    let last = bookmark(&before);
    let sim = disk.sim.after_kill();
    overwrite(&sim, &path, &old);
    (FaultyDisk::new(sim), first, last)
}

type Content = std::collections::BTreeMap<String, Vec<u8>>;

fn refused(store: &Store) -> String {
    let error = store.open_object(key(store, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    error.to_string()
}

#[test]
fn a_quarantined_object_says_what_to_do_and_is_listed_and_counted() {
    let (disk, _, _) = with_an_old_file(store);
    let store = store(&disk);
    assert_eq!(store.quarantined(), []);
    let said = refused(&store);
    assert!(
        said.contains("`abide restore`") && said.contains("`abide repair --accept`"),
        "{said}"
    );
    for _ in 0..2 {
        let listed = store.quarantined();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].key, key(&store, 1));
        assert!(listed[0].why.contains("commit 3"), "{}", listed[0].why);
        assert_eq!(store.stats().quarantined_objects, 1);
        store.checkpoint().unwrap();
    }
    let error = store.bookmark(key(&store, 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

#[test]
fn a_restore_to_a_bookmark_ends_a_quarantine_for_good() {
    for durable_quarantine in [false, true] {
        let (disk, first, last) = with_an_old_file(store);
        let mut now = store(&disk);
        if durable_quarantine {
            now.checkpoint().unwrap();
            drop(now);
            now = store(&disk);
        }
        refused(&now);
        let object = key(&now, 1);
        let undo = now.restore(object, &first).unwrap();
        assert_eq!(get(&now, 1).unwrap().as_deref(), Some("1"));
        assert_eq!(now.quarantined(), []);
        assert_eq!(now.stats().quarantined_objects, 0);
        // The newest acknowledged state is one restore away, and so is what came after.
        assert_eq!(undo, last);
        put(&now, 1, "4").unwrap();
        let fourth = now.open_object(object).unwrap().bookmark();
        now.restore(object, &undo).unwrap();
        assert_eq!(get(&now, 1).unwrap().as_deref(), Some("3"));
        now.restore(object, &fourth).unwrap();
        assert_eq!(get(&now, 1).unwrap().as_deref(), Some("4"));
        for seed in 0..10 {
            let crashed = store(&FaultyDisk::new(disk.sim.crash(seed)));
            assert_eq!(get(&crashed, 1).unwrap().as_deref(), Some("4"));
            assert_eq!(crashed.quarantined(), []);
            assert_eq!(get(&crashed, 2).unwrap().as_deref(), Some("other"));
        }
        now.verify_archive().unwrap();
    }
}

#[test]
fn a_quarantined_object_can_be_restored_to_a_time_and_forked() {
    let (disk, first, last) = with_an_old_file(store);
    let store = store(&disk);
    refused(&store);
    let object = key(&store, 1);
    let now = store.bookmark_at(object, u64::MAX).unwrap();
    assert_eq!(now, last);
    for (id, at, value) in [(7, first, "1"), (8, last, "3")] {
        store.fork(object, &at, key(&store, id), None).unwrap();
        assert_eq!(get(&store, id).unwrap().as_deref(), Some(value));
    }
    refused(&store);
    store.restore(object, &now).unwrap();
    assert_eq!(get(&store, 1).unwrap().as_deref(), Some("3"));
}

#[test]
fn an_object_without_history_resumes_from_its_file_or_anew() {
    for (how, value) in [(Repair::Accept, Some("1")), (Repair::Anew, None)] {
        let (disk, first, _) = with_an_old_file(store_without_archive);
        let store = store_without_archive(&disk);
        refused(&store);
        let object = key(&store, 1);
        let damaged = read_file(&disk.sim, &path(&store, 1));
        let error = store.restore(object, &first).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        let repaired = store.repair(object, how).unwrap();
        assert_eq!(get(&store, 1).unwrap().as_deref(), value, "{how:?}");
        assert_eq!(store.quarantined(), []);
        // The file, and the pages of the third commit.
        assert_eq!(repaired.kept.len(), 2, "{:?}", repaired.kept);
        assert_eq!(read_file(&disk.sim, &repaired.kept[0]), damaged);
        assert!(!read_file(&disk.sim, &repaired.kept[1]).is_empty());
        put(&store, 1, "next").unwrap();
        store.checkpoint().unwrap();
        drop(store);
        let store = store_without_archive(&FaultyDisk::new(disk.sim.crash(3)));
        assert_eq!(get(&store, 1).unwrap().as_deref(), Some("next"));
    }
}

#[test]
fn commits_made_while_a_file_was_unwritable_survive_its_acceptance() {
    for archive in [true, false] {
        let make = if archive {
            store
        } else {
            store_without_archive
        };
        let disk = FaultyDisk::new(SimDisk::new());
        let before = make(&disk);
        let db = before.open_object(key(&before, 1)).unwrap();
        for n in 0..30 {
            db.kv_put(&format!("key {n}"), &[n; 3_000]).unwrap();
        }
        db.commit().unwrap();
        drop(db);
        flush(&before);
        before.checkpoint().unwrap();
        disk.fail(&[DiskOp::Write], &part(&before, 1), EIO);
        let mut acknowledged = 0;
        for round in 0..10_u8 {
            let Ok(db) = before.open_object(key(&before, 1)) else {
                break;
            };
            db.kv_put(&format!("key {}", round * 3), &[100 + round; 3_000])
                .unwrap();
            db.kv_put(&format!("more {round}"), &[round; 3_000])
                .unwrap();
            db.set_alarm(Some(&AlarmRow::at(i64::from(round)))).unwrap();
            db.commit().unwrap();
            flush(&before);
            drop(db);
            acknowledged += 1;
            before.checkpoint().unwrap_or_default();
        }
        assert_eq!(acknowledged, 3, "then it is quarantined");
        assert!(refused(&before).contains("could not write its file"));
        assert!(before.stats().log_tail_bytes == 0, "the log is given back");
        disk.clear();
        for seed in 0..5 {
            let disk = FaultyDisk::new(disk.sim.crash(seed));
            let after = make(&disk);
            let object = key(&after, 1);
            refused(&after);
            let repaired = after.repair(object, Repair::Accept).unwrap();
            assert_eq!(repaired.kept.len(), 1, "the pages are in the file");
            let db = after.open_object(object).unwrap();
            let all = content(&db);
            for n in 0..30_u8 {
                let written = if n % 3 == 0 && n / 3 < 3 {
                    100 + n / 3
                } else {
                    n
                };
                assert_eq!(all[&format!("key {n}")], [written; 3_000]);
            }
            for round in 0..3_u8 {
                assert_eq!(all[&format!("more {round}")], [round; 3_000]);
            }
            let alarm = db.alarm().unwrap().map(|row| row.entry());
            assert_eq!(alarm.unwrap().due, 2);
            drop(db);
            tell(&after, 1);
            assert_eq!(after.alarms().get(object), alarm);
        }
    }
}

#[test]
fn an_open_connection_of_a_quarantined_object_reads_and_writes_nothing() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    let db = store.open_object(key(&store, 1)).unwrap();
    db.exec("CREATE TABLE t (x)", ()).unwrap();
    for _ in 0..20 {
        db.exec("INSERT INTO t VALUES (randomblob(90000))", ())
            .unwrap();
    }
    db.commit().unwrap();
    flush(&store);
    disk.fail(&[DiskOp::Write], &part(&store, 1), EIO);
    for _ in 0..3 {
        store.checkpoint().unwrap_or_default();
    }
    assert_eq!(store.quarantined().len(), 1);
    let wrote = db.kv_put("k", b"v").and_then(|()| db.commit()).unwrap_err();
    assert_eq!(wrote.kind(), ErrorKind::Damaged, "{wrote}");
    let error = store.repair(key(&store, 1), Repair::Accept).unwrap_err();
    assert!(error.to_string().contains("is open"), "{error}");
    drop(db);
    disk.clear();
    store.repair(key(&store, 1), Repair::Accept).unwrap();
    let db = store.open_object(key(&store, 1)).unwrap();
    let count = db.exec("SELECT count(*) FROM t", ()).unwrap();
    assert_eq!(count.one::<i64>().unwrap(), 20);
    assert!(!store.failed());
}

#[test]
fn what_is_no_database_is_not_accepted_and_stays_until_it_is_restored() {
    let (disk, first, _) = with_an_old_file(store);
    let now = store(&disk);
    let object = key(&now, 1);
    overwrite(&disk.sim, &path(&now, 1), &[7; 9_000]);
    refused(&now);
    for _ in 0..2 {
        let error = now.repair(object, Repair::Accept).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Refused | ErrorKind::Damaged),
            "{error}"
        );
        refused(&now);
    }
    drop(now);
    let now = store(&disk);
    refused(&now);
    now.restore(object, &first).unwrap();
    assert_eq!(get(&now, 1).unwrap().as_deref(), Some("1"));
}

#[test]
fn a_file_that_was_cut_to_nothing_is_damage_and_no_new_object() {
    for length in [0, 50] {
        let disk = FaultyDisk::new(SimDisk::new());
        let before = store(&disk);
        put(&before, 1, "kept").unwrap();
        before.close().unwrap();
        let path = path(&before, 1);
        disk.open(&path, OpenMode::Existing)
            .unwrap()
            .set_len(length)
            .unwrap();
        drop(before);
        let now = store(&FaultyDisk::new(disk.sim.after_kill()));
        assert!(refused(&now).contains("empty"));
        let newest = now.bookmark_at(key(&now, 1), u64::MAX).unwrap();
        now.restore(key(&now, 1), &newest).unwrap();
        assert_eq!(get(&now, 1).unwrap().as_deref(), Some("kept"));
    }
}

#[test]
fn an_object_with_an_unreadable_file_is_restored_from_its_history() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "kept").unwrap();
    store.checkpoint().unwrap();
    put(&store, 1, "newest").unwrap();
    disk.fail(&[DiskOp::Read], &part(&store, 1), EIO);
    let object = key(&store, 1);
    store.checkpoint().unwrap_or_default();
    let error = store.repair(object, Repair::Accept).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let newest = store.bookmark_at(object, u64::MAX).unwrap();
    // The new file has the name of the old one, and is another file.
    disk.clear();
    disk.fail(&[DiskOp::Read], "damaged-", EIO);
    store.restore(object, &newest).unwrap();
    assert_eq!(get(&store, 1).unwrap().as_deref(), Some("newest"));
}

/// A store whose object 1 has a database of many pages, all in its file; its history's newest bookmark and its content.
fn with_many_pages(make: fn(&FaultyDisk) -> Store) -> (FaultyDisk, Bookmark, Content) {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = make(&disk);
    let db = store.open_object(key(&store, 1)).unwrap();
    for number in 0..24 {
        let value = vec![number; 700 * usize::from(number)];
        db.kv_put(&format!("key {number}"), &value).unwrap();
    }
    db.commit().unwrap();
    flush(&store);
    store.checkpoint().unwrap();
    (disk, db.bookmark(), content(&db))
}

/// Ways in which a database is damaged: garbage in each of its pages but the first header, and a file cut at each
/// page and within it.
fn damages(sound: &[u8]) -> Vec<Vec<u8>> {
    let pages = sound.len() / 4096;
    assert!(pages > 20, "{pages}");
    let mut damages = Vec::new();
    for page in 0..pages {
        let mut garbage = sound.to_vec();
        let start = if page == 0 { 100 } else { page * 4096 };
        garbage[start..(page + 1) * 4096].fill(0xa5);
        damages.push(garbage);
        if page > 0 {
            damages.push(sound[..page * 4096].to_vec());
            damages.push(sound[..page * 4096 + 1_000].to_vec());
        }
    }
    damages
}

#[test]
fn an_object_with_a_malformed_database_is_restored_from_its_history() {
    let (disk, last, expected) = with_many_pages(store);
    let path = path(&store(&disk), 1);
    let sound = read_file(&disk.sim, &path);
    for damaged in damages(&sound) {
        let sim = disk.sim.after_kill();
        overwrite(&sim, &path, &damaged);
        let disk = FaultyDisk::new(sim);
        let now = store(&disk);
        now.restore(key(&now, 1), &last).unwrap();
        assert_eq!(now.quarantined(), []);
        drop(now);
        let now = store(&FaultyDisk::new(disk.sim.crash(1)));
        let db = now.open_object(key(&now, 1)).unwrap();
        assert_eq!(content(&db), expected);
    }
}

#[test]
fn an_object_whose_database_is_malformed_and_has_no_history_begins_anew() {
    let (disk, _, _) = with_many_pages(store_without_archive);
    let path = path(&store_without_archive(&disk), 1);
    let sound = read_file(&disk.sim, &path);
    for damaged in damages(&sound) {
        let sim = disk.sim.after_kill();
        overwrite(&sim, &path, &damaged);
        let disk = FaultyDisk::new(sim);
        let now = store_without_archive(&disk);
        let object = key(&now, 1);
        // Garbage in a free page or in the middle of a value is nothing that SQLite knows of.
        let unsound = now.open_object(object).and_then(|db| {
            let said = db.exec("PRAGMA integrity_check", ())?;
            Ok(said.all::<String>()? != ["ok"])
        });
        let repaired = now.repair(object, Repair::Anew);
        if let Ok(false) = unsound {
            assert_eq!(repaired.unwrap_err().kind(), ErrorKind::Input);
            continue;
        }
        let repaired = repaired.unwrap();
        assert_eq!(read_file(&disk.sim, &repaired.kept[0]), damaged);
        assert_eq!(get(&now, 1).unwrap(), None);
        put(&now, 1, "next").unwrap();
        assert_eq!(get(&now, 1).unwrap().as_deref(), Some("next"));
        assert_eq!(now.quarantined(), []);
    }
}

#[test]
fn a_malformed_database_says_what_to_do() {
    let (disk, _, _) = with_many_pages(store);
    let path = path(&store(&disk), 1);
    let sound = read_file(&disk.sim, &path);
    overwrite(&disk.sim, &path, &sound[..4096]);
    let store = store(&FaultyDisk::new(disk.sim.after_kill()));
    let error = store
        .open_object(key(&store, 1))
        .and_then(|db| db.kv_get("key 1"))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let said = error.to_string();
    assert!(
        said.contains("`abide restore`") && said.contains("`abide repair --anew`"),
        "{said}"
    );
}

#[test]
fn a_sound_object_is_not_repaired() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "kept").unwrap();
    for how in [Repair::Accept, Repair::Anew] {
        let error = store.repair(key(&store, 1), how).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        assert!(error.to_string().contains("is not quarantined"), "{error}");
    }
    let unknown = ObjectKey {
        id: [200; 32],
        ..key(&store, 1)
    };
    store.repair(unknown, Repair::Anew).unwrap_err();
    assert_eq!(get(&store, 1).unwrap().as_deref(), Some("kept"));
}

#[test]
fn a_repair_begins_a_timeline_above_all_earlier_ones() {
    let (disk, first, last) = with_an_old_file(store);
    let now = store(&disk);
    let object = key(&now, 1);
    let timeline = |store: &Store| -> TimelineRow {
        let db = store.open_object(object).unwrap();
        db.timeline().unwrap()
    };
    // It ends a quarantine, and the next one does not.
    now.restore(object, &first).unwrap();
    let repaired = timeline(&now);
    assert!(matches!(repaired.cause, StoredCause::Restored { to, .. } if to == first));
    now.restore(object, &last).unwrap();
    let restored = timeline(&now);
    assert!(restored.id > repaired.id);
    now.checkpoint().unwrap();
    let path = path(&now, 1);
    let sim = disk.sim.after_kill();
    overwrite(&sim, &path, &[7; 9_000]);
    let now = store(&FaultyDisk::new(sim));
    now.repair(object, Repair::Anew).unwrap();
    let anew = timeline(&now);
    assert_eq!(anew.cause, StoredCause::Created);
    assert!(anew.id > restored.id && anew.since.is_some());
    let fresh = now.open_object(key(&now, 5)).unwrap().timeline().unwrap();
    assert_eq!((fresh.cause, fresh.since), (StoredCause::Created, None));
}
