//! A store on a simulated disk whose time the test moves, and what may fill it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use abide_storage::{ArchiveOptions, Bookmark, Disk as _, ObjectDb, SimDisk, Store, StoreOptions};

use crate::common::{DIR, flush, key, open};

pub(crate) const MINUTE: u64 = 60_000;

pub(crate) fn off() -> ArchiveOptions {
    ArchiveOptions::default().enabled(false)
}

/// A store without threads, on a simulated disk, with a clock that the test moves.
pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<AtomicU64>,
    pub(crate) archive: ArchiveOptions,
    /// Beyond this, restores and forks write files.
    pub(crate) large: u64,
    pub(crate) store: Store,
}

impl World {
    pub(crate) fn new(archive: ArchiveOptions) -> Self {
        Self::with(archive, StoreOptions::small().large_restore_bytes)
    }

    pub(crate) fn with(archive: ArchiveOptions, large: u64) -> Self {
        let (disk, clock) = (SimDisk::new(), Arc::new(AtomicU64::new(1_000_000_000_000)));
        let store = Self::open(&disk, &clock, archive, large);
        Self {
            disk,
            clock,
            archive,
            large,
            store,
        }
    }

    pub(crate) fn open(
        disk: &SimDisk,
        clock: &Arc<AtomicU64>,
        archive: ArchiveOptions,
        large: u64,
    ) -> Store {
        let clock = clock.clone();
        let options = StoreOptions::small()
            .manual(true)
            .archive(archive)
            .large_restore_bytes(large)
            .unix_millis(Arc::new(move || clock.load(Ordering::SeqCst)));
        Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap()
    }

    pub(crate) fn reopen_with(&mut self, archive: ArchiveOptions) {
        self.disk = self.disk.after_kill();
        self.archive = archive;
        self.store = Self::open(&self.disk, &self.clock, archive, self.large);
    }

    pub(crate) fn reopen(&mut self) {
        self.reopen_with(self.archive);
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    pub(crate) fn pass(&self, millis: u64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    /// Puts a value and returns the bookmark of the commit.
    pub(crate) fn put(&self, id: u8, value: &str) -> Bookmark {
        let db = open(&self.store, id);
        db.kv_put("k", value.as_bytes()).unwrap();
        db.commit().unwrap();
        flush(&self.store);
        db.bookmark()
    }

    pub(crate) fn get(&self, id: u8) -> Option<String> {
        value(&open(&self.store, id))
    }

    pub(crate) fn restore(&self, id: u8, to: &Bookmark) -> abide_storage::Result<Bookmark> {
        self.store.restore(key(&self.store, id), to)
    }

    /// The value that an object had at a bookmark, seen in a fork.
    pub(crate) fn at(&self, id: u8, bookmark: &Bookmark) -> abide_storage::Result<Option<String>> {
        let (from, to) = (key(&self.store, id), self.unused());
        self.store.fork(from, bookmark, to, None)?;
        Ok(value(&self.store.open_object(to)?))
    }

    pub(crate) fn unused(&self) -> abide_storage::ObjectKey {
        let namespace = self.store.namespace("forks").unwrap();
        let id = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut key = key(&self.store, 0);
        key.namespace = namespace;
        key.id[..8].copy_from_slice(&id.to_le_bytes());
        key
    }

    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let dir = Path::new(DIR).join("archive");
        let mut names = self.disk.list(&dir).unwrap();
        names.sort();
        names.into_iter().map(|name| dir.join(name)).collect()
    }

    pub(crate) fn keep(&self) {
        self.store.run_maintenance().unwrap();
    }
}

pub(crate) fn value(db: &ObjectDb) -> Option<String> {
    let value = db.kv_get("k").unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

/// Something that does not compress.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes = std::iter::repeat_with(|| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    });
    bytes.take(len).collect()
}

pub(crate) fn put_noise(store: &Store, seed: u64, len: usize) -> abide_storage::Result<()> {
    let db = open(store, 1);
    db.kv_put("noise", &noise(seed, len))?;
    db.commit().map(drop)
}
