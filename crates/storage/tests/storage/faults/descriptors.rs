//! A machine that is out of descriptors or memory: an answer, never a failure of the node.

use std::{
    io,
    num::NonZero,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use abide_storage::{
    AlarmRow, Barrier, Disk, DiskFile, DiskOp, ErrorKind, Fault, FaultyDisk, ObjectKey, OpenMode,
    SimDisk, Store,
    errno::{EMFILE, ENFILE, ENOMEM},
};

use crate::common::{DIR, flush, key};
use crate::faults::world::{get, options, part, put, store, store_with, value};

#[test]
fn a_checkpoint_without_descriptors_is_busy_and_is_taken_later() {
    for (op, errno) in [
        (DiskOp::Open, EMFILE),
        (DiskOp::Open, ENFILE),
        (DiskOp::Open, ENOMEM),
        (DiskOp::CreateDir, EMFILE),
        (DiskOp::Barrier, EMFILE),
        (DiskOp::OpenDir, EMFILE),
        (DiskOp::OpenDir, ENOMEM),
        (DiskOp::List, EMFILE),
    ] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk);
        put(&store, 1, "kept").unwrap();
        let db = store.open_object(key(&store, 1)).unwrap();
        db.set_alarm(Some(&abide_storage::AlarmRow::at(5))).unwrap();
        db.commit().unwrap();
        drop(db);
        let mut refused = 0;
        // Wherever the checkpoint meets it, once.
        for nth in 0..40 {
            put(&store, 1, &format!("value {nth}")).unwrap();
            for _ in 0..3 {
                disk.inject(&[op], "/", Fault::error(errno).times(1));
                if let Err(error) = store.checkpoint() {
                    assert_eq!(error.kind(), ErrorKind::Busy, "{op:?}: {error}");
                    refused += 1;
                }
                disk.clear();
                assert!(!store.failed(), "{op:?} {errno}");
            }
            store.checkpoint().unwrap();
        }
        assert!(
            refused > 0 || op == DiskOp::List || op == DiskOp::CreateDir,
            "{op:?}"
        );
        let value = get(&store, 1).unwrap();
        assert_eq!(value.as_deref(), Some("value 39"));
        let disk = FaultyDisk::new(disk.sim.after_kill());
        assert_eq!(get(&crate::faults::world::store(&disk), 1).unwrap(), value);
    }
}

#[test]
fn without_descriptors_for_a_new_manifest_the_old_one_stays_in_force() {
    for nth in 0..12 {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store(&disk);
        put(&store, 1, "kept").unwrap();
        // Some of them pass.
        disk.inject(
            &[DiskOp::Open, DiskOp::OpenDir],
            "",
            Fault::error(EMFILE).after(nth),
        );
        let checkpoint = store.checkpoint();
        disk.clear();
        assert!(!store.failed(), "{nth}: {checkpoint:?}");
        for seed in 0..5 {
            let disk = FaultyDisk::new(disk.sim.crash(seed));
            let value = get(&crate::faults::world::store(&disk), 1).unwrap();
            assert_eq!(value.as_deref(), Some("kept"));
        }
        store.checkpoint().unwrap();
    }
}

#[test]
fn without_descriptors_for_its_file_an_object_is_busy_and_opens_later() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "kept").unwrap();
    store.checkpoint().unwrap();
    for errno in [EMFILE, ENFILE, ENOMEM] {
        disk.fail(&[DiskOp::Open], "/objects/", errno);
        let error = store.open_object(key(&store, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        disk.clear();
        assert_eq!(get(&store, 1).unwrap().as_deref(), Some("kept"));
    }
    // A connection that is open needs its descriptor again after a checkpoint.
    let db = store.open_object(key(&store, 1)).unwrap();
    db.exec("CREATE TABLE t (x)", ()).unwrap();
    for _ in 0..20 {
        db.exec("INSERT INTO t VALUES (randomblob(100000))", ())
            .unwrap();
    }
    db.commit().unwrap();
    flush(&store);
    drop(db);
    store.checkpoint().unwrap();
    let db = store.open_object(key(&store, 1)).unwrap();
    assert!(db.kv_get("k").unwrap().is_some());
    put(&store, 2, "something").unwrap();
    store.checkpoint().unwrap();
    drop(db);
    assert!(!store.failed());
}

#[test]
fn segments_and_the_archive_wait_for_descriptors() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "first").unwrap();
    let first = store.open_object(key(&store, 1)).unwrap().bookmark();
    for errno in [EMFILE, ENFILE] {
        for dir in ["/log/", "/archive/"] {
            for nth in 0..30 {
                put(&store, 1, &format!("{dir} {errno} {nth}")).unwrap();
                disk.inject(
                    &[DiskOp::Open, DiskOp::OpenDir],
                    dir,
                    Fault::error(errno).after(nth % 5),
                );
                let _ = store.run_maintenance();
                let _ = store.checkpoint();
                disk.clear();
                assert!(!store.failed(), "{dir} {errno} {nth}");
                let db = store.open_object(key(&store, 1)).unwrap();
                db.kv_put("large", &vec![nth as u8; 200_000]).unwrap();
                db.commit().unwrap();
                flush(&store);
            }
        }
    }
    store.checkpoint().unwrap();
    store.restore(key(&store, 1), &first).unwrap();
    assert_eq!(get(&store, 1).unwrap().as_deref(), Some("first"));
}

