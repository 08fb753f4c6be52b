//! Large objects after a lazy restore: they are read and written before they have files.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use abide_storage::{
    Bookmark, Disk, DiskFile, DiskOp, ErrorKind, FaultyDisk, ListOptions, ObjectDb, ObjectKey,
    OpenMode, RemoteRuns, RestoreOptions, Result, SimDisk, SplitMix64, Store, StoreOptions, errno,
    restore_directory,
};

use super::life::{object_files, write_file};
use crate::{
    common::{DIR, flush, read_file},
    recovery_points::world::noise,
};

const KEYS: u64 = 60;

fn lives() -> u64 {
    let seeds = std::env::var("ABIDE_ARCHIVE_SEEDS");
    seeds.map_or(10, |seeds| 4 * seeds.parse::<u64>().unwrap())
}

pub(super) fn options() -> StoreOptions {
    StoreOptions::small()
        .manual(true)
        .checkpoint_bytes(200 << 10)
        .large_restore_bytes(100 << 10)
}

fn open(disk: &SimDisk) -> Store {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options()).unwrap()
}

pub(super) fn key(store: &Store, id: u8) -> ObjectKey {
    ObjectKey {
        namespace: store.namespace("tests").unwrap(),
        // Not the first, which gets its file when the store is opened.
        id: [40 + 40 * id; 32],
    }
}

/// All values of an object.
type Values = BTreeMap<String, Vec<u8>>;

fn values(db: &ObjectDb) -> Values {
    let all = db.kv_list(&ListOptions::default()).unwrap();
    all.into_iter().collect()
}

fn archive() -> PathBuf {
    Path::new(DIR).join("archive")
}

/// A store elsewhere that has every run that there ever was.
pub(super) struct Far(pub(super) SimDisk);

impl RemoteRuns for Far {
    fn open(&self, number: u64, _: &str) -> io::Result<Arc<dyn DiskFile>> {
        let run = archive().join(format!("{number:016x}.run"));
        self.0.open(&run, OpenMode::Existing)
    }
}

/// Closes a store and restores its directory lazily on another disk. Every object with a map of its pages is large.
fn lose(store: Store, disk: &SimDisk) -> SimDisk {
    lose_and_leave(store, disk, &SimDisk::new(), |_| false)
}

/// The same, and leaves these runs elsewhere.
pub(super) fn lose_and_leave(
    store: Store,
    disk: &SimDisk,
    far: &SimDisk,
    mut is_left: impl FnMut(u64) -> bool,
) -> SimDisk {
    store.close().unwrap();
    drop(store);
    let restored = SimDisk::new();
    for of in [far, &restored] {
        of.create_dir_all(&archive()).unwrap();
    }
    let runs = |disk: &SimDisk| {
        let names = disk.list(&archive()).unwrap();
        let is_run = |name: &String| name.strip_suffix(".run").is_some();
        names.into_iter().filter(is_run).collect::<Vec<_>>()
    };
    for name in runs(disk) {
        let run = archive().join(&name);
        write_file(far, &run, &read_file(disk, &run));
    }
    let mut left = BTreeMap::new();
    for name in runs(far) {
        let number = u64::from_str_radix(name.strip_suffix(".run").unwrap(), 16).unwrap();
        if is_left(number) {
            left.insert(number, name);
        } else {
            let run = archive().join(&name);
            write_file(&restored, &run, &read_file(far, &run));
        }
    }
    restored.barrier(&archive()).unwrap().wait().unwrap();
    let manifest = read_file(disk, &Path::new(DIR).join("MANIFEST"));
    let how = RestoreOptions::default()
        .lazy(true)
        .large_bytes(1)
        .remote(left);
    let (to, options) = (Arc::new(restored.clone()), with_runs_of(far));
    restore_directory(to, Path::new(DIR), &manifest, how, &options, &|_| {}).unwrap();
    assert_eq!(object_files(&restored), BTreeMap::new());
    restored
}

fn with_runs_of(far: &SimDisk) -> StoreOptions {
    let far: Arc<dyn RemoteRuns> = Arc::new(Far(far.clone()));
    options().remote_runs(Some(far))
}

/// Writes large values until a snapshot of the object is in the archive, and a few small ones after that.
fn write_large(store: &Store, key: ObjectKey, model: &mut Values) {
    let db = store.open_object(key).unwrap();
    let mut put = |name: String, value: Vec<u8>| {
        db.kv_put(&name, &value).unwrap();
        db.commit().unwrap();
        flush(store);
        model.insert(name, value);
    };
    for round in 0..3 {
        for number in 0..KEYS {
            put(format!("k{number:02}"), noise(round * 1000 + number, 6000));
        }
        store.checkpoint().unwrap();
        store.run_maintenance().unwrap();
    }
    for number in 0..5 {
        put(format!("k{:02}", number * 7), noise(number, 100));
    }
}

