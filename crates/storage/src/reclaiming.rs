//! A disk that frees descriptors when the process has none left, and retries.

use crate::disk::{Barrier, Disk, DiskFile, OpenMode};
use crate::error::is_without_descriptors;
use crate::open_files::OpenFiles;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Delegates to another disk. When an operation lacks a descriptor, it closes the object files that are only cached and
/// retries once: a cache must not block commits and checkpoints.
pub(crate) struct ReclaimingDisk {
    disk: Arc<dyn Disk>,
    open_files: Arc<OpenFiles>,
}

impl ReclaimingDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, open_files: Arc<OpenFiles>) -> Self {
        Self { disk, open_files }
    }

    /// An attempt that failed for lack of a descriptor had no effect.
    fn attempt<R>(&self, act: impl Fn() -> io::Result<R>) -> io::Result<R> {
        match act() {
            Err(error) if is_without_descriptors(&error) && self.open_files.close_idle() => act(),
            outcome => outcome,
        }
    }
}

impl Disk for ReclaimingDisk {
    // May have created some of them before it lacks a descriptor to sync the next.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.attempt(|| self.disk.list(dir))
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.attempt(|| self.disk.file_len(path))
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.attempt(|| self.disk.open(path, mode))
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.attempt(|| self.disk.temporary(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.attempt(|| self.disk.sync_dir(dir))
    }

    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        self.attempt(|| self.disk.names(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.disk.available(dir)
    }

    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        self.attempt(|| self.disk.barrier(dir))
    }
}
