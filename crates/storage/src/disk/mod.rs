//! The file system interface: every disk operation of the engine goes through [`Disk`].
//!
//! Implementations: [`RealDisk`]; [`SimDisk`], which is in memory and loses and tears unsynced data when its power is
//! cut; [`FaultyDisk`], a [`SimDisk`] whose operations fail, wait or panic on command; and [`ScratchDisk`], which leaves the
//! files that it shows unchanged. The contract is the weakest
//! that POSIX allows: a write is durable after [`DiskFile::sync`] of that file, a created, renamed or removed name
//! after [`Disk::sync_dir`] of its directory, and either after [`Barrier::wait`]. After a failed sync it is unknown
//! what is durable, and another sync does not tell.

mod faulty;
mod real;
mod scratch;
mod sim;

pub use faulty::{DiskOp, Fault, FaultyDisk, errno};
pub use real::RealDisk;
pub use scratch::ScratchDisk;
pub use sim::{DiskEvent, SimDisk};

use crate::error::{Error, Result};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Makes the names in a directory durable. If the directory cannot be opened, nothing was attempted, and the caller may
/// retry.
pub(crate) fn sync_names(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let doing = || format!("syncing the directory {}", dir.display());
    let names = disk.names(dir);
    let names = names.map_err(|error| Error::io(doing(), &error))?;
    names().map_err(|error| Error::sync(doing(), &error))
}

/// How [`Disk::open`] treats a missing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist.
    Existing,
    /// The file is created if it does not exist. The name is durable after [`Disk::sync_dir`].
    Create,
}

/// The part of a file system that the engine needs.
pub trait Disk: Send + Sync + 'static {
    /// Creates a directory and its missing parents, durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Returns whether other users of the machine can read a directory.
    fn others_may_read(&self, _dir: &Path) -> bool {
        false
    }
    /// The names in a directory; none if it does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// The length of a file, without keeping it open.
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.open(path, OpenMode::Existing)?.len()
    }
    /// Creates an empty file without a name, on the file system of `dir`, which is created if it does not exist. It
    /// disappears when its last handle is dropped or the process ends; it is never durable.
    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file within its directory, replacing any file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory, which must be empty. A disk that stores no directories has nothing to remove.
    fn remove_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Opens a directory and returns a function that makes its names durable, as [`Disk::sync_dir`] does. For callers
    /// that must not discover only after a rename that no descriptors are left.
    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        let dir = dir.to_owned();
        Ok(Box::new(move || self.sync_dir(&dir)))
    }
    /// Takes the exclusive lock that a file represents, until the guard is dropped.
    /// [`io::ErrorKind::WouldBlock`] if another holder has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// Bytes that can still be written to the file system of a directory.
    fn available(&self, dir: &Path) -> io::Result<u64>;
    /// Begins a barrier. Begin it before the writes that it shall cover, so that no error is missed.
    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all bytes, growing the file if needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// True if the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the file's content and length durable.
    fn sync(&self) -> io::Result<()>;
}

/// A sync of everything written to a file system.
pub trait Barrier: Send {
    /// Returns when all writes, names and lengths up to this call are durable.
    fn wait(&self) -> io::Result<()>;
}
