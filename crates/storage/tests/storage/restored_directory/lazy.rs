//! Lazy restores: objects get their files when they are needed, or in the background.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use abide_storage::{
    ArchiveOptions, Disk as _, DiskOp, ErrorKind, FaultyDisk, ObjectKey, RestoreOptions,
    RestoredDirectory, Result, SimDisk, SplitMix64, Store, StoreOptions, errno, restore_directory,
};

use super::life::{Copy, Life, State, large_by, object_files};
use crate::{
    common::{DIR, flush, read_file},
    recovery_points::world::value,
};

fn restore_lazily(
    disk: &SimDisk,
    manifest: &[u8],
    options: &StoreOptions,
) -> Result<RestoredDirectory> {
    let disk = Arc::new(disk.clone());
    let how = RestoreOptions::default().lazy(true);
    restore_directory(disk, Path::new(DIR), manifest, how, options, &|_| {})
}

/// A lazily restored directory.
fn lazy(copy: &Copy, options: &StoreOptions) -> SimDisk {
    let disk = copy.disk.after_kill();
    let made = restore_lazily(&disk, &copy.manifest, options).unwrap();
    assert_eq!(made.bytes, 0);
    assert_eq!(object_files(&disk), BTreeMap::new());
    disk
}

/// Hydrates all objects.
pub(super) fn hydrate(store: &Store) {
    let mut before = 257;
    while store.stats().hydration_parts_left > 0 {
        for _ in 0..3 {
            store.run_maintenance().unwrap();
        }
        let left = store.stats().hydration_parts_left;
        assert!(left < before, "{left} parts are left");
        before = left;
    }
}

/// Returns whether a copy says that it has every object.
fn is_complete(copy: &Copy) -> bool {
    let archive = &manifest(&copy.manifest)["archive"];
    archive["lapses"] == archive["swept"]
}

fn manifest(bytes: &[u8]) -> serde_json::Value {
    let text = std::str::from_utf8(bytes).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    serde_json::from_str(body).unwrap()
}

/// The newest states of the stored objects.
pub(super) fn newest(past: &[State]) -> BTreeMap<ObjectKey, Option<String>> {
    let states = past.iter().map(|state| (state.key, state.value.clone()));
    let newest: BTreeMap<_, _> = states.collect();
    newest
        .into_iter()
        .filter(|(_, value)| value.is_some())
        .collect()
}

pub(super) fn values(life: &Life) -> BTreeMap<ObjectKey, Option<String>> {
    let stored = life.stored().into_iter();
    let values = stored.map(|key| (key, life.value(key)));
    values.filter(|(_, value)| value.is_some()).collect()
}

#[test]
fn s23_hydrated_objects_have_the_files_of_a_whole_restore() {
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::with(Duration::from_hours(6), large_by(seed));
        for _ in 0..150 {
            life.step(&mut random);
        }
        let (alarms, stored) = (life.alarms(), life.stored());
        let copy = life.copy();
        let whole = object_files(&copy.restore(&life));
        let disk = lazy(&copy, &life.options());
        life.open(&disk);
        assert_eq!(life.alarms(), alarms, "seed {seed}");
        assert_eq!(life.stored(), stored, "seed {seed}");
        for key in &stored {
            assert!(life.store.has_object(*key).unwrap(), "seed {seed}: {key}");
            let before = life.timelines.get(key).copied();
            if random.below(3) == 0 {
                life.see_timeline(*key);
                assert!(
                    life.timelines.get(key).copied() > before,
                    "seed {seed}: {key}"
                );
            }
        }
        hydrate(&life.store);
        assert_eq!(object_files(&disk), whole, "seed {seed}");
        assert_eq!(life.stored(), stored, "seed {seed}");
        assert_eq!(values(&life), newest(&life.past), "seed {seed}");
        life.store.verify_archive().unwrap();
    }
}

