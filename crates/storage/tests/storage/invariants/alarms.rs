//! The index of alarms agrees with the objects' rows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use abide_storage::{
    AlarmRow, ArchiveOptions, Disk as _, ErrorKind, ObjectKey, OpenMode, SimDisk, SplitMix64,
    Store, StoreOptions,
};

use crate::{
    common::{DIR, flush, key, manual, open, read_file, threaded, try_manual},
    invariants::acts::{checkpoint_beside, due, put, put_durably, set_alarm},
};

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
fn s14_moving_an_alarm_survives_a_crash_at_any_change_of_the_disk() {
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
    let runs = || disk.list(&Path::new(DIR).join("alarms")).unwrap();
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

const OBJECTS: u8 = 6;

/// A disk after a kill: alarms in a first run, changes of them in a second, and others in the log's tail.
fn with_runs() -> SimDisk {
    let disk = SimDisk::new();
    let store = manual(&disk);
    let clear = |id| {
        let db = open(&store, id);
        db.set_alarm(None).unwrap();
        db.commit().unwrap();
    };
    for id in 0..OBJECTS {
        set_alarm(&open(&store, id), 1_000 + i64::from(id));
    }
    put(&open(&store, OBJECTS), "it has no alarm");
    store.checkpoint().unwrap();
    set_alarm(&open(&store, 1), 10);
    clear(2);
    store.checkpoint().unwrap();
    set_alarm(&open(&store, 3), 5);
    set_alarm(&open(&store, 2), 7_000);
    clear(4);
    flush(&store);
    disk.after_kill()
}

fn runs(disk: &SimDisk) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join("alarms");
    let mut names = disk.list(&dir).unwrap();
    names.retain(|name| {
        Path::new(name)
            .extension()
            .is_some_and(|kind| kind == "run")
    });
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

/// The index says of each object what its row says.
fn assert_agrees(store: &Store, what: &str) {
    for id in 0..=OBJECTS {
        let row = open(store, id).alarm().unwrap();
        let known = store.alarms().get(key(store, id));
        assert_eq!(known, row.map(|row| row.entry()), "{id}: {what}");
    }
    let dues: Vec<_> = (0..5).map(|id| due(store, id)).collect();
    let expected = [Some(1_000), Some(10), Some(7_000), Some(5), None];
    assert_eq!(dues, expected, "{what}");
    assert_eq!(store.alarms().counts().pending, 5, "{what}");
}

#[test]
fn s14_an_index_damaged_at_any_byte_is_rebuilt_from_the_rows() {
    let whole = with_runs();
    let runs = runs(&whole);
    assert_eq!(runs.len(), 2);
    assert_agrees(&manual(&whole.after_kill()), "undamaged");
    for run in &runs {
        let length = read_file(&whole, run).len() as u64;
        for offset in 0..length {
            let disk = whole.after_kill();
            disk.flip(run, offset);
            let store = manual(&disk);
            assert_agrees(&store, &format!("{} at {offset}", run.display()));
        }
    }
}

#[test]
fn s14_an_index_with_a_missing_or_a_short_run_is_rebuilt_from_the_rows() {
    let whole = with_runs();
    for run in runs(&whole) {
        for keep in [None, Some(0), Some(20), Some(48), Some(60)] {
            let disk = whole.after_kill();
            match keep {
                None => disk.remove(&run).unwrap(),
                Some(bytes) => {
                    let file = disk.open(&run, OpenMode::Existing).unwrap();
                    file.set_len(bytes).unwrap();
                }
            }
            let store = manual(&disk);
            assert_agrees(&store, &format!("{} to {keep:?}", run.display()));
        }
    }
}

#[test]
fn s14_a_checkpoint_saves_a_rebuilt_index_and_keeps_the_damaged_run() {
    let disk = with_runs();
    let run = &runs(&disk)[1];
    disk.flip(run, 50);
    let damaged = read_file(&disk, run);
    let store = manual(&disk);
    let aside = run.with_extension("run.damaged");
    assert_eq!(read_file(&disk, &aside), damaged);
    // Nothing has been saved yet: another start finds the run missing.
    let again = disk.after_kill();
    assert_agrees(&manual(&again), "after a kill before the checkpoint");
    store.checkpoint().unwrap();
    assert_eq!(runs(&disk).len(), 1, "one that says everything");
    assert_eq!(read_file(&disk, &aside), damaged);
    drop(store);
    let saved = disk.after_kill();
    // From the run, since no row can be read.
    let objects = manual(&saved.after_kill());
    for id in 0..=OBJECTS {
        saved
            .remove(&objects.object_path(key(&objects, id)).unwrap())
            .unwrap();
    }
    let store = manual(&saved);
    assert_eq!(store.alarms().counts().pending, 5);
}

#[test]
fn s14_a_rebuild_survives_a_crash_at_any_change_of_the_disk() {
    let damaged = with_runs();
    damaged.flip(&runs(&damaged)[0], 100);
    let life = |disk: &SimDisk| {
        if let Ok(store) = try_manual(disk) {
            let _ = store.checkpoint();
        }
    };
    let whole = damaged.after_kill();
    let before = whole.changes();
    life(&whole);
    let changes = whole.changes() - before;
    assert!(changes > 5, "{changes}");
    for stop in 0..=changes {
        for seed in 0..4 {
            let disk = damaged.after_kill();
            disk.stop_at(disk.changes() + stop);
            life(&disk);
            let store = manual(&disk.crash(stop * 5 + seed));
            assert_agrees(&store, &format!("power cut at change {stop}, seed {seed}"));
        }
    }
}

#[test]
fn a_rebuild_passes_over_an_object_that_is_damaged_itself() {
    let disk = with_runs();
    let path = {
        let store = manual(&disk.after_kill());
        store.object_path(key(&store, 0)).unwrap()
    };
    disk.flip(&path, 0);
    disk.remove(&runs(&disk)[0]).unwrap();
    let store = manual(&disk);
    assert_eq!((due(&store, 0), due(&store, 1)), (None, Some(10)));
    assert_eq!(store.alarms().counts().pending, 4);
}

/// Random lives with alarms, after which the saved index is damaged.
#[test]
fn s14_an_index_rebuilt_from_the_archive_equals_the_one_before() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let mut disk = SimDisk::new();
        let mut store = manual(&disk);
        for _ in 0..60 {
            let db = open(&store, random.below(12) as u8 * 21);
            match random.below(8) {
                0..4 => {
                    let due = random.below(1_000).cast_signed() + 1;
                    let row = AlarmRow {
                        attempts: random.below(3) as u32,
                        ..AlarmRow::at(due)
                    };
                    db.set_alarm(Some(&row)).unwrap();
                }
                4 => db.set_alarm(None).unwrap(),
                5 => db.kv_put("k", &[1; 5_000]).unwrap(),
                6 => db.delete_all().unwrap(),
                _ => {}
            }
            db.commit().unwrap();
            drop(db);
            flush(&store);
            match random.below(10) {
                0..3 => store.checkpoint().unwrap(),
                3 => store.run_maintenance().unwrap(),
                4 => {
                    disk = disk.after_kill();
                    store = manual(&disk);
                }
                _ => {}
            }
        }
        if seed % 2 == 0 {
            store.checkpoint().unwrap();
        }
        let alarms = |store: &Store| -> Vec<_> {
            let key = |id| key(store, id);
            let known = (0..12).map(|id| store.alarms().get(key(id * 21)));
            known.collect()
        };
        let before = alarms(&store);
        let disk = disk.after_kill();
        // Without a run there is nothing to rebuild.
        let Some(run) = runs(&disk).first().cloned() else {
            continue;
        };
        disk.remove(&run).unwrap();
        assert_eq!(alarms(&manual(&disk)), before, "seed {seed}");
    }
}

