//! A disk for files that need not survive their process.

use std::{io, path::Path, sync::Arc};

use abide_storage::{Barrier, Disk, DiskFile, OpenMode};

/// Another disk, of which nothing is synced: what is written survives neither a crash of the machine nor, by [`crate::Home`], the end of the
/// process.
pub(crate) struct CacheDisk<D>(pub(crate) D);

struct CacheFile(Arc<dyn DiskFile>);

struct NoBarrier;

impl<D: Disk> Disk for CacheDisk<D> {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }

    fn others_may_read(&self, dir: &Path) -> bool {
        self.0.others_may_read(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(CacheFile(self.0.open(path, mode)?)))
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.0.file_len(path)
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.0.temporary(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.remove_dir(dir)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn names(&self, _: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        Ok(Box::new(|| Ok(())))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.0.lock(path)
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.0.available(dir)
    }

    fn barrier(&self, _: &Path) -> io::Result<Box<dyn Barrier>> {
        Ok(Box::new(NoBarrier))
    }
}

impl DiskFile for CacheFile {
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
        Ok(())
    }
}

impl Barrier for NoBarrier {
    fn wait(&self) -> io::Result<()> {
        Ok(())
    }
}