#[test]
fn s23_random_lives_continue_while_they_are_hydrated() {
    for seed in 0..8 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::new(Duration::from_hours(6));
        for _ in 0..100 {
            life.step(&mut random);
        }
        for round in 0..3 {
            let mut copy = life.copy();
            while !is_complete(&copy) {
                life.reopen();
                hydrate(&life.store);
                life.store.run_maintenance().unwrap();
                copy = life.copy();
            }
            let disk = lazy(&copy, &life.options());
            life.open(&disk);
            for step in 0..60 {
                life.step(&mut random);
                if random.below(6) == 0 {
                    let (stored, newest) = (life.stored(), newest(&life.past));
                    let missing = newest.keys().find(|key| !stored.contains(key));
                    let context = format!("seed {seed}, round {round}, step {step}");
                    assert_eq!(missing, None, "{context}");
                    let place = random.below(newest.len().max(1) as u64) as usize;
                    if let Some((key, value)) = newest.iter().nth(place) {
                        assert_eq!(life.value(*key), *value, "{context}: {key}");
                    }
                }
            }
            assert_eq!(
                values(&life),
                newest(&life.past),
                "seed {seed}, round {round}"
            );
            if random.below(2) == 0 {
                hydrate(&life.store);
                let files = object_files(&life.disk).into_keys();
                let mut left =
                    files.filter(|path| path.extension().is_none_or(|of| of != "sqlite"));
                assert_eq!(left.next(), None, "seed {seed}, round {round}");
                assert_eq!(
                    values(&life),
                    newest(&life.past),
                    "seed {seed}, round {round}"
                );
            }
            // Otherwise the next one is restored from a copy of a node that was hydrating.
            life.store.verify_archive().unwrap();
        }
    }
}

