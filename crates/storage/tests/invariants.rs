//! The numbered invariants of the crate's documentation, one by one.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod common;

use abide_storage::{
    AlarmRow, Disk as _, DiskEvent, ErrorKind, ObjectDb, ObjectKey, OpenMode, SimDisk, Store,
};
use common::{flush, key, manual, open, read_file, segments, threaded, try_manual};
use std::path::{Path, PathBuf};

fn put(db: &ObjectDb, value: &str) -> abide_storage::Lsn {
    db.kv_put("k", value.as_bytes()).unwrap();
    db.commit().unwrap().expect("a commit")
}

fn get(db: &ObjectDb) -> Option<String> {
    db.kv_get("k")
        .unwrap()
        .map(|value| String::from_utf8(value).unwrap())
}

/// A group for each value.
fn put_each(store: &Store, db: &ObjectDb, values: &[&str]) -> Vec<u64> {
    values
        .iter()
        .map(|value| {
            let lsn = put(db, value);
            flush(store);
            lsn.get()
        })
        .collect()
}

/// The offset in the first segment of the record that ends at `end`, whose segment begins at position 0.
fn offset(end: u64) -> u64 {
    4096 + end - 1
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 60, "{what} never came");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn put_durably(store: &Store, db: &ObjectDb, value: &str) {
    let lsn = put(db, value);
    wait_until("durability", || store.durable() >= lsn);
}

fn checkpoint_beside(store: &Store) -> std::thread::JoinHandle<abide_storage::Result<()>> {
    let store = store.clone();
    std::thread::spawn(move || store.checkpoint())
}

#[test]
fn s3_an_object_file_never_holds_what_is_not_durable() {
    let disk = SimDisk::new();
    let store = threaded(&disk);
    let db = open(&store, 1);
    let path = store.object_path(key(&store, 1)).unwrap();
    put_durably(&store, &db, "durable");
    disk.hold_syncs();
    let first = put(&db, "first");
    wait_until("the first group", || {
        store.stats().unsynced_bytes > 0 && disk.used() > 0
    });
    let checkpoint = checkpoint_beside(&store);
    // The checkpoint waits for the first group. A second commit comes, and then only the first becomes durable.
    std::thread::sleep(std::time::Duration::from_millis(20));
    put(&db, "second");
    let missing = || disk.open(&path, OpenMode::Existing).is_err();
    assert!(missing());
    disk.allow_syncs(1);
    wait_until("the first group's end", || store.durable() >= first);
    // What the checkpoint finds now has the second commit, so it waits again before it touches the file.
    for _ in 0..50 {
        assert!(missing());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    disk.release_syncs();
    checkpoint.join().unwrap().unwrap();
    assert!(!read_file(&disk, &path).is_empty());
}

#[test]
fn s4_the_first_image_behind_a_checkpoint_is_full_so_a_torn_file_is_mended() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    db.kv_put("other", &[3; 500]).unwrap();
    put(&db, "before");
    store.checkpoint().unwrap();
    put(&db, "behind");
    flush(&store);
    let path = store.object_path(key(&store, 1)).unwrap();
    let killed = disk.after_kill();
    // A checkpoint that was cut short may have left any mixture in the pages that were written since.
    let pages = read_file(&killed, &path).len() as u64 / 4096;
    for page in 1..pages {
        killed.flip(&path, page * 4096 + 2000);
        killed.flip(&path, page * 4096 + 4090);
    }
    let store = manual(&killed);
    let db = open(&store, 1);
    assert_eq!(get(&db).as_deref(), Some("behind"));
    assert_eq!(db.kv_get("other").unwrap().unwrap(), [3; 500]);
}

#[test]
fn s4_a_commit_during_a_checkpoint_does_not_build_on_what_the_checkpoint_gives_back() {
    let disk = SimDisk::new();
    let store = threaded(&disk);
    let db = open(&store, 1);
    let path = store.object_path(key(&store, 1)).unwrap();
    db.kv_put("other", &[3; 500]).unwrap();
    put_durably(&store, &db, "before");
    disk.hold_syncs();
    let checkpoint = checkpoint_beside(&store);
    wait_until("the file's write", || {
        disk.open(&path, OpenMode::Existing)
            .is_ok_and(|f| f.len().unwrap() > 0)
    });
    let during = put(&db, "during");
    disk.release_syncs();
    checkpoint.join().unwrap().unwrap();
    wait_until("durability", || store.durable() >= during);
    drop(db);
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("during"));
    let store = manual(&disk.after_kill());
    let db = open(&store, 1);
    assert_eq!(get(&db).as_deref(), Some("during"));
    assert_eq!(db.kv_get("other").unwrap().unwrap(), [3; 500]);
}

