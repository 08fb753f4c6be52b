//! Lazy restores that leave the runs in their store, which answers slowly, wrongly or not at all.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use abide_storage::{
    Disk as _, DiskFile, ErrorKind, OpenMode, RemoteRuns, RestoreOptions, Result, SimDisk,
    SplitMix64, Store, StoreOptions, restore_directory,
};

use super::{
    lazy::{hydrate, newest, values},
    life::{Copy, Life, object_files, write_file},
};
use crate::{
    common::{DIR, flush, read_file},
    recovery_points::world::value,
};

/// A store with the runs of a copy.
#[derive(Clone)]
pub(super) struct Far(Arc<State>);

struct State {
    disk: SimDisk,
    is_down: AtomicBool,
    /// After this many reads, it does not answer any more.
    left: AtomicU64,
    read: AtomicU64,
}

struct FarFile {
    of: Far,
    file: Arc<dyn DiskFile>,
}

impl Far {
    fn of(copy: &Copy) -> Self {
        Self::on(copy.disk.after_kill())
    }

    pub(super) fn empty() -> Self {
        let disk = SimDisk::new();
        disk.create_dir_all(&archive()).unwrap();
        Self::on(disk)
    }

    fn on(disk: SimDisk) -> Self {
        Self(Arc::new(State {
            disk,
            is_down: AtomicBool::new(false),
            left: AtomicU64::new(u64::MAX),
            read: AtomicU64::new(0),
        }))
    }

    /// Copies the runs of a store to here, and tells it.
    pub(super) fn copy(&self, store: &Store, disk: &SimDisk) {
        let Some(copy) = store.history_copy() else {
            return;
        };
        for run in copy.runs.iter().filter(|run| run.remote.is_none()) {
            let Ok(file) = disk.open(&run.path, OpenMode::Existing) else {
                return; // a merge has replaced it
            };
            let mut bytes = vec![0; run.bytes as usize];
            file.read_at(&mut bytes, 0).unwrap();
            write_file(&self.0.disk, &run.path, &bytes);
        }
        let place = |number| (number, format!("run {number}"));
        store.runs_copied(copy.runs.iter().map(|run| place(run.number)).collect());
    }

    /// Damages a run.
    pub(super) fn flip(&self, number: u64, at: u64) {
        self.0.disk.flip(&self.runs()[&number], at);
    }

    pub(super) fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::SeqCst);
        self.0.left.store(u64::MAX, Ordering::SeqCst);
    }

    pub(super) fn fail_after(&self, reads: u64) {
        self.0.left.store(reads, Ordering::SeqCst);
    }

    /// The bytes that were read.
    fn read(&self) -> u64 {
        self.0.read.load(Ordering::SeqCst)
    }

    fn runs(&self) -> BTreeMap<u64, PathBuf> {
        let dir = archive();
        let names = self.0.disk.list(&dir).unwrap().into_iter();
        let numbered = names.filter_map(|name| {
            let digits = name.strip_suffix(".run")?;
            Some((u64::from_str_radix(digits, 16).ok()?, dir.join(&name)))
        });
        numbered.collect()
    }
}

impl RemoteRuns for Far {
    fn open(&self, number: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        assert_eq!(place, format!("run {number}"));
        let path = &self.runs()[&number];
        let of = self.clone();
        let file = self.0.disk.open(path, OpenMode::Existing)?;
        Ok(Arc::new(FarFile { of, file }))
    }
}

impl DiskFile for FarFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = &self.of.0;
        let left = state
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        if state.is_down.load(Ordering::SeqCst) || left.is_err() {
            return Err(io::Error::other("503 Service Unavailable"));
        }
        let read = self.file.read_at(buf, offset)?;
        state.read.fetch_add(read as u64, Ordering::SeqCst);
        Ok(read)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        panic!("a run in a store is not written")
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        panic!("a run in a store is not written")
    }

    fn sync(&self) -> io::Result<()> {
        panic!("a run in a store is not written")
    }
}

fn archive() -> PathBuf {
    Path::new(DIR).join("archive")
}

pub(super) fn runs_on(disk: &SimDisk) -> usize {
    let names = disk.list(&archive()).unwrap();
    let runs = names.iter().filter_map(|name| name.strip_suffix(".run"));
    runs.count()
}

fn open(disk: &SimDisk, options: &StoreOptions) -> Result<Store> {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options.clone())
}

/// Restores into a directory that has those runs which `is_local` says.
pub(super) fn restored(
    copy: &Copy,
    far: &Far,
    options: &StoreOptions,
    is_local: fn(u64) -> bool,
) -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(&archive()).unwrap();
    let mut remote = BTreeMap::new();
    for (number, path) in far.runs() {
        if is_local(number) {
            write_file(&disk, &path, &read_file(&copy.disk, &path));
        } else {
            remote.insert(number, format!("run {number}"));
        }
    }
    disk.barrier(&archive()).unwrap().wait().unwrap();
    let how = RestoreOptions::default().lazy(true).remote(remote);
    let made = restore_directory(
        Arc::new(disk.clone()),
        Path::new(DIR),
        &copy.manifest,
        how,
        options,
        &|_| {},
    );
    assert_eq!(made.unwrap().bytes, 0);
    disk
}

