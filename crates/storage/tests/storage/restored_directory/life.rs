//! A node with objects of several classes beside a model of what they were, its copies, and what is restored from them.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use abide_storage::{
    AlarmEntry, AlarmRow, AlarmState, ArchiveOptions, Bookmark, Disk as _, ErrorKind, Lsn,
    ObjectKey, OpenMode, RemoteRuns, RestoreOptions, RestoredDirectory, Result, SimDisk,
    SplitMix64, Store, StoreOptions, TimelineId, restore_directory,
};

use crate::{
    common::{DIR, flush, read_file},
    recovery_points::world::{noise, value},
};

pub(super) const CLASSES: [&str; 3] = ["First", "Second", "Third"];
const IDS: u64 = 5;

/// The state of an object after a commit.
pub(super) struct State {
    pub(super) key: ObjectKey,
    pub(super) bookmark: Bookmark,
    /// The position after the commit.
    pub(super) end: Lsn,
    pub(super) millis: u64,
    pub(super) value: Option<String>,
}

/// What a node leaves for the day on which it is gone.
pub(super) struct Copy {
    pub(super) manifest: Vec<u8>,
    /// A directory with the archive and nothing else.
    pub(super) disk: SimDisk,
}

/// See the module.
pub(super) struct Life {
    pub(super) disk: SimDisk,
    pub(super) clock: Arc<AtomicU64>,
    pub(super) retention: Duration,
    /// Where the runs are that its directory does not have.
    pub(super) remote: Option<Arc<dyn RemoteRuns>>,
    /// What the disk keeps of the runs that are there, too.
    pub(super) local_bytes: Option<u64>,
    /// Beyond this, restores and forks write files.
    pub(super) large: u64,
    pub(super) store: Store,
    pub(super) past: Vec<State>,
    /// The newest timeline that was seen of each object.
    pub(super) timelines: BTreeMap<ObjectKey, TimelineId>,
    forks: u64,
}

impl Life {
    pub(super) fn new(retention: Duration) -> Self {
        Self::with(retention, StoreOptions::small().large_restore_bytes)
    }