#[test]
fn s5_a_hole_in_the_commit_numbers_quarantines_that_object_and_no_other() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let (a, b) = (open(&store, 1), open(&store, 2));
    put(&a, "1");
    put(&b, "1");
    store.checkpoint().unwrap();
    let path = store.object_path(key(&store, 1)).unwrap();
    let old = read_file(&disk, &path);
    put(&a, "2");
    put(&b, "2");
    store.checkpoint().unwrap();
    put(&a, "3");
    put(&b, "3");
    flush(&store);
    // Somebody puts an old copy of one object's file back.
    let disk = disk.after_kill();
    {
        let file = disk.open(&path, OpenMode::Existing).unwrap();
        file.set_len(0).unwrap();
        file.write_at(&old, 0).unwrap();
    }
    for _ in 0..2 {
        let store = manual(&disk);
        let error = store.open_object(key(&store, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert!(error.to_string().contains("quarantined"), "{error}");
        assert_eq!(get(&open(&store, 2)).as_deref(), Some("3"));
        // Also when the log's tail is gone.
        store.close().unwrap();
    }
}

#[test]
fn s6_a_torn_tail_ends_replay_and_nothing_behind_it_is_taken() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let (a, b) = (open(&store, 1), open(&store, 2));
    put(&a, "kept");
    flush(&store);
    // One group: its records say nothing of one another.
    let torn = put(&a, "torn").get();
    put(&b, "behind");
    flush(&store);
    let disk = disk.after_kill();
    disk.flip(&segments(&disk)[0], offset(torn) - 8);
    let store = manual(&disk);
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("kept"));
    assert_eq!(get(&open(&store, 2)), None);
    // And it stays so, whatever is written now.
    put(&open(&store, 2), "new");
    flush(&store);
    let store = manual(&disk.after_kill());
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("kept"));
    assert_eq!(get(&open(&store, 2)).as_deref(), Some("new"));
}

#[test]
fn s7_damage_before_the_durable_end_is_refused_with_a_message_that_says_what_to_do() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let ends = put_each(&store, &open(&store, 1), &["1", "2", "3", "4"]);
    let disk = disk.after_kill();
    disk.flip(&segments(&disk)[0], offset(ends[1]) - 8);
    let before = disk.changes();
    let error = try_manual(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let text = error.to_string();
    assert!(
        text.contains("damaged") && text.contains("backup") && text.contains("Nothing was changed"),
        "{text}"
    );
    assert_eq!(disk.changes(), before);
}

#[test]
fn s7_a_damaged_or_missing_segment_in_the_middle_is_refused() {
    let build = || {
        let disk = SimDisk::new();
        let store = manual(&disk);
        let db = open(&store, 1);
        for i in 0..40_u8 {
            db.kv_put(&format!("{i}"), &vec![i; 60_000]).unwrap();
            db.commit().unwrap();
            flush(&store);
            store.keep_house().unwrap();
        }
        drop(db);
        let killed = disk.after_kill();
        let used = segments(&killed);
        assert!(used.len() > 4, "{}", used.len());
        (killed, used)
    };
    for at in [10_u64, 4096 + 5000] {
        let (disk, used) = build();
        disk.flip(&used[1], at);
        let error = try_manual(&disk).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    let (disk, used) = build();
    disk.remove(&used[1]).unwrap();
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    // The header of the last segment that is in use.
    let (disk, used) = build();
    let last = used
        .iter()
        .rposition(|path| read_file(&disk, path)[..8] == *b"abidelog")
        .unwrap();
    disk.flip(&used[last], 10);
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn s7_a_damaged_header_of_the_segment_that_holds_the_redo_position_is_refused() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "before");
    store.checkpoint().unwrap();
    put(&db, "acknowledged");
    flush(&store);
    let disk = disk.after_kill();
    disk.flip(&segments(&disk)[0], 10);
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    for segment in segments(&disk) {
        disk.remove(&segment).unwrap();
    }
    let error = try_manual(&disk).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn s8_a_failed_sync_poisons_the_log_and_releases_nothing() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "durable");
    flush(&store);
    let (told, heard) = std::sync::mpsc::channel();
    store.subscribe(Box::new(move |progress| told.send(progress).unwrap()));
    let durable = store.durable();
    let lost = put(&db, "lost");
    disk.fail_syncs(true);
    assert!(!store.write_group());
    disk.fail_syncs(false);
    assert!(!store.write_group(), "a failed sync is never tried again");
    assert!(store.failed());
    assert_eq!(store.durable(), durable);
    assert!(lost > durable);
    assert_eq!(
        heard.try_iter().collect::<Vec<_>>(),
        [abide_storage::Progress::Failed]
    );
    db.kv_put("k", b"more").unwrap();
    assert_eq!(db.commit().unwrap_err().kind(), ErrorKind::LogFailed);
    assert_eq!(store.checkpoint().unwrap_err().kind(), ErrorKind::LogFailed);
    assert_eq!(store.close().unwrap_err().kind(), ErrorKind::LogFailed);
    let store = manual(&disk.crash(1));
    assert!(["durable", "lost"].contains(&get(&open(&store, 1)).unwrap().as_str()));
}