/// A life continues in a directory whose runs are all far away.
fn move_far(life: &mut Life, copy: &Copy) -> Far {
    let far = Far::of(copy);
    life.remote = Some(Arc::new(far.clone()));
    let disk = restored(copy, &far, &life.options(), |_| false);
    assert_eq!(runs_on(&disk), 0);
    life.open(&disk);
    far
}

#[test]
fn s23_objects_hydrated_from_afar_have_the_files_of_a_whole_restore() {
    let mut outages = 0;
    for seed in 0..10 {
        let mut random = SplitMix64::new(seed);
        let mut life = Life::new(Duration::from_hours(6));
        for _ in 0..150 {
            life.step(&mut random);
        }
        let (alarms, stored) = (life.alarms(), life.stored());
        let copy = life.copy();
        let whole = object_files(&copy.restore(&life));
        let far = move_far(&mut life, &copy);
        assert_eq!(life.alarms(), alarms, "seed {seed}");
        assert_eq!(life.stored(), stored, "seed {seed}");
        for key in &stored {
            far.fail_after(random.below(12));
            if let Err(error) = life.store.hydrate(*key) {
                assert_eq!(error.kind(), ErrorKind::Busy, "seed {seed}: {error}");
                outages += 1;
            }
            for _ in 0..random.below(4) {
                life.store.run_maintenance().unwrap();
            }
            far.set_down(false);
        }
        hydrate(&life.store);
        assert_eq!(object_files(&life.disk), whole, "seed {seed}");
        assert_eq!(life.stored(), stored, "seed {seed}");
        assert_eq!(life.store.stats().quarantined_objects, 0);
        life.store.verify_archive().unwrap();
        // Its runs are merged with those that are far away.
        for step in 0..150 {
            if random.below(10) == 0 {
                far.set_down(random.below(2) == 0);
                for _ in 0..3 {
                    life.store.run_maintenance().unwrap();
                }
                far.set_down(false);
            }
            life.step(&mut random);
            if random.below(20) == 0 {
                life.reopen();
            }
            assert_eq!(
                values(&life),
                newest(&life.past),
                "seed {seed}, step {step}"
            );
        }
        life.store.verify_archive().unwrap();
    }
    assert!(outages > 20, "{outages}");
}