/// A lazily restored directory with one large object, and what is in that.
fn large() -> (SimDisk, Values) {
    let (disk, mut model) = (SimDisk::new(), Values::new());
    let store = open(&disk);
    write_large(&store, key(&store, 1), &mut model);
    (lose(store, &disk), model)
}

fn hydrate(store: &Store) {
    for _ in 0..2000 {
        if store.stats().hydration_parts_left == 0 {
            return;
        }
        store.run_maintenance().unwrap();
    }
    panic!("{} parts are left", store.stats().hydration_parts_left);
}

#[test]
fn s23_a_large_object_is_read_and_written_before_it_has_a_file() {
    let (disk, mut model) = large();
    let store = open(&disk);
    let key = key(&store, 1);
    assert_eq!(store.large_cold_objects(), [key]);
    let db = store.open_object(key).unwrap();
    assert_eq!(values(&db), model);
    assert_eq!(object_files(&disk), BTreeMap::new());
    db.kv_put("k03", b"new").unwrap();
    db.commit().unwrap();
    flush(&store);
    model.insert("k03".to_owned(), b"new".to_vec());
    assert_eq!(values(&db), model);
    assert_eq!(object_files(&disk), BTreeMap::new());
    drop(db);

    // After a kill the log has the commit, and the archive the rest.
    let disk = disk.after_kill();
    let store = open(&disk);
    assert_eq!(store.large_cold_objects(), [key]);
    let db = store.open_object(key).unwrap();
    assert_eq!(values(&db), model);
    store.checkpoint().unwrap();
    assert_eq!(object_files(&disk).len(), 1);
    assert_eq!(store.large_cold_objects(), []);
    assert_eq!(values(&db), model);
    db.kv_put("k04", b"newer").unwrap();
    db.commit().unwrap();
    flush(&store);
    model.insert("k04".to_owned(), b"newer".to_vec());
    store.checkpoint().unwrap();
    assert_eq!(values(&db), model);
    drop(db);
    hydrate(&store);
    let disk = disk.after_kill();
    let store = open(&disk);
    assert_eq!(values(&store.open_object(key).unwrap()), model);
}

/// Sets these keys to 5,000 bytes each, a commit for each, and archives them.
fn put_and_archive(store: &Store, key: ObjectKey, names: Range<u64>, model: &mut Values) {
    let db = store.open_object(key).unwrap();
    for number in names {
        let (name, value) = (format!("k{number:03}"), noise(number, 5000));
        db.kv_put(&name, &value).unwrap();
        db.commit().unwrap();
        flush(store);
        model.insert(name, value);
    }
    drop(db);
    store.checkpoint().unwrap();
}

fn delete_and_archive(store: &Store, key: ObjectKey, model: &mut Values) {
    let db = store.open_object(key).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    flush(store);
    drop(db);
    store.checkpoint().unwrap();
    model.clear();
}

#[test]
fn s23_a_large_object_that_was_small_before_is_read_page_by_page() {
    for was_large_before in [false, true] {
        let (disk, mut model) = (SimDisk::new(), Values::new());
        let store = open(&disk);
        let key = key(&store, 1);
        if was_large_before {
            put_and_archive(&store, key, 0..100, &mut model);
            delete_and_archive(&store, key, &mut model);
        }
        put_and_archive(&store, key, 0..10, &mut model);
        put_and_archive(&store, key, 10..100, &mut model);
        let disk = lose(store, &disk);
        let store = open(&disk);
        assert_eq!(store.large_cold_objects(), [key]);
        assert_eq!(values(&store.open_object(key).unwrap()), model);
        assert_eq!(object_files(&disk), BTreeMap::new());
    }
}

#[test]
fn s23_a_large_object_whose_pages_cannot_be_read_alone_is_read_whole() {
    let (disk, mut model) = (SimDisk::new(), Values::new());
    let store = open(&disk);
    let key = key(&store, 1);
    put_and_archive(&store, key, 0..40, &mut model);
    let before = store.open_object(key).unwrap().bookmark();
    put_and_archive(&store, key, 40..41, &mut Values::new());
    // The run with its new state has no map: it is small.
    store.restore(key, &before).unwrap();
    put_and_archive(&store, key, 50..51, &mut model);
    put_and_archive(&store, key, 100..200, &mut model);
    let disk = lose(store, &disk);
    let store = open(&disk);
    let db = store.open_object(key).unwrap();
    let newest = db.kv_get("k199").unwrap();
    assert_eq!(newest.as_ref(), model.get("k199"));
    assert_eq!(object_files(&disk), BTreeMap::new());
    assert_eq!(values(&db), model);
    assert_eq!(object_files(&disk), BTreeMap::new());
    db.kv_put("k199", b"new").unwrap();
    db.commit().unwrap();
    flush(&store);
    model.insert("k199".to_owned(), b"new".to_vec());
    store.checkpoint().unwrap();
    assert_eq!(values(&db), model);
    assert_eq!(object_files(&disk).len(), 1);
}