#[test]
fn s23_a_crash_during_hydration_loses_nothing() {
    let life = Life::small();
    let [first, second, third] = [
        life.key("First", 1),
        life.key("Second", 1),
        life.key("Third", 1),
    ];
    let large = life.key("Second", 4);
    let copy = life.copy();
    let options = life.options();
    let expected = newest(&life.past);
    let start = lazy(&copy, &options);
    let mut refused = 0;
    for stop in 0..10_000 {
        let disk = start.after_kill();
        disk.stop_at(disk.changes() + stop);
        // What was acknowledged.
        let (mut written, mut deleted, mut begun) = (false, false, 0);
        let mut work = || -> Result<()> {
            let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options.clone())?;
            begun = 1;
            let db = store.open_object(first)?;
            assert_eq!(value(&db), expected[&first]);
            db.kv_put("k", b"new")?;
            db.commit()?;
            flush(&store);
            written = store.durable() >= db.newest();
            drop(db);
            store.hydrate(large)?;
            let db = store.open_object(second)?;
            begun = 2;
            db.delete_all()?;
            db.commit()?;
            flush(&store);
            deleted = store.durable() >= db.newest();
            drop(db);
            store.checkpoint()?;
            let (mut before, mut left) = (257, 256);
            // Until the power is cut.
            while (200..before).contains(&left) {
                for _ in 0..3 {
                    store.run_maintenance()?;
                }
                (before, left) = (left, store.stats().hydration_parts_left);
            }
            store.close()
        };
        let done = work().is_ok();
        refused += u32::from(!done);
        let crashed = disk.crash(stop);
        let context = format!("power cut at change {stop}");
        let store = Store::open(Arc::new(crashed.clone()), Path::new(DIR), options.clone());
        let store = store.unwrap_or_else(|error| panic!("{context}: {error}"));
        for whole in [false, true] {
            if whole {
                hydrate(&store);
            }
            for (key, old) in &expected {
                let has = store.has_object(*key).unwrap();
                let now = store.open_object(*key).map(|db| value(&db)).unwrap();
                let new = Some("new".to_owned());
                if *key == first {
                    assert!(now == *old && !written || now == new, "{context}: {now:?}");
                } else if *key == second {
                    assert!(!deleted || now.is_none(), "{context}: {now:?}");
                    assert!(begun == 2 || now == *old, "{context}: {now:?}");
                } else {
                    assert!(has, "{context}: {key}");
                    assert_eq!(now, *old, "{context}: {key}");
                }
            }
            assert_eq!(
                store.open_object(third).map(|db| value(&db)).unwrap(),
                expected[&third]
            );
        }
        if done {
            assert!(refused > 100, "{refused}");
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn an_object_stays_cold_until_its_state_can_be_read() {
    let life = Life::small();
    let (key, new) = (life.key("First", 1), life.key("First", 2));
    let copy = life.copy();
    let disk = FaultyDisk::new(lazy(&copy, &life.options()));
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), life.options()).unwrap();
    disk.fail(&[DiskOp::Open], ".run", errno::EIO);
    for key in [key, new] {
        let error = store.open_object(key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(store.hydrate(key).unwrap_err().kind(), ErrorKind::Io);
    }
    for _ in 0..300 {
        store.run_maintenance().unwrap();
    }
    assert_eq!(store.stats().hydration_parts_left, 256);
    assert_eq!(store.stats().quarantined_objects, 0);
    disk.clear();
    assert_eq!(
        value(&store.open_object(key).unwrap()).as_deref(),
        Some("First 1")
    );
    assert_eq!(value(&store.open_object(new).unwrap()), None);
    hydrate(&store);
}

#[test]
fn an_object_that_ended_stays_ended_while_the_archive_cannot_be_written() {
    let life = Life::small();
    let key = life.key("Second", 1);
    let disk = lazy(&life.copy(), &life.options());
    let faulty = FaultyDisk::new(disk.clone());
    let store = Store::open(Arc::new(faulty.clone()), Path::new(DIR), life.options()).unwrap();
    let db = store.open_object(key).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    flush(&store);
    drop(db);
    faulty.fail(&[DiskOp::Write], ".run", errno::EIO);
    store.checkpoint().unwrap();
    assert!(!store.has_object(key).unwrap());
    store.hydrate(key).unwrap();
    hydrate(&store);
    assert!(!store.has_object(key).unwrap());
    drop(store);
    let store = Store::open(Arc::new(disk), Path::new(DIR), life.options()).unwrap();
    assert_eq!(value(&store.open_object(key).unwrap()), None);
}

#[test]
fn a_damaged_run_gives_no_earlier_state() {
    let (life, key) = Life::earlier_and_later();
    let copy = life.copy();
    let archive = Path::new(DIR).join("archive");
    let mut runs = copy.disk.list(&archive).unwrap();
    runs.sort();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let disk = lazy(&copy, &life.options());
        let path = archive.join(&run);
        let bytes = read_file(&disk, &path);
        for at in (0..bytes.len()).step_by(7) {
            let disk = disk.after_kill();
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            super::life::write_file(&disk, &path, &damaged);
            let options = life.options();
            let store = Store::open(Arc::new(disk), Path::new(DIR), options);
            // Its alarm is in the index of the runs, too.
            let Ok(store) = store else { continue };
            match store.open_object(key) {
                Ok(db) => assert_eq!(value(&db).as_deref(), Some("later"), "{run}, byte {at}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "{run}: {error}"),
            }
            let _ = store.run_maintenance();
            assert_eq!(store.stats().quarantined_objects, 0, "{run}, byte {at}");
        }
    }
}

#[test]
fn a_lazy_restore_is_refused_where_it_could_lose_a_state() {
    let mut life = Life::small();
    let copy = life.copy();
    let options = life.options();
    let how = RestoreOptions::default().lazy(true).at(life.now());
    let disk = Arc::new(copy.disk.after_kill());
    let refused = restore_directory(disk, Path::new(DIR), &copy.manifest, how, &options, &|_| {});
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Input);

    let disk = lazy(&copy, &options);
    let off = life
        .options()
        .archive(ArchiveOptions::default().enabled(false));
    let refused = Store::open(Arc::new(disk.clone()), Path::new(DIR), off.clone()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    life.open(&disk);
    hydrate(&life.store);
    life.store.close().unwrap();
    Store::open(Arc::new(disk), Path::new(DIR), off).unwrap();
}

#[test]
fn a_class_that_is_deleted_while_it_is_hydrated_stays_deleted() {
    let mut life = Life::small();
    let copy = life.copy();
    life.open(&lazy(&copy, &life.options()));
    let first = life.key("First", 1);
    assert_eq!(life.value(first).as_deref(), Some("First 1"));
    life.delete_class("First");
    hydrate(&life.store);
    let stored = life.stored();
    assert!(!stored.is_empty());
    assert!(stored.iter().all(|key| key.namespace != first.namespace));
    let again = life.key("First", 0);
    assert_ne!(again.namespace, first.namespace);
    assert!(!life.store.has_object(again).unwrap());
    assert_eq!(life.value(again), None);
}

#[test]
fn cold_objects_count_toward_the_size_of_what_is_stored() {
    let mut life = Life::small();
    let limited = life.options().max_bytes(1 << 30);
    life.reopen();
    life.store.close().unwrap();
    let open = |disk: &SimDisk| {
        Store::open(Arc::new(disk.clone()), Path::new(DIR), limited.clone()).unwrap()
    };
    let whole = open(&life.disk);
    let bytes = whole.stats().stored_bytes;
    assert!(bytes > Some(100_000));
    drop(whole);
    life.reopen();
    let copy = life.copy();
    let store = open(&lazy(&copy, &life.options()));
    assert_eq!(store.stats().stored_bytes, bytes);
    drop(store.open_object(life.key("First", 1)).unwrap());
    assert_eq!(store.stats().stored_bytes, bytes);
    hydrate(&store);
    assert_eq!(store.stats().stored_bytes, bytes);
}

#[test]
fn hydration_in_the_background_keeps_to_its_rate() {
    let life = Life::small();
    let (first, third) = (life.key("First", 1), life.key("Third", 1));
    let copy = life.copy();
    let disk = lazy(&copy, &life.options());
    // The file of one object takes a day.
    let archive = ArchiveOptions::default().hydration_rate(1);
    let options = life.options().manual(false).archive(archive);
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    while store.stats().hydrated_objects == 0 {
        std::thread::yield_now();
    }
    let left = store.stats().hydration_parts_left;
    for key in [first, third] {
        assert!(value(&store.open_object(key).unwrap()).is_some());
    }
    assert_eq!(store.stats().hydration_parts_left, left);
    assert!(left > 0);
    store.close().unwrap();
}

#[test]
fn threads_hydrate_objects_while_others_open_them() {
    let disk = SimDisk::new();
    let store = crate::common::manual(&disk);
    let namespace = store.namespace("tests").unwrap();
    let key = |number: u16| {
        let mut id = [0; 32];
        id[..8].copy_from_slice(
            &u64::from(number)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_be_bytes(),
        );
        ObjectKey { namespace, id }
    };
    let objects = 3000;
    for number in 0..objects {
        let db = store.open_object(key(number)).unwrap();
        db.kv_put("k", number.to_string().as_bytes()).unwrap();
        db.commit().unwrap();
        flush(&store);
    }
    store.close().unwrap();
    let manifest = read_file(&disk, &Path::new(DIR).join("MANIFEST"));
    let archive = Path::new(DIR).join("archive");
    let target = SimDisk::new();
    target.create_dir_all(&archive).unwrap();
    for name in disk.list(&archive).unwrap() {
        let bytes = read_file(&disk, &archive.join(&name));
        super::life::write_file(&target, &archive.join(&name), &bytes);
    }
    let options = StoreOptions::small().cores(std::num::NonZero::new(8));
    restore_lazily(&target, &manifest, &options).unwrap();
    let store = Store::open(Arc::new(target.clone()), Path::new(DIR), options.clone()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                let mut random = SplitMix64::new(thread);
                for _ in 0..300 {
                    // One connection at a time: each thread has its own objects, and all hydrate the same.
                    let number = random.below(u64::from(objects) / 4) as u16 * 4;
                    store.hydrate(key(number)).unwrap();
                    let own = number + thread as u16;
                    let db = store.open_object(key(own)).unwrap();
                    let text = value(&db).unwrap();
                    assert!(text == own.to_string() || text == "new");
                    db.kv_put("k", b"new").unwrap();
                    let lsn = db.commit().unwrap().unwrap_or_default();
                    while store.durable() < lsn {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    while store.stats().hydration_parts_left > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    store.close().unwrap();
    let files = object_files(&target);
    assert_eq!(files.len(), usize::from(objects));
    let store = Store::open(Arc::new(target), Path::new(DIR), options).unwrap();
    assert_eq!(store.stats().quarantined_objects, 0);
    for number in 0..objects {
        let text = value(&store.open_object(key(number)).unwrap()).unwrap();
        assert!(text == number.to_string() || text == "new");
    }
}

#[test]
fn no_part_ends_while_another_thread_writes_a_file() {
    let life = Life::small();
    let key = life.key("First", 1);
    let copy = life.copy();
    let disk = FaultyDisk::new(lazy(&copy, &life.options()));
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), life.options()).unwrap();
    disk.hold(&[DiskOp::Write], "/First/33/");
    let writing = {
        let store = store.clone();
        std::thread::spawn(move || store.hydrate(key))
    };
    disk.wait_until_held();
    let left = 256 - u32::from(key.id[0]);
    let others = {
        let store = store.clone();
        std::thread::spawn(move || {
            for _ in 0..600 {
                store.run_maintenance().unwrap();
            }
        })
    };
    while !others.is_finished() {
        // Its part does not end, nor do those after it.
        assert!(store.stats().hydration_parts_left >= left);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(store.stats().hydration_parts_left, left);
    disk.clear();
    writing.join().unwrap().unwrap();
    hydrate(&store);
    assert_eq!(
        value(&store.open_object(key).unwrap()).as_deref(),
        Some("First 1")
    );
}

#[test]
fn no_runs_are_merged_until_all_objects_have_files() {
    let mut life = Life::new(Duration::from_mins(1));
    for number in 0..12 {
        let key = life.key("First", number % 3);
        life.put(key, &number.to_string());
        life.checkpoint();
    }
    let copy = life.copy();
    let disk = lazy(&copy, &life.options());
    // All of it has expired.
    life.pass(3_600_000);
    life.open(&disk);
    let runs = || life.store.stats().archive_runs;
    let before = runs();
    assert!(before >= 8, "{before}");
    while life.store.stats().hydration_parts_left > 1 {
        life.store.run_maintenance().unwrap();
        assert_eq!(runs(), before);
    }
    hydrate(&life.store);
    life.store.run_maintenance().unwrap();
    assert_eq!(runs(), 1);
    assert_eq!(values(&life), newest(&life.past));
}

#[test]
fn a_lost_file_is_not_replaced_by_an_earlier_state() {
    let mut life = Life::small();
    let key = life.key("First", 1);
    let copy = life.copy();
    let disk = lazy(&copy, &life.options());
    life.open(&disk);
    life.put(key, "since");
    life.checkpoint();
    let path = life.store.object_path(key).unwrap();
    disk.remove(&path).unwrap();
    assert!(!life.store.has_object(key).unwrap());
    hydrate(&life.store);
    assert!(!object_files(&disk).contains_key(&path));
}

/// A manifest without the oldest run, which does not know that it is missing.
fn without_the_oldest_run(bytes: &[u8]) -> Vec<u8> {
    let mut body = manifest(bytes);
    let runs = body["archive"]["runs"].as_array_mut().unwrap();
    runs.remove(0);
    let body = body.to_string();
    let crc = crc32c::crc32c(body.as_bytes());
    format!("abide manifest 1 {crc:08x}\n{body}").into_bytes()
}

#[test]
fn an_object_without_a_whole_state_stays_quarantined() {
    let mut life = Life::new(Duration::from_hours(24));
    let (key, other) = (life.key("First", 1), life.key("First", 2));
    life.put(key, "only in the oldest run");
    life.checkpoint();
    life.put(other, "whole");
    let db = life.store.open_object(key).unwrap();
    db.kv_put("more", b"without a base").unwrap();
    db.commit().unwrap();
    drop(db);
    let mut copy = life.copy();
    copy.manifest = without_the_oldest_run(&copy.manifest);
    for on_demand in [false, true] {
        let disk = lazy(&copy, &life.options());
        life.open(&disk);
        if on_demand {
            let refused = life.store.open_object(key).unwrap_err();
            assert!(refused.to_string().contains("is not complete"), "{refused}");
        }
        hydrate(&life.store);
        assert_eq!(life.store.stats().quarantined_objects, 1);
        // No checkpoint lists it.
        life.reopen();
        assert!(life.store.has_object(key).unwrap());
        let refused = life.store.open_object(key).unwrap_err();
        assert!(refused.to_string().contains("is not complete"), "{refused}");
        assert_eq!(life.value(other).as_deref(), Some("whole"));
    }
}

#[test]
fn a_file_renamed_before_a_kill_is_synced_before_its_part_ends() {
    let mut life = Life::new(Duration::from_hours(24));
    // Nothing else of it is synced.
    let key = life.key("First", 1);
    life.put(key, "alone");
    let copy = life.copy();
    let sim = lazy(&copy, &life.options());
    let disk = FaultyDisk::new(sim.clone());
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), life.options()).unwrap();
    disk.fail(&[DiskOp::SyncDir], "/33", errno::EIO);
    let failed = store.hydrate(key).unwrap_err();
    assert!(failed.to_string().contains("syncing"), "{failed}");
    assert!(sim.list(&Path::new(DIR).join("objects/First/33")).unwrap()[0].ends_with(".sqlite"));
    assert!(store.open_object(key).is_err() || store.failed());
    drop(store);
    // As after a kill at that moment: the disk still has all that was not synced.
    let open = |disk: &SimDisk| Store::open(Arc::new(disk.clone()), Path::new(DIR), life.options());
    let store = open(&sim).unwrap();
    hydrate(&store);
    for seed in 0..20 {
        let store = open(&sim.crash(seed)).unwrap();
        let found = value(&store.open_object(key).unwrap());
        assert_eq!(found.as_deref(), Some("alone"), "seed {seed}");
    }
}
