//! A directory whose process can be killed.
//!
//! Contract: what was written stays, and nothing is read or written any more once [`Folder::kill`] has returned, even by code
//! that still runs. Nothing is synced: what a loss of power leaves is `SimDisk`'s business.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use abide::storage::{Barrier, Disk, DiskFile, OpenMode, RealDisk};

/// The real file system, as long as the process lives. Clones are of the same process.
#[derive(Clone, Default)]
pub(crate) struct Folder(Arc<RwLock<Dead>>);

#[derive(Default)]
struct Dead(bool);

struct File {
    file: Arc<dyn DiskFile>,
    folder: Folder,
}

impl Folder {
    /// Ends the process. What it was writing has been written.
    pub(crate) fn kill(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).0 = true;
    }

    /// Keeps the process from being killed meanwhile.
    fn alive(&self) -> io::Result<RwLockReadGuard<'_, Dead>> {
        let dead = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if dead.0 {
            return Err(io::Error::other("the process was killed"));
        }
        Ok(dead)
    }
}

impl Disk for Folder {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let _alive = self.alive()?;
        fs::create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let _alive = self.alive()?;
        RealDisk.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let _alive = self.alive()?;
        Ok(Arc::new(File {
            file: RealDisk.open(path, mode)?,
            folder: self.clone(),
        }))
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let _alive = self.alive()?;
        Ok(Arc::new(File {
            file: RealDisk.temporary(dir)?,
            folder: self.clone(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _alive = self.alive()?;
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let _alive = self.alive()?;
        RealDisk.remove(path)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        self.alive().map(drop)
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        // The dead hold no locks.
        drop(self.alive()?);
        Ok(Box::new(()))
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        let _alive = self.alive()?;
        RealDisk.available(dir)
    }

    fn barrier(&self, _dir: &Path) -> io::Result<Box<dyn Barrier>> {
        drop(self.alive()?);
        Ok(Box::new(self.clone()))
    }
}

impl Barrier for Folder {
    fn wait(&self) -> io::Result<()> {
        self.alive().map(drop)
    }
}

impl DiskFile for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let _alive = self.folder.alive()?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let _alive = self.folder.alive()?;
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        let _alive = self.folder.alive()?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let _alive = self.folder.alive()?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.alive().map(drop)
    }
}