#[test]
fn a_store_that_does_not_answer_costs_no_history() {
    let mut life = Life::small();
    let copy = life.copy();
    let far = move_far(&mut life, &copy);
    let key = life.key("First", 1);
    let before = manifest(&life.disk);
    far.set_down(true);
    for wanted in [key, life.key("First", 9)] {
        let error = life.store.open_object(wanted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("503"), "{error}");
    }
    for _ in 0..50 {
        life.pass(60_000);
        life.store.run_maintenance().unwrap();
    }
    assert_eq!(
        life.store.verify_archive().unwrap_err().kind(),
        ErrorKind::Busy
    );
    assert_eq!(life.store.stats().quarantined_objects, 0);
    assert_eq!(life.store.stats().hydration_parts_left, 256);
    far.set_down(false);
    assert_eq!(life.value(key).as_deref(), Some("First 1"));
    hydrate(&life.store);
    // Now every object has its file, and only older states need the store.
    let state = life.past.iter().rfind(|state| state.key == key).unwrap();
    let bookmark = state.bookmark;
    life.put(key, "later");
    life.checkpoint();
    far.set_down(true);
    assert_eq!(life.value(key).as_deref(), Some("later"));
    let refused = life.store.restore(key, &bookmark).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    for _ in 0..50 {
        life.put(key, "later");
        life.pass(3_600_000);
        life.checkpoint();
        life.store.run_maintenance().unwrap();
    }
    let after = manifest(&life.disk);
    for field in ["damaged", "gap", "lapses", "holes"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    far.set_down(false);
    life.store.restore(key, &bookmark).unwrap();
    assert_eq!(life.value(key).as_deref(), Some("First 1"));
}

/// What the manifest of a directory says of its archive.
pub(super) fn manifest(disk: &SimDisk) -> serde_json::Value {
    let bytes = read_file(disk, &Path::new(DIR).join("MANIFEST"));
    let text = std::str::from_utf8(&bytes).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
    body["archive"].take()
}

#[test]
fn a_lost_run_of_the_disk_is_damage_although_a_store_has_runs() {
    let (mut life, key) = Life::earlier_and_later();
    let copy = life.copy();
    let far = Far::of(&copy);
    life.remote = Some(Arc::new(far.clone()));
    let options = life.options();
    let (newest, path) = far.runs().pop_last().unwrap();
    assert_eq!(newest, 2);
    let disk = restored(&copy, &far, &options, |number| number == 2);
    assert_eq!(runs_on(&disk), 1);
    let store = open(&disk, &options).unwrap();
    let bereft = disk.after_kill();
    assert_eq!(
        value(&store.open_object(key).unwrap()).as_deref(),
        Some("later")
    );
    bereft.remove(&path).unwrap();
    // Its alarm is in the index of the runs, too.
    let error = match open(&bereft, &options) {
        Ok(store) => store.open_object(key).unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

#[test]
fn a_directory_with_runs_in_a_store_is_refused_without_it() {
    let mut life = Life::small();
    let copy = life.copy();
    move_far(&mut life, &copy);
    let disk = life.disk.clone();
    life.store.close().unwrap();
    let refused = open(&disk, &life.options().remote_runs(None)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    assert!(refused.to_string().contains("archive.url"), "{refused}");
    life.reopen();
    hydrate(&life.store);
    let listed = life.store.history_copy().unwrap().runs;
    assert!(listed.iter().any(|run| run.remote.is_some()));
}

#[test]
fn a_damaged_run_in_the_store_gives_no_earlier_state() {
    let (mut life, key) = Life::earlier_and_later();
    let copy = life.copy();
    let far = Far::of(&copy);
    life.remote = Some(Arc::new(far.clone()));
    let options = life.options();
    let start = restored(&copy, &far, &options, |_| false);
    for path in far.runs().into_values() {
        let whole = read_file(&far.0.disk, &path);
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            write_file(&far.0.disk, &path, &damaged);
            let Ok(store) = open(&start.after_kill(), &options) else {
                continue;
            };
            match store.open_object(key) {
                Ok(db) => assert_eq!(value(&db).as_deref(), Some("later"), "byte {at}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Damaged, "byte {at}: {error}"),
            }
            let _ = store.run_maintenance();
            assert_eq!(store.stats().quarantined_objects, 0, "byte {at}");
        }
        write_file(&far.0.disk, &path, &whole);
    }
}

#[test]
fn a_restore_reads_little_of_what_it_leaves_in_the_store() {
    let mut life = Life::new(Duration::from_hours(24));
    for id in 0..60 {
        let key = life.key("First", id);
        let mut random = SplitMix64::new(u64::from(id));
        let text: String = (0..20_000)
            .map(|_| char::from(b'0' + random.below(64) as u8))
            .collect();
        life.put(key, &text);
    }
    let copy = life.copy();
    let far = move_far(&mut life, &copy);
    let key = life.key("First", 7);
    assert!(life.value(key).is_some());
    let paths = far.runs();
    let bytes = paths.values().map(|path| read_file(&copy.disk, path).len());
    let bytes: usize = bytes.sum();
    assert!(bytes > 500_000, "{bytes}");
    let read = far.read();
    assert!(read * 4 < bytes as u64, "{read} of {bytes} bytes");
}

#[test]
fn s23_a_crash_with_runs_in_a_store_loses_nothing() {
    let mut life = Life::small();
    let copy = life.copy();
    let far = Far::of(&copy);
    life.remote = Some(Arc::new(far.clone()));
    let options = life.options();
    let start = restored(&copy, &far, &options, |_| false);
    let key = life.key("First", 1);
    let mut expected = newest(&life.past);
    expected.remove(&key);
    for stop in (0..100_000).step_by(3) {
        let disk = start.after_kill();
        disk.stop_at(disk.changes() + stop);
        let mut acknowledged = "First 1".to_owned();
        let mut work = || -> Result<()> {
            let store = open(&disk, &options)?;
            for _ in 0..30 {
                store.run_maintenance()?;
            }
            // Enough for runs of the disk and of the store to be merged.
            for number in 0..10 {
                let db = store.open_object(key)?;
                db.kv_put("k", format!("{number}").as_bytes())?;
                db.commit()?;
                flush(&store);
                if store.durable() >= db.newest() {
                    acknowledged = number.to_string();
                }
                drop(db);
                store.checkpoint()?;
                store.run_maintenance()?;
            }
            store.close()
        };
        let done = work().is_ok();
        let store = open(&disk.crash(stop), &options).unwrap();
        for (key, old) in &expected {
            let now = store.open_object(*key).map(|db| value(&db)).unwrap();
            assert_eq!(now, *old, "power cut at change {stop}: {key}");
        }
        let now = store.open_object(key).map(|db| value(&db)).unwrap();
        let least = acknowledged.parse::<u32>().ok();
        let now = now.as_deref().and_then(|text| text.parse::<u32>().ok());
        assert!(now >= least, "power cut at change {stop}: {now:?}");
        store.verify_archive().unwrap();
        if done {
            return;
        }
    }
    panic!("it never ends");
}