#[test]
fn s10_what_a_failed_sync_left_in_the_cache_is_durable_once_recovery_has_shown_it() {
    for seed in 0..50 {
        let disk = SimDisk::new();
        let store = manual(&disk);
        let db = open(&store, 1);
        put(&db, "durable");
        flush(&store);
        put(&db, "in the cache");
        disk.fail_sync();
        assert!(!store.write_group());
        // The process ends itself and is started again; the machine's cache still has what it wrote.
        let disk = disk.after_kill();
        let store = manual(&disk);
        let shown = get(&open(&store, 1));
        let store = manual(&disk.crash(seed));
        assert_eq!(get(&open(&store, 1)), shown, "seed {seed}");
    }
}

#[test]
fn s8_a_failed_sync_of_a_checkpoint_stops_the_store_too() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "durable");
    flush(&store);
    disk.fail_syncs(true);
    store.checkpoint().unwrap_err();
    assert!(store.failed());
    let store = manual(&disk.crash(3));
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("durable"));
}

fn position(events: &[DiskEvent], found: impl Fn(&DiskEvent) -> bool) -> Option<usize> {
    events.iter().position(found)
}

fn is_publication(event: &DiskEvent) -> bool {
    matches!(event, DiskEvent::Rename(_, to) if to.ends_with("MANIFEST"))
}

#[test]
fn s9_directories_are_synced_after_a_file_is_made_or_renamed_before_the_name_is_relied_on() {
    let disk = SimDisk::new();
    disk.record_events();
    let store = manual(&disk);
    put(&open(&store, 1), "v");
    flush(&store);
    store.checkpoint().unwrap();
    let events = disk.take_events();
    let mut made: Vec<(usize, PathBuf)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            DiskEvent::Create(path) | DiskEvent::Rename(_, path) => made.push((at, path.clone())),
            _ => {}
        }
    }
    assert!(
        made.iter()
            .any(|(_, path)| path.extension().is_some_and(|e| e == "sqlite"))
    );
    assert!(
        made.iter()
            .any(|(_, path)| path.extension().is_some_and(|e| e == "seg"))
    );
    for (at, path) in made {
        if path.ends_with("MANIFEST.new") {
            continue;
        }
        let synced = events[at..]
            .iter()
            .position(|e| *e == DiskEvent::SyncDir(path.parent().unwrap().to_owned()));
        let synced = at + synced.unwrap_or_else(|| panic!("{} was never synced", path.display()));
        let next = events[at + 1..]
            .iter()
            .position(is_publication)
            .map(|next| at + 1 + next);
        assert!(
            next.is_none_or(|next| synced < next),
            "{} is published before its name is durable",
            path.display()
        );
        if path.extension().is_some_and(|e| e == "seg") {
            let used = position(&events, |e| matches!(e, DiskEvent::Write(p) if *p == path));
            let header = events[synced..]
                .iter()
                .position(|e| matches!(e, DiskEvent::Write(p) if *p == path));
            assert!(used.is_some() && header.is_none_or(|h| h > 0));
        }
    }
}

#[test]
fn s10_what_recovery_accepts_is_synced_first_and_the_next_epoch_begins_a_new_segment() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    put(&open(&store, 1), "1");
    flush(&store);
    let disk = disk.after_kill();
    disk.record_events();
    let store = manual(&disk);
    put(&open(&store, 1), "2");
    flush(&store);
    let events = disk.take_events();
    let first = segments(&disk)[0].clone();
    let synced = position(&events, |e| *e == DiskEvent::Sync(first.clone())).expect("a sync");
    let published = position(&events, is_publication).expect("a publication");
    assert!(synced < published);
    assert_eq!(
        position(&events[synced..], |e| *e == DiskEvent::Write(first.clone())),
        None,
        "nothing is added to the old segment"
    );
    assert_eq!(
        get(&open(&manual(&disk.after_kill()), 1)).as_deref(),
        Some("2")
    );
}

