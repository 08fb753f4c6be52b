//! A disk whose syncs and reads of chosen files wait until the model lets them go on.

use crate::disk::{Barrier, Disk, DiskFile, OpenMode, SimDisk};
use crate::sync::{Condvar, Mutex};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Read,
    Sync,
}

/// A disk in memory; see the module.
#[derive(Clone)]
pub(crate) struct HeldDisk(Arc<Inner>);

struct Inner {
    disk: SimDisk,
    held: Mutex<Option<(Held, &'static str)>>,
    let_go: Condvar,
}

impl HeldDisk {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            disk: SimDisk::new(),
            held: Mutex::default(),
            let_go: Condvar::default(),
        }))
    }

    /// From now on this waits, for files whose path contains `part`.
    pub(crate) fn hold(&self, what: Held, part: &'static str) {
        *self.0.held.lock() = Some((what, part));
    }

    /// Nothing waits any more.
    pub(crate) fn let_go(&self) {
        *self.0.held.lock() = None;
        self.0.let_go.notify_all();
    }

    fn pass(&self, what: Held, path: &Path) {
        let mut held = self.0.held.lock();
        while held.is_some_and(|(waits, part)| waits == what && contains(path, part)) {
            held = self.0.let_go.wait(held);
        }
    }

    fn disk(&self) -> &SimDisk {
        &self.0.disk
    }
}

fn contains(path: &Path, part: &str) -> bool {
    path.to_string_lossy().contains(part)
}

struct HeldFile {
    disk: HeldDisk,
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

struct HeldBarrier(HeldDisk, Box<dyn Barrier>);

impl Barrier for HeldBarrier {
    fn wait(&self) -> io::Result<()> {
        self.0.pass(Held::Sync, Path::new("/data/objects/"));
        self.1.wait()
    }
}

impl Disk for HeldDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk().create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk().list(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(HeldFile {
            disk: self.clone(),
            file: self.disk().open(path, mode)?,
            path: path.to_owned(),
        }))
    }
    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk().temporary(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk().rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk().remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk().sync_dir(dir)
    }
    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        self.disk().names(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk().lock(path)
    }
    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.disk().available(dir)
    }
    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        Ok(Box::new(HeldBarrier(
            self.clone(),
            self.disk().barrier(dir)?,
        )))
    }
}

impl DiskFile for HeldFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.pass(Held::Read, &self.path);
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.pass(Held::Sync, &self.path);
        self.file.sync()
    }
}