#[test]
fn s23_an_open_large_object_continues_with_its_file() {
    let (disk, model) = large();
    let store = open(&disk);
    let key = key(&store, 1);
    let db = store.open_object(key).unwrap();
    let some = db.kv_get("k01").unwrap();
    hydrate(&store);
    assert_eq!(object_files(&disk).len(), 1);
    assert_eq!(some.as_ref(), model.get("k01"));
    assert_eq!(values(&db), model);
    db.kv_put("k02", b"new").unwrap();
    db.commit().unwrap();
    flush(&store);
    store.checkpoint().unwrap();
    assert_eq!(db.kv_get("k02").unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn s23_hydrated_large_objects_equal_those_that_were_read_page_by_page() {
    let (disk, _) = large();
    let store = open(&disk);
    let key = key(&store, 1);
    let by_pages = store.open_object(key).unwrap().bookmark();
    let database = |store: &Store, at: &Bookmark| {
        let database = store.database_at(key, at).unwrap();
        let mut bytes = vec![0; usize::try_from(database.len()).unwrap()];
        database.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let bytes = database(&store, &by_pages);
    hydrate(&store);
    let (_, file) = object_files(&disk).pop_first().unwrap();
    // The commit number is in the header of the file alone.
    assert_eq!(file.len(), bytes.len());
    assert_eq!(file[4096..], bytes[4096..]);
    assert_eq!(store.open_object(key).unwrap().bookmark(), by_pages);
}

#[test]
fn s23_a_replacement_without_a_commit_is_no_file_of_a_large_object() {
    let (disk, model) = large();
    let store = open(&disk);
    let key = key(&store, 1);
    // As while a large restore is being prepared.
    let hex = hex::encode(key.id);
    let dir = Path::new(DIR).join("objects/tests").join(&hex[..2]);
    disk.create_dir_all(&dir).unwrap();
    write_file(
        &disk,
        &dir.join(format!("{hex}.sqlite.next-00000007")),
        b"x",
    );
    hydrate(&store);
    assert_eq!(object_files(&disk).len(), 2);
    assert_eq!(values(&store.open_object(key).unwrap()), model);
}

#[test]
fn s23_hydration_never_replaces_the_file_of_a_large_object() {
    let (disk, _) = large();
    let faulty = FaultyDisk::new(disk.clone());
    let store = Store::open(Arc::new(faulty.clone()), Path::new(DIR), options()).unwrap();
    let hex = hex::encode(key(&store, 1).id);
    let file = format!("objects/tests/{}/{hex}.sqlite", &hex[..2]);
    let file = Path::new(DIR).join(file);
    faulty.hold(&[DiskOp::Write], ".hydrating");
    std::thread::scope(|scope| {
        let hydrating = scope.spawn(|| hydrate(&store));
        faulty.wait_until_held();
        // As the restore of a quarantined object leaves it.
        write_file(&disk, &file, b"later");
        faulty.clear();
        hydrating.join().unwrap();
    });
    assert_eq!(read_file(&disk, &file), b"later");
    assert_eq!(object_files(&disk).len(), 1);
}

#[test]
fn an_archive_that_cannot_be_read_quarantines_no_large_object() {
    let (disk, mut model) = large();
    let faulty = FaultyDisk::new(disk);
    let store = Store::open(Arc::new(faulty.clone()), Path::new(DIR), options()).unwrap();
    let key = key(&store, 1);
    let db = store.open_object(key).unwrap();
    db.kv_put("k00", b"new").unwrap();
    db.commit().unwrap();
    flush(&store);
    model.insert("k00".to_owned(), b"new".to_vec());
    faulty.fail(&[DiskOp::Open, DiskOp::Read], ".run", errno::EIO);
    assert_eq!(store.large_cold_objects(), [key], "it may be cold");
    for _ in 0..8 {
        let error = store.checkpoint().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
    assert_eq!(store.stats().quarantined_objects, 0);
    faulty.clear();
    store.checkpoint().unwrap();
    assert_eq!(values(&db), model);
    assert_eq!(store.stats().quarantined_objects, 0);
}

#[test]
fn a_damaged_archive_costs_one_large_object_and_not_the_node() {
    let (disk, _) = large();
    let store = open(&disk);
    let (key, other) = (key(&store, 1), key(&store, 2));
    let db = store.open_object(key).unwrap();
    db.kv_put("k00", b"new").unwrap();
    db.commit().unwrap();
    flush(&store);
    for run in disk.list(&archive()).unwrap() {
        let file = disk.open(&archive().join(run), OpenMode::Existing).unwrap();
        let middle = file.len().unwrap() / 2;
        file.write_at(&[0xa5; 4096], middle).unwrap();
    }
    for number in 0..20_u8 {
        let db = store.open_object(other).unwrap();
        db.kv_put("k", &[number]).unwrap();
        db.commit().unwrap();
        flush(&store);
        let _ = store.checkpoint();
    }
    assert_eq!(store.stats().quarantined_objects, 1);
    drop(db);
    let refused = store.open_object(key).map(drop).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged, "{refused}");
    let store = open(&disk.after_kill());
    let kept = store.open_object(other).unwrap().kv_get("k").unwrap();
    assert_eq!(kept, Some(vec![19]));
    assert_eq!(store.stats().quarantined_objects, 1);
}

#[test]
fn s23_a_deleted_large_object_stays_deleted_and_begins_anew() {
    let (disk, _) = large();
    let store = open(&disk);
    let key = key(&store, 1);
    let db = store.open_object(key).unwrap();
    db.delete_all().unwrap();
    db.commit().unwrap();
    flush(&store);
    drop(db);
    store.checkpoint().unwrap();
    assert!(!store.has_object(key).unwrap());
    let db = store.open_object(key).unwrap();
    assert_eq!(values(&db), Values::new());
    db.kv_put("k", b"v").unwrap();
    db.commit().unwrap();
    flush(&store);
    drop(db);
    store.checkpoint().unwrap();
    hydrate(&store);
    let store = open(&disk.after_kill());
    let model = Values::from([("k".to_owned(), b"v".to_vec())]);
    assert_eq!(values(&store.open_object(key).unwrap()), model);
}

#[test]
fn s23_a_large_object_restored_after_its_deletion_is_read_page_by_page() {
    let (disk, mut model) = (SimDisk::new(), Values::new());
    let store = open(&disk);
    let key = key(&store, 1);
    write_large(&store, key, &mut model);
    let db = store.open_object(key).unwrap();
    let bookmark = db.bookmark();
    db.delete_all().unwrap();
    db.commit().unwrap();
    flush(&store);
    drop(db);
    store.checkpoint().unwrap();
    store.restore(key, &bookmark).unwrap();
    store.checkpoint().unwrap();
    let disk = lose(store, &disk);
    let store = open(&disk);
    assert_eq!(values(&store.open_object(key).unwrap()), model);
    assert_eq!(object_files(&disk), BTreeMap::new());
}

#[test]
fn a_flipped_byte_is_never_a_wrong_page_of_a_large_object() {
    let (disk, model) = large();
    let mut found = 0;
    for run in disk.list(&archive()).unwrap() {
        let path = archive().join(&run);
        let bytes = read_file(&disk, &path);
        for at in (0..bytes.len())
            .step_by(997)
            .chain(bytes.len() - 1500..bytes.len())
        {
            let disk = disk.after_kill();
            let file = disk.open(&path, OpenMode::Existing).unwrap();
            file.write_at(&[bytes[at] ^ 4], at as u64).unwrap();
            let Ok(store) = Store::open(Arc::new(disk.clone()), Path::new(DIR), options()) else {
                found += 1;
                continue;
            };
            let read = || -> Result<Values> {
                let db = store.open_object(key(&store, 1))?;
                let all = db.kv_list(&ListOptions::default())?;
                Ok(all.into_iter().collect())
            };
            match read() {
                Ok(read) => assert_eq!(read, model, "{run}: {at}"),
                Err(_) => found += 1,
            }
            assert_eq!(store.stats().quarantined_objects, 0, "{run}: {at}");
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
fn s23_a_power_cut_while_a_large_object_gets_its_file_loses_nothing() {
    let (start, model) = large();
    let mut refused = 0;
    for stop in 0..10_000 {
        let disk = start.after_kill();
        disk.stop_at(disk.changes() + stop);
        let mut acknowledged = 0;
        let mut work = || -> Result<()> {
            let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options())?;
            let db = store.open_object(key(&store, 1))?;
            for number in 1..4_u8 {
                db.kv_put("k05", &[number])?;
                db.commit()?;
                flush(&store);
                if store.durable() >= db.newest() {
                    acknowledged = number;
                }
                if number > 1 {
                    store.checkpoint()?;
                }
            }
            drop(db);
            store.close()
        };
        let done = work().is_ok();
        refused += u32::from(!done);
        let store = open(&disk.crash(stop));
        for whole in [false, true] {
            if whole {
                hydrate(&store);
            }
            let mut now = values(&store.open_object(key(&store, 1)).unwrap());
            let context = format!("power cut at change {stop}");
            let mut expected = model.clone();
            let (old, new) = (expected.remove("k05"), now.remove("k05"));
            assert_eq!(now, expected, "{context}");
            let number = match new {
                new if new == old => 0,
                new => new.unwrap()[0],
            };
            assert!(
                number >= acknowledged,
                "{context}: {number} < {acknowledged}"
            );
        }
        if done {
            assert!(refused > 30, "{refused}");
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn s23_random_lives_of_large_objects_are_restored_lazily_again_and_again() {
    let (mut lost, mut read_without_file, mut restored) = (0, 0, 0);
    for seed in 0..lives() {
        let mut random = SplitMix64::new(seed);
        let (mut disk, far) = (SimDisk::new(), SimDisk::new());
        let open = |disk: &SimDisk| {
            let disk = Arc::new(disk.clone());
            Store::open(disk, Path::new(DIR), with_runs_of(&far)).unwrap()
        };
        let mut store = open(&disk);
        let mut models: [Values; 3] = Default::default();
        // States of each object to which it can be restored.
        let mut past: [Vec<(Bookmark, Values)>; 3] = Default::default();
        for id in 0..3 {
            write_large(&store, key(&store, id), &mut models[usize::from(id)]);
        }
        for step in 0..120 {
            let id = random.below(3) as u8;
            let (key, model) = (key(&store, id), &mut models[usize::from(id)]);
            let context = format!("seed {seed}, step {step}, object {id}");
            match random.below(14) {
                0..6 => {
                    let db = store.open_object(key).unwrap();
                    for _ in 0..=random.below(4) {
                        let name = format!("k{:02}", random.below(KEYS));
                        if random.below(4) == 0 {
                            db.kv_delete(&name).unwrap();
                            model.remove(&name);
                        } else {
                            let value = noise(random.below(u64::MAX), random.below(9000) as usize);
                            db.kv_put(&name, &value).unwrap();
                            model.insert(name, value);
                        }
                    }
                    db.commit().unwrap();
                    flush(&store);
                    past[usize::from(id)].push((db.bookmark(), model.clone()));
                }
                13 if !past[usize::from(id)].is_empty() => {
                    let states = &past[usize::from(id)];
                    let place = random.below(states.len() as u64) as usize;
                    let (at, state) = &states[place];
                    // After a loss, what was folded is gone.
                    if store.restore(key, at).is_ok() {
                        model.clone_from(state);
                        restored += 1;
                    }
                    let db = store.open_object(key).unwrap();
                    assert_eq!(values(&db), *model, "{context}: restored");
                }
                6 if random.below(8) == 0 => {
                    let db = store.open_object(key).unwrap();
                    db.delete_all().unwrap();
                    db.commit().unwrap();
                    flush(&store);
                    model.clear();
                }
                7 => store.checkpoint().unwrap(),
                8 => store.run_maintenance().unwrap(),
                9 => {
                    disk = disk.after_kill();
                    store = open(&disk);
                }
                10 => {
                    disk = disk.crash(random.below(u64::MAX));
                    store = open(&disk);
                }
                11 if random.below(2) == 0 => {
                    let share = random.below(3);
                    disk = lose_and_leave(store, &disk, &far, |_| random.below(2) < share);
                    store = open(&disk);
                    let db = store.open_object(key).unwrap();
                    assert_eq!(values(&db), *model, "{context}");
                    lost += 1;
                    read_without_file += u32::from(object_files(&disk).is_empty());
                }
                12 if random.below(3) == 0 => hydrate(&store),
                _ => {
                    let db = store.open_object(key).unwrap();
                    assert_eq!(values(&db), *model, "{context}");
                }
            }
        }
        for (id, model) in (0..).zip(&models) {
            let db = store.open_object(key(&store, id)).unwrap();
            assert_eq!(values(&db), *model, "seed {seed}, object {id}");
        }
        store.verify_archive().unwrap();
    }
    assert!(restored > 5, "{restored}");
    assert!(
        read_without_file > lost / 2,
        "{read_without_file} of {lost} were read page by page"
    );
}