#[test]
fn s11_a_segment_is_recycled_only_after_files_are_synced_and_the_manifest_is_published() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    let fill = |from: u8| {
        for i in from..from + 30 {
            db.kv_put("k", &vec![i; 90_000]).unwrap();
            db.commit().unwrap();
            flush(&store);
            if store.stats().log_tail_bytes > 3 << 20 {
                break;
            }
        }
    };
    fill(0);
    let used: Vec<PathBuf> = segments(&disk);
    disk.record_events();
    store.checkpoint().unwrap();
    store.keep_house().unwrap();
    fill(40);
    let events = disk.take_events();
    let published = position(&events, is_publication).expect("a publication");
    let file_synced = position(
        &events,
        |e| matches!(e, DiskEvent::Sync(p) if p.extension().is_some_and(|e| e == "sqlite")),
    )
    .expect("a sync");
    assert!(file_synced < published);
    let touched = position(&events, |e| match e {
        DiskEvent::Write(path) | DiskEvent::Rename(path, _) => *path == used[0],
        _ => false,
    });
    assert!(touched.expect("the first segment is used again or removed") > published);
}

#[test]
fn s12_a_full_disk_refuses_commits_loses_nothing_and_is_left_when_space_returns() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "kept");
    flush(&store);
    disk.set_capacity(Some(disk.used()));
    let mut acknowledged = String::from("kept");
    let mut db = Some(db);
    let mut refused = None;
    for i in 0..200 {
        let object = db.get_or_insert_with(|| open(&store, 1));
        let value = i.to_string();
        object.kv_put("k", value.as_bytes()).unwrap();
        object
            .kv_put(&format!("large {i}"), &vec![7; 20_000])
            .unwrap();
        match object.commit() {
            Ok(_) => {
                flush(&store);
                acknowledged = value;
            }
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("the disk is full");
    assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
    assert!(!store.failed() && store.stats().no_space);
    drop(db);
    // Reads go on, and what was acknowledged is there, also for a process that starts on the full disk.
    assert_eq!(get(&open(&store, 1)).unwrap(), acknowledged);
    let killed = disk.after_kill();
    assert_eq!(get(&open(&manual(&killed), 1)).unwrap(), acknowledged);
    disk.set_capacity(None);
    store.keep_house().unwrap();
    put(&open(&store, 1), "again");
    flush(&store);
    assert!(!store.stats().no_space);
    assert_eq!(
        get(&open(&manual(&disk.after_kill()), 1)).as_deref(),
        Some("again")
    );
}

#[test]
fn s13_a_refused_commit_leaves_the_committed_state_as_it_was() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    put(&db, "committed");
    disk.fail_syncs(true);
    store.write_group();
    db.kv_put("k", b"refused").unwrap();
    db.commit().unwrap_err();
    drop(db);
    assert_eq!(get(&open(&store, 1)).as_deref(), Some("committed"));
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let disk = SimDisk::new();
    let _store = manual(&disk);
    let error = try_manual(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
    assert!(
        error.to_string().contains("in use by another process"),
        "{error}"
    );
}

#[test]
fn a_directory_that_has_files_but_no_manifest_is_refused() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    put(&open(&store, 1), "1");
    store.close().unwrap();
    drop(store);
    disk.remove(&Path::new(common::DIR).join("MANIFEST"))
        .unwrap();
    let error = try_manual(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("no MANIFEST"), "{error}");
}

fn set_alarm(db: &ObjectDb, due: i64) {
    db.set_alarm(Some(&AlarmRow::at(due))).unwrap();
    db.commit().unwrap().expect("a commit");
}

fn due(store: &Store, id: u8) -> Option<i64> {
    store.alarms().get(key(store, id)).map(|entry| entry.due)
}

/// Sets an alarm, moves it, takes checkpoints between, and removes it, until the disk stops.
fn move_alarm(disk: &SimDisk, moves: &[Option<i64>]) {
    let Ok(store) = try_manual(disk) else { return };
    let Ok(namespace) = store.namespace("tests") else {
        return;
    };
    let key = ObjectKey {
        namespace,
        id: [1; 32],
    };
    let Ok(db) = store.open_object(key) else {
        return;
    };
    for (step, to) in moves.iter().enumerate() {
        let row = to.map(AlarmRow::at);
        if db
            .set_alarm(row.as_ref())
            .and_then(|()| db.commit())
            .is_err()
        {
            return;
        }
        if step % 2 == 0 && store.checkpoint().is_err() {
            return;
        }
        store.write_group();
    }
}

