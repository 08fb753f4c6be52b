//! The operating system's file system.

use super::{Barrier, Disk, DiskFile, OpenMode};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Objects hold private data: only the program's own user can read what is created here.
const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// The operating system's file system, by `pread`, `pwrite`, `fdatasync`, `syncfs`, `statvfs` and `flock`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        self.create_dir_all(parent)?;
        match DirBuilder::new().mode(PRIVATE_DIR).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.sync_dir(parent)
    }

    fn others_may_read(&self, dir: &Path) -> bool {
        fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(mode == OpenMode::Create)
            .truncate(false)
            .mode(PRIVATE_FILE)
            .open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        match DirBuilder::new().mode(PRIVATE_DIR).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!("{}-{number}", std::process::id()));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(PRIVATE_FILE)
            .open(&path)?;
        // The kernel keeps an unlinked file until its descriptor is closed, however the process ends.
        fs::remove_file(&path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        let dir = File::open(dir)?;
        Ok(Box::new(move || dir.sync_all()))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE_FILE)
            .open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(Lock(file)))
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        Ok(Box::new(FileSystem(File::open(dir)?)))
    }
}

/// The lock of a file.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is just being started has the file until it is executed.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            match self.0.read_at(&mut buf[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Since Linux 5.8 `syncfs` reports write-back errors that happened since its descriptor was opened.
struct FileSystem(File);

impl Barrier for FileSystem {
    fn wait(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_a_child_process_still_has_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let file = File::create(&path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let of_child = file.try_clone().unwrap();
        let refused = RealDisk.lock(&path).map(drop).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(Lock(file));
        RealDisk.lock(&path).unwrap();
        drop(of_child);
    }
}