#[test]
fn a_rebuild_reads_no_rows_of_objects_that_the_archive_knows() {
    let disk = SimDisk::new();
    let store = manual(&disk);
    for id in 0..4 {
        set_alarm(&open(&store, id), i64::from(id) + 5);
    }
    flush(&store);
    store.checkpoint().unwrap();
    let path = store.object_path(key(&store, 2)).unwrap();
    drop(store);
    let disk = disk.after_kill();
    disk.remove(&runs(&disk)[0]).unwrap();
    // Behind the header of SQLite's file, so that the rows cannot be read.
    for offset in 100..4_096 {
        disk.flip(&path, offset);
    }
    let store = manual(&disk);
    assert_eq!(due(&store, 2), Some(7));
    assert_eq!(store.alarms().counts().pending, 4);
}

#[test]
fn a_rebuild_reads_the_rows_of_objects_that_are_newer_than_the_archive() {
    let disk = SimDisk::new();
    let reopen = |archive: bool| {
        let options = StoreOptions::small()
            .manual(true)
            .archive(ArchiveOptions::default().enabled(archive));
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    };
    let set = |store: &Store, due| {
        set_alarm(&open(store, 1), due);
        flush(store);
        store.checkpoint().unwrap();
    };
    let store = reopen(true);
    set(&store, 9);
    drop(store);
    let store = reopen(false);
    set(&store, 5);
    drop(store);
    disk.remove(&runs(&disk)[0]).unwrap();
    assert_eq!(due(&reopen(true), 1), Some(5));
}