    pub(super) fn with(retention: Duration, large: u64) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000_000_000));
        let disk = SimDisk::new();
        Self {
            store: Store::open(
                Arc::new(disk.clone()),
                Path::new(DIR),
                options(&clock, retention, large),
            )
            .unwrap(),
            disk,
            clock,
            retention,
            remote: None,
            local_bytes: Some(0),
            large,
            past: Vec::new(),
            timelines: BTreeMap::new(),
            forks: 0,
        }
    }

    /// A life with a few objects of each class.
    pub(super) fn small() -> Self {
        let mut life = Self::new(Duration::from_hours(24));
        for class in CLASSES {
            for id in 0..2 {
                let key = life.key(class, id);
                life.put(key, &format!("{class} {id}"));
            }
        }
        let ended = life.key(CLASSES[0], 3);
        life.put(ended, "is deleted");
        life.checkpoint();
        life.delete(ended);
        let large = life.key(CLASSES[1], 4);
        let text = hex::encode(noise(7, 50_000));
        life.put(large, &text);
        life
    }

    /// A life with one object, whose states `earlier` and `later` are in different runs.
    pub(super) fn earlier_and_later() -> (Self, ObjectKey) {
        let mut life = Self::new(Duration::from_hours(24));
        let key = life.key("First", 1);
        for text in ["earlier", "later"] {
            life.put(key, text);
            life.checkpoint();
        }
        (life, key)
    }

    pub(super) fn options(&self) -> StoreOptions {
        let options = options(&self.clock, self.retention, self.large);
        let archive = options.archive.local_bytes(self.local_bytes);
        options.archive(archive).remote_runs(self.remote.clone())
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    pub(super) fn pass(&self, millis: u64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    pub(super) fn key(&self, class: &str, id: u8) -> ObjectKey {
        ObjectKey {
            namespace: self.store.namespace(class).unwrap(),
            id: [id.wrapping_mul(51); 32],
        }
    }

    /// Opens what is on a disk; the model is that of this life.
    pub(super) fn open(&mut self, disk: &SimDisk) {
        self.disk = disk.clone();
        self.store = Store::open(Arc::new(disk.clone()), Path::new(DIR), self.options()).unwrap();
    }

    /// Starts again after a kill.
    pub(super) fn reopen(&mut self) {
        let disk = self.disk.after_kill();
        self.open(&disk);
    }

    pub(super) fn checkpoint(&self) {
        self.store.checkpoint().unwrap();
    }

    pub(super) fn value(&self, key: ObjectKey) -> Option<String> {
        value(&self.store.open_object(key).unwrap())
    }

    pub(super) fn put(&mut self, key: ObjectKey, text: &str) {
        let db = self.store.open_object(key).unwrap();
        db.kv_put("k", text.as_bytes()).unwrap();
        db.commit().unwrap();
        let end = db.newest();
        drop(db);
        self.remember(key, Some(text.to_owned()), end);
    }

    pub(super) fn delete(&mut self, key: ObjectKey) {
        let db = self.store.open_object(key).unwrap();
        db.delete_all().unwrap();
        db.commit().unwrap();
        let end = db.newest();
        drop(db);
        self.remember(key, None, end);
    }

    pub(super) fn set_alarm(&mut self, key: ObjectKey, alarm: Option<&AlarmRow>) {
        let db = self.store.open_object(key).unwrap();
        db.set_alarm(alarm).unwrap();
        db.commit().unwrap();
        let (text, end) = (value(&db), db.newest());
        drop(db);
        self.remember(key, text, end);
    }

    pub(super) fn tell(&mut self, key: ObjectKey) {
        let db = self.store.open_object(key).unwrap();
        if db.timeline().unwrap().untold.is_some() {
            db.timeline_told().unwrap();
            db.commit().unwrap();
            let (text, end) = (value(&db), db.newest());
            drop(db);
            self.remember(key, text, end);
        }
    }

    /// Records the state of an object after a commit.
    fn remember(&mut self, key: ObjectKey, value: Option<String>, end: Lsn) {
        flush(&self.store);
        let state = State {
            key,
            bookmark: self.store.bookmark(key).unwrap(),
            end,
            millis: self.now(),
            value,
        };
        self.past.push(state);
        self.see_timeline(key);
    }

    /// Records the timeline of a stored object: none is ever below an earlier one.
    pub(super) fn see_timeline(&mut self, key: ObjectKey) {
        if !self.store.has_object(key).unwrap() {
            return;
        }
        let id = self.store.open_object(key).unwrap().timeline().unwrap().id;
        let before = self.timelines.insert(key, id);
        assert!(before <= Some(id), "{key}: {id} after {before:?}");
    }

    /// The value at a bookmark, seen in a fork.
    pub(super) fn at(&mut self, state: &Bookmark, key: ObjectKey) -> Result<Option<String>> {
        self.forks += 1;
        let mut to = ObjectKey {
            namespace: self.store.namespace("forks").unwrap(),
            ..key
        };
        to.id[8..16].copy_from_slice(&self.forks.to_le_bytes());
        self.store.fork(key, state, to, None)?;
        flush(&self.store);
        self.past.push(State {
            key: to,
            bookmark: self.store.bookmark(to)?,
            end: self.store.durable(),
            millis: self.now(),
            value: self.value(to),
        });
        self.see_timeline(to);
        let found = self.value(to);
        assert_eq!(self.in_database_at(state, key), found, "{key} at {state}");
        Ok(found)
    }

    /// The value at a bookmark, read by SQLite alone.
    fn in_database_at(&self, state: &Bookmark, key: ObjectKey) -> Option<String> {
        let database = match self.store.database_at(key, state) {
            // There was no object.
            Err(error) if error.kind() == ErrorKind::Input => return None,
            database => database.unwrap(),
        };
        let mut bytes = vec![0; usize::try_from(database.len()).unwrap()];
        assert_eq!(database.read_at(&mut bytes, 0).unwrap(), bytes.len());
        assert_eq!(database.read_at(&mut [0], database.len()).unwrap(), 0);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let plain = rusqlite::Connection::open_with_flags(file.path(), flags).unwrap();
        let sound: String = plain
            .query_row("PRAGMA integrity_check", (), |row| row.get(0))
            .unwrap();
        assert_eq!(sound, "ok");
        let value = "SELECT value FROM _abide_kv WHERE key = 'k'";
        let value = plain.query_row(value, (), |row| row.get::<_, Vec<u8>>(0));
        value.ok().map(|value| String::from_utf8(value).unwrap())
    }

    pub(super) fn stored(&self) -> Vec<ObjectKey> {
        let classes = self.store.namespaces().into_iter();
        let of = |(class, _)| self.store.objects(class).unwrap();
        classes.flat_map(of).collect()
    }

    /// The alarms of all objects.
    pub(super) fn alarms(&self) -> BTreeMap<ObjectKey, AlarmEntry> {
        let list = |state| self.store.alarms().list(state, None, usize::MAX);
        let all = [AlarmState::Pending, AlarmState::Failed].into_iter();
        let saved = |(key, entry)| {
            let entry = AlarmEntry {
                cut_off: false,
                ..entry
            };
            (key, entry)
        };
        all.flat_map(list).map(saved).collect()
    }

    /// A random step.
    pub(super) fn step(&mut self, random: &mut SplitMix64) {
        let class = CLASSES[random.below(3) as usize];
        let key = self.key(class, random.below(IDS) as u8);
        match random.below(20) {
            0..7 => {
                let text = match random.below(8) {
                    0 => hex::encode(noise(random.below(u64::MAX), random.below(40_000) as usize)),
                    _ => format!(
                        "at {} {}",
                        self.now(),
                        "x".repeat(random.below(9_000) as usize)
                    ),
                };
                self.put(key, &text);
            }
            7 | 8 => self.delete(key),
            9 | 10 => self.checkpoint(),
            11 | 12 => self.store.run_maintenance().unwrap(),
            13 if self.store.has_object(key).unwrap() => {
                let alarm = AlarmRow::at(random.below(2_000_000_000_000).cast_signed());
                let alarm = (random.below(3) > 0).then_some(alarm);
                self.set_alarm(key, alarm.as_ref());
            }
            14 => {
                flush(&self.store);
                self.reopen();
            }
            15 | 16 if !self.past.is_empty() => {
                let place = random.below(self.past.len() as u64) as usize;
                let State { key, bookmark, .. } = self.past[place];
                let text = self.past[place].value.clone();
                // What was folded cannot be restored.
                let exists = self
                    .store
                    .namespaces()
                    .iter()
                    .any(|of| of.0 == key.namespace);
                if exists && self.store.restore(key, &bookmark).is_ok() {
                    assert_eq!(self.value(key), text);
                    let end = self.store.durable();
                    self.remember(key, text, end);
                }
            }
            17 => self.tell(key),
            18 if random.below(4) == 0 => self.delete_class(CLASSES[2]),
            _ => self.pass(random.below(30 * 60_000)),
        }
    }

    pub(super) fn delete_class(&mut self, class: &str) {
        let gone = self.store.namespace(class).unwrap();
        self.store.delete_namespace(class).unwrap();
        self.past.retain(|state| state.key.namespace != gone);
    }

    /// Closes the store, so that everything is archived, and returns a copy of what it leaves.
    pub(super) fn copy(&self) -> Copy {
        self.store.close().unwrap();
        let dir = Path::new(DIR).join("archive");
        let copy = SimDisk::new();
        copy.create_dir_all(&dir).unwrap();
        for name in self.disk.list(&dir).unwrap() {
            write_file(
                &copy,
                &dir.join(&name),
                &read_file(&self.disk, &dir.join(&name)),
            );
        }
        copy.barrier(&dir).unwrap().wait().unwrap();
        Copy {
            manifest: read_file(&self.disk, &Path::new(DIR).join("MANIFEST")),
            disk: copy,
        }
    }
}

impl Copy {
    pub(super) fn restore_at(
        &self,
        life: &Life,
        at: Option<u64>,
    ) -> Result<(SimDisk, RestoredDirectory)> {
        let disk = self.disk.after_kill();
        let made = restore(&disk, &self.manifest, at, &life.options())?;
        Ok((disk, made))
    }

    pub(super) fn restore(&self, life: &Life) -> SimDisk {
        let (disk, made) = self.restore_at(life, None).unwrap();
        assert_eq!(made.quarantined, []);
        disk
    }
}

pub(super) fn restore(
    disk: &SimDisk,
    manifest: &[u8],
    at: Option<u64>,
    options: &StoreOptions,
) -> Result<RestoredDirectory> {
    let disk = Arc::new(disk.clone());
    let how = RestoreOptions::default().at(at);
    restore_directory(disk, Path::new(DIR), manifest, how, options, &|_| {})
}

/// With every second seed, restores and forks write files.
pub(super) fn large_by(seed: u64) -> u64 {
    if seed.is_multiple_of(2) { 0 } else { 64 << 20 }
}

fn options(clock: &Arc<AtomicU64>, retention: Duration, large: u64) -> StoreOptions {
    let clock = clock.clone();
    StoreOptions::small()
        .manual(true)
        .checkpoint_bytes(200 << 10)
        .large_restore_bytes(large)
        .archive(ArchiveOptions::default().retention(retention))
        .unix_millis(Arc::new(move || clock.load(Ordering::SeqCst)))
}

pub(super) fn write_file(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Create).unwrap();
    file.set_len(0).unwrap();
    file.write_at(bytes, 0).unwrap();
}

/// The files of all objects.
pub(super) fn object_files(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    files_in(disk, &Path::new(DIR).join("objects"), 3)
}

fn files_in(disk: &SimDisk, dir: &Path, depth: u32) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = disk
        .list(dir)
        .unwrap()
        .into_iter()
        .map(|name| dir.join(name));
    if depth > 1 {
        return paths
            .flat_map(|path| files_in(disk, &path, depth - 1))
            .collect();
    }
    paths
        .map(|path| (path.clone(), read_file(disk, &path)))
        .collect()
}