#[test]
fn without_descriptors_to_sync_its_name_a_segment_is_prepared_later() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    let mut met = 0;
    for round in 0..40_u8 {
        let db = store.open_object(key(&store, 1)).unwrap();
        for n in 0..3 {
            db.kv_put("large", &noise(u32::from(round) * 10 + n))
                .unwrap();
            db.kv_put(&format!("more {n}"), &vec![round; 150_000])
                .unwrap();
            db.commit().unwrap();
        }
        flush(&store);
        drop(db);
        store.checkpoint().unwrap();
        let before = disk.failed();
        disk.inject(&[DiskOp::OpenDir], "/log", Fault::error(EMFILE).times(1));
        let _ = store.run_maintenance();
        met += disk.failed() - before;
        disk.clear();
        assert!(!store.failed(), "round {round}");
        store.run_maintenance().unwrap();
    }
    assert!(met > 3, "{met}");
    assert_eq!(get(&store, 1).unwrap(), None);
    let db = store.open_object(key(&store, 1)).unwrap();
    assert_eq!(db.kv_get("more 0").unwrap(), Some(vec![39; 150_000]));
}

#[test]
fn commits_that_need_room_are_answered_while_descriptors_are_missing() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    put(&store, 1, "kept").unwrap();
    disk.fail(&DiskOp::OPENING, "", EMFILE);
    let mut refused = None;
    for round in 0..400_u32 {
        let db = match store.open_object(key(&store, 1)) {
            Ok(db) => db,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                continue;
            }
        };
        db.kv_put("large", &vec![round as u8; 100_000]).unwrap();
        if let Err(error) = db.commit() {
            refused = Some(error);
            break;
        }
        flush(&store);
    }
    let refused = refused.expect("the prepared segments are full");
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    assert!(!store.failed());
    disk.clear();
    put(&store, 1, "again").unwrap();
    assert_eq!(get(&store, 1).unwrap().as_deref(), Some("again"));
}

#[test]
fn a_commit_refused_for_lack_of_room_changes_no_object_and_no_alarm() {
    let disk = FaultyDisk::new(SimDisk::new());
    let store = store(&disk);
    let object = key(&store, 1);
    let mut refused = 0;
    for round in 0..60_u8 {
        let db = store.open_object(object).unwrap();
        db.kv_put("large", &vec![round; 40_000]).unwrap();
        db.set_alarm(Some(&AlarmRow::at(i64::from(round)))).unwrap();
        db.commit().unwrap();
        flush(&store);
        drop(db);
        // A smaller commit might still fit where this one does not.
        disk.fail(&DiskOp::OPENING, "", EMFILE);
        let Ok(db) = store.open_object(object) else {
            disk.clear();
            continue;
        };
        let before = (store.durable(), db.bookmark());
        db.set_alarm(Some(&AlarmRow::at(1_000))).unwrap();
        let committed = (|| {
            db.kv_delete("large")?;
            for n in 0..30 {
                db.kv_put(&format!("more {n}"), &noise(u32::from(round) * 100 + n))?;
            }
            db.commit()
        })();
        let after = db.bookmark();
        drop(db);
        disk.clear();
        if let Err(error) = committed {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            refused += 1;
            flush(&store);
            assert_eq!((store.durable(), after), before, "round {round}");
            let db = store.open_object(object).unwrap();
            assert_eq!(db.kv_get("large").unwrap(), Some(vec![round; 40_000]));
            let alarm = db.alarm().unwrap().map(|row| row.entry());
            assert_eq!(store.alarms().get(object), alarm, "round {round}");
        }
        store.run_maintenance().unwrap();
        if round % 7 == 0 {
            store.checkpoint().unwrap();
        }
    }
    assert!(refused > 3, "{refused}");
}

/// Bytes that have nothing in common with others.
fn noise(seed: u32) -> Vec<u8> {
    let mut state = u64::from(seed) * 7_919 + 88_172_645_463_325_252;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..30_000).map(|_| next()).collect()
}

