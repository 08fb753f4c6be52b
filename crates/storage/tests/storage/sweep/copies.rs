//! A data directory that has nothing but the runs and the manifest of a copy, and what is to be known of a copy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use abide_storage::{
    ArchiveOptions, Bookmark, Disk, HistoryCopy, ListOptions, ObjectDb, ObjectKey, OpenMode,
    SimDisk, Store, StoreOptions,
};

use crate::common::{DIR, flush, key, open, read_file};
use crate::recovery_points::world::{MINUTE, World, off};

pub(crate) type Keys = BTreeMap<String, Vec<u8>>;

/// A store that was built from the runs of a copy alone.
pub(crate) struct FromRuns {
    store: Store,
    forks: u64,
}

impl FromRuns {
    pub(crate) fn new(disk: &SimDisk, copy: &HistoryCopy) -> Self {
        let built = SimDisk::new();
        built
            .create_dir_all(&Path::new(DIR).join("archive"))
            .unwrap();
        let write = |path: &Path, bytes: &[u8]| {
            let file = built.open(path, OpenMode::Create).unwrap();
            file.write_at(bytes, 0).unwrap();
        };
        write(
            &Path::new(DIR).join("MANIFEST"),
            &without_log(&copy.manifest),
        );
        for run in &copy.runs {
            let bytes = read_file(disk, &run.path);
            assert_eq!(bytes.len() as u64, run.bytes);
            assert!(
                run.path
                    .ends_with(format!("archive/{:016x}.run", run.number))
            );
            write(&run.path, &bytes);
        }
        // Its clock stands still, and nothing expires.
        let options = StoreOptions::small()
            .manual(true)
            .unix_millis(Arc::new(|| u64::MAX >> 16))
            .archive(ArchiveOptions::default().retention(std::time::Duration::MAX));
        let store = Store::open(Arc::new(built), Path::new(DIR), options).unwrap();
        Self { store, forks: 0 }
    }

    /// The state of an object; empty if there is no object.
    pub(crate) fn state(&mut self, object: ObjectKey) -> abide_storage::Result<Keys> {
        if !self.store.has_history(object) {
            return Ok(Keys::new());
        }
        let newest = self.store.bookmark_at(object, u64::MAX)?;
        self.at(object, &newest)
    }

    /// The state of an object at a bookmark.
    pub(crate) fn at(
        &mut self,
        object: ObjectKey,
        bookmark: &Bookmark,
    ) -> abide_storage::Result<Keys> {
        let namespace = self.store.namespace("forks").unwrap();
        let mut fork = ObjectKey {
            namespace,
            ..object
        };
        self.forks += 1;
        fork.id[..8].copy_from_slice(&self.forks.to_le_bytes());
        self.store.fork(object, bookmark, fork, None)?;
        Ok(content(&self.store.open_object(fork)?))
    }
}

/// The manifest of a directory whose log begins anew.
fn without_log(manifest: &[u8]) -> Vec<u8> {
    let text = str::from_utf8(manifest).unwrap();
    let (title, body) = text.split_once('\n').unwrap();
    let line = |line: &str| {
        let (name, _) = line.split_once(": ").unwrap_or_default();
        match name {
            "  \"redo\"" | "    \"archived\"" => format!("{name}: 0,\n"),
            _ => format!("{line}\n"),
        }
    };
    let body: String = body.lines().map(line).collect();
    let (title, _) = title.rsplit_once(' ').unwrap();
    format!("{title} {:08x}\n{body}", crc32c::crc32c(body.as_bytes())).into_bytes()
}

pub(crate) fn content(db: &ObjectDb) -> Keys {
    let check = db.exec("PRAGMA integrity_check", ()).unwrap();
    assert_eq!(check.one::<String>().unwrap(), "ok");
    let keys = db.kv_list(&ListOptions::default()).unwrap();
    keys.into_iter().collect()
}

/// Does maintenance until the archive has every object.
pub(crate) fn sweep(store: &Store) {
    for _ in 0..1000 {
        if store.stats().archive_complete {
            return;
        }
        store.run_maintenance().unwrap();
    }
    panic!("the archive does not get every object: {:?}", store.stats());
}

pub(crate) fn delete(store: &Store, id: u8) {
    let db = open(store, id);
    db.delete_all().unwrap();
    db.commit().unwrap();
    drop(db);
    flush(store);
}

#[test]
fn there_is_no_copy_while_the_archive_is_off() {
    let mut world = World::new(off());
    world.put(1, "one");
    world.store.checkpoint().unwrap();
    assert_eq!(world.store.history_copy(), None);
    assert!(!world.store.stats().archive_complete);
    world.reopen_with(ArchiveOptions::default());
    assert!(world.store.history_copy().is_some());
}