#[test]
fn s14_moving_an_alarm_earlier_and_later_is_safe_against_a_crash_at_any_change_of_the_disk() {
    let moves = [
        Some(100),
        Some(50),
        Some(200),
        None,
        Some(70),
        Some(60),
        None,
        Some(10),
        Some(300),
    ];
    let whole = SimDisk::new();
    move_alarm(&whole, &moves);
    assert!(whole.changes() > 50, "{}", whole.changes());
    let mut seen = std::collections::BTreeSet::new();
    for stop in 0..whole.changes() {
        for seed in 0..4 {
            let disk = SimDisk::new();
            disk.stop_at(stop);
            move_alarm(&disk, &moves);
            let store = manual(&disk.crash(stop * 7 + seed));
            let row = open(&store, 1).alarm().unwrap();
            assert_eq!(
                due(&store, 1),
                row.map(|row| row.entry().due),
                "power cut at change {stop}, seed {seed}"
            );
            seen.insert(due(&store, 1));
        }
    }
    assert!(seen.len() >= 7, "{seen:?}");
}

#[test]
fn s14_the_index_is_rebuilt_without_opening_objects() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    for id in 0..20 {
        set_alarm(&open(&store, id), 1_000 + i64::from(id));
    }
    store.checkpoint().unwrap();
    for id in 0..5 {
        set_alarm(&open(&store, id), i64::from(id));
    }
    let gone = open(&store, 7);
    gone.set_alarm(None).unwrap();
    gone.commit().unwrap();
    drop(gone);
    flush(&store);
    let killed = disk.after_kill();
    let store = manual(&killed);
    killed.record_events();
    assert_eq!(store.alarms().counts().pending, 19);
    assert_eq!((due(&store, 3), due(&store, 7)), (Some(3), None));
    assert_eq!(due(&store, 12), Some(1_012));
    store.alarms().divide(1, |_| Some(0));
    assert_eq!(store.alarms().next_due(0), Some(0));
    assert_eq!(killed.take_events(), []);
    store.close().unwrap();
    // Without the log's tail, from the runs alone.
    let store = manual(&killed);
    assert_eq!(store.alarms().counts().pending, 19);
    assert_eq!((due(&store, 3), due(&store, 7)), (Some(3), None));
}

#[test]
fn s14_a_run_says_nothing_that_is_not_durable_in_the_log() {
    let disk = SimDisk::new();
    let store = threaded(&disk);
    let db = open(&store, 1);
    put_durably(&store, &db, "durable");
    disk.hold_syncs();
    let checkpoint = checkpoint_beside(&store);
    set_alarm(&db, 10);
    let runs = || disk.list(&Path::new(common::DIR).join("alarms")).unwrap();
    for _ in 0..50 {
        assert!(runs().is_empty());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    disk.release_syncs();
    checkpoint.join().unwrap().unwrap();
    drop(db);
    store.close().unwrap();
    assert_eq!(runs().len(), 1);
}

#[test]
fn s14_a_checkpoint_that_fails_leaves_its_alarms_to_the_next_one() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    set_alarm(&db, 10);
    flush(&store);
    disk.set_capacity(Some(disk.used()));
    assert_eq!(store.checkpoint().unwrap_err().kind(), ErrorKind::NoSpace);
    disk.set_capacity(None);
    store.checkpoint().unwrap();
    let store = manual(&disk.after_kill());
    assert_eq!(due(&store, 1), Some(10));
}

#[test]
fn an_alarm_that_a_savepoint_undoes_does_not_reach_the_index() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let db = open(&store, 1);
    set_alarm(&db, 10);
    db.transaction(|| {
        db.set_alarm(None)?;
        Err::<(), _>(db.exec("no SQL", ()).unwrap_err())
    })
    .unwrap_err();
    put(&db, "and something else");
    assert_eq!(due(&store, 1), Some(10));
    db.set_alarm(Some(&AlarmRow::at(20))).unwrap();
    db.rollback();
    assert_eq!(due(&store, 1), Some(10));
    db.delete_all().unwrap();
    db.commit().unwrap();
    assert_eq!((due(&store, 1), db.alarm().unwrap()), (None, None));
}