#[test]
fn a_file_that_is_read_all_the_time_stays_open_beside_many_others() {
    for cores in [1, 8] {
        let disk = FaultyDisk::new(SimDisk::new());
        let store = store_with(
            &disk,
            options()
                // The value below does not fit the page cache, so it is read from the file.
                .cache_kib(8)
                .cores(NonZero::new(cores)),
        );
        let large = "x".repeat(60_000);
        let objects = (0..=u8::MAX).map(|id| {
            for namespace in ["tests", "others"] {
                let namespace = store.namespace(namespace).unwrap();
                let key = ObjectKey {
                    namespace,
                    id: [id; 32],
                };
                let db = store.open_object(key).unwrap();
                db.kv_put("k", large.as_bytes()).unwrap();
                db.commit().unwrap();
            }
            flush(&store);
            store.open_object(key(&store, id)).unwrap()
        });
        let objects: Vec<_> = objects.collect();
        let other = store.namespace("others").unwrap();
        store.checkpoint().unwrap();
        let hot = &objects[0];
        assert_eq!(value(hot).unwrap().as_deref(), Some(&*large));
        disk.fail(&[DiskOp::Open], &part(&store, 0), EMFILE);
        let others = (0..=u8::MAX).map(|id| ObjectKey {
            namespace: other,
            id: [id; 32],
        });
        for (cold, other) in objects[1..].iter().zip(others.skip(1)) {
            value(cold).unwrap();
            drop(store.open_object(other).unwrap());
            assert!(value(hot).is_ok(), "its file was closed, {cores} cores");
        }
        // All of them are more than the table has, with the objects that are open no longer.
        disk.clear();
        for db in &objects {
            assert_eq!(value(db).unwrap().as_deref(), Some(&*large));
        }
    }
}

/// A disk for a process that may have few descriptors.
#[derive(Clone)]
struct FewDescriptors {
    disk: SimDisk,
    free: Arc<AtomicUsize>,
}

/// A descriptor, until it is dropped.
struct Descriptor(Arc<AtomicUsize>);

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl FewDescriptors {
    fn take(&self) -> io::Result<Descriptor> {
        let one_less = |free: usize| free.checked_sub(1);
        match self
            .free
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
        {
            Ok(_) => Ok(Descriptor(self.free.clone())),
            Err(_) => Err(io::Error::from_raw_os_error(EMFILE)),
        }
    }

    fn counted(
        &self,
        open: impl FnOnce() -> io::Result<Arc<dyn DiskFile>>,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let descriptor = self.take()?;
        Ok(Arc::new(Counted(open()?, descriptor)))
    }
}

impl Disk for FewDescriptors {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let _one = self.take()?;
        self.disk.list(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.counted(|| self.disk.open(path, mode))
    }
    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.counted(|| self.disk.temporary(dir))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let _one = self.take()?;
        self.disk.sync_dir(dir)
    }
    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        let one = self.take()?;
        let dir = dir.to_owned();
        Ok(Box::new(move || {
            let _one = &one;
            self.disk.sync_dir(&dir)
        }))
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }
    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.disk.available(dir)
    }
    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        let _one = self.take()?;
        self.disk.barrier(dir)
    }
}

/// An open file, and its descriptor.
struct Counted(
    Arc<dyn DiskFile>,
    #[expect(dead_code, reason = "held")] Descriptor,
);

impl DiskFile for Counted {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

#[test]
fn files_that_are_kept_open_make_way_for_what_needs_a_descriptor() {
    for cores in [1, 8] {
        let disk = FewDescriptors {
            disk: SimDisk::new(),
            free: Arc::new(AtomicUsize::new(100)),
        };
        let options = options().cores(NonZero::new(cores));
        let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
        let large = "x".repeat(60_000);
        // In parts: a checkpoint itself has some open.
        for ids in [0..50, 50..100, 100..150, 150..200] {
            for id in ids {
                put(&store, id, &large).unwrap();
            }
            store.checkpoint().unwrap();
        }
        // Each of them is read from its file, and none is closed.
        let objects = (0..200).map(|id| {
            let db = store.open_object(key(&store, id)).unwrap();
            assert_eq!(value(&db).unwrap().as_deref(), Some(&*large));
            db
        });
        let objects: Vec<_> = objects.collect();
        // Other files take all descriptors but a few: less than the files that are written.
        let mut others: Vec<_> = std::iter::from_fn(|| disk.take().ok()).collect();
        others.truncate(others.len() - 8);
        for round in 0..3 {
            for db in &objects[..20] {
                db.kv_put("k", large.as_bytes()).unwrap();
                db.kv_put("round", &[round]).unwrap();
                db.commit().unwrap();
                flush(&store);
            }
            store.run_maintenance().unwrap();
            store.checkpoint().unwrap();
        }
        drop(others);
        drop(objects);
        store.close().unwrap();
    }
}

#[test]
fn a_transaction_that_a_missing_descriptor_has_ended_says_so_to_the_end() {
    let disk = FaultyDisk::new(SimDisk::new());
    let options = options().cache_kib(8);
    let store = store_with(&disk, options);
    put(&store, 1, &"x".repeat(200_000)).unwrap();
    store.checkpoint().unwrap();
    let db = store.open_object(key(&store, 1)).unwrap();
    db.kv_put("other", b"written before").unwrap();
    disk.fail(&[DiskOp::Open, DiskOp::Read], &part(&store, 1), EMFILE);
    let met = db.kv_put("k", b"small").unwrap_err();
    assert_eq!(met.kind(), ErrorKind::Busy, "{met}");
    // The handler may have dealt with it and continue.
    if let Err(error) = db.kv_put("more", b"written after") {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
    let error = db.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(db);
    disk.clear();
    let db = store.open_object(key(&store, 1)).unwrap();
    assert_eq!(value(&db).unwrap().map(|value| value.len()), Some(200_000));
    assert_eq!(db.kv_get("other").unwrap(), None);
}