#[test]
fn a_new_directory_has_everything_in_its_archive() {
    let world = World::new(ArchiveOptions::default());
    let copy = world.store.history_copy().unwrap();
    assert!(copy.is_complete && copy.missing_objects == 0);
    assert_eq!((copy.runs, copy.damaged), (vec![], vec![]));
    world.put(1, "one");
    world.store.checkpoint().unwrap();
    let copy = world.store.history_copy().unwrap();
    assert!(copy.is_complete);
    let mut built = FromRuns::new(&world.disk, &copy);
    let state = built.state(key(&world.store, 1)).unwrap();
    assert_eq!(state["k"], b"one");
}

#[test]
fn there_is_no_copy_while_a_part_of_the_log_is_not_archived() {
    let disk = abide_storage::FaultyDisk::default();
    let options = StoreOptions::small().manual(true);
    let store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    let put = |value: &[u8]| {
        let db = open(&store, 1);
        db.kv_put("k", value).unwrap();
        db.commit().unwrap();
        flush(&store);
    };
    put(b"one");
    store.checkpoint().unwrap();
    let before = store.history_copy().unwrap();
    disk.fail(
        &[abide_storage::DiskOp::Write],
        "/archive/",
        abide_storage::errno::EIO,
    );
    put(b"two");
    store.checkpoint().unwrap();
    assert!(store.stats().archive_failing);
    assert_eq!(store.history_copy(), None);
    disk.clear();
    store.checkpoint().unwrap();
    let after = store.history_copy().unwrap();
    assert!(after.version > before.version);
    assert_eq!(after.runs.len(), before.runs.len() + 1);
}

#[test]
fn the_version_of_the_history_rises_only_when_it_changes() {
    let world = World::new(ArchiveOptions::default());
    world.put(1, "one");
    world.store.checkpoint().unwrap();
    let copy = world.store.history_copy().unwrap();
    let version = || world.store.history_version();
    assert_eq!(version(), copy.version);
    for _ in 0..3 {
        world.pass(MINUTE);
        world.store.checkpoint().unwrap();
        world.keep();
    }
    assert_eq!(version(), copy.version, "nothing was written");
    let again = world.store.history_copy().unwrap();
    assert_eq!(again.runs, copy.runs);
    world.put(1, "two");
    assert_eq!(version(), copy.version, "not yet archived");
    world.store.checkpoint().unwrap();
    assert!(version() > copy.version);
    let before = version();
    world.store.delete_namespace("tests").unwrap();
    assert!(version() > before, "a class was deleted");
}

#[test]
fn a_copy_says_up_to_when_commits_are_in_it() {
    let mut world = World::new(ArchiveOptions::default());
    world.put(1, "one");
    world.pass(MINUTE);
    let taken = world.now();
    world.store.checkpoint().unwrap();
    let archived = |world: &World| world.store.history_copy().unwrap().archived_millis;
    world.pass(MINUTE);
    assert_eq!(archived(&world), world.now(), "nothing was written since");
    world.put(1, "two");
    assert_eq!(archived(&world), taken);
    world.reopen();
    assert_eq!(archived(&world), taken, "after a restart");
    world.pass(MINUTE);
    world.store.checkpoint().unwrap();
    assert_eq!(archived(&world), world.now());
}

#[test]
fn damaged_runs_are_named_and_not_among_those_to_copy() {
    let world = World::new(ArchiveOptions::default());
    for i in 0..7 {
        world.put(1, &format!("value {i}"));
        world.put(2, "idle");
        world.store.checkpoint().unwrap();
    }
    let run = world.runs()[6].clone();
    world.disk.flip(&run, 80); // In its first block.
    world.put(1, "value 7");
    world.store.checkpoint().unwrap();
    // A merge notices it, and the idle object has lost its newest state.
    world.keep();
    let copy = world.store.history_copy().unwrap();
    let paths = |runs: &[abide_storage::ArchivedRun]| -> Vec<_> {
        runs.iter().map(|run| run.path.clone()).collect()
    };
    assert_eq!(paths(&copy.damaged), std::slice::from_ref(&run));
    assert!(!paths(&copy.runs).contains(&run));
    sweep(&world.store);
    let copy = world.store.history_copy().unwrap();
    let mut built = FromRuns::new(&world.disk, &copy);
    for (id, value) in [(1, "value 7"), (2, "idle")] {
        let state = built.state(key(&world.store, id)).unwrap();
        assert_eq!(state["k"], value.as_bytes());
    }
}

#[test]
fn the_number_of_a_run_is_never_used_again() {
    let retention = std::time::Duration::from_mins(5);
    let mut world = World::new(ArchiveOptions::default().retention(retention));
    let newest = |world: &World| {
        let runs = world.store.history_copy().unwrap().runs;
        runs.iter().map(|run| run.number).max()
    };
    for i in 0..3 {
        world.put(1, &format!("value {i}"));
        world.store.checkpoint().unwrap();
    }
    let before = newest(&world).unwrap();
    world.store.delete_namespace("tests").unwrap();
    world.pass(10 * MINUTE);
    world.keep();
    assert_eq!(newest(&world), None, "nothing is left");
    world.reopen();
    world.put(1, "anew");
    world.store.checkpoint().unwrap();
    assert!(newest(&world).unwrap() > before);
}
