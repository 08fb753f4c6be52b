//! Temporary files of statements: for sorts, `GROUP BY`, `DISTINCT`, index builds and intermediate tables that exceed
//! SQLite's page cache.
//!
//! Contract: they are in `tmp/` of the data directory, have no name while in use, and disappear when their statement or
//! the process ends. If a crash leaves a name behind, the next start removes it. They never take the last space on the
//! disk: it belongs to commits, so a statement that would need it fails.

use crate::disk::{Disk, DiskFile};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::TEMPORARY_ROOM_CHECK_BYTES;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates a store's temporary files.
pub(crate) struct Temporary {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Bytes of the disk that these files leave free.
    reserve: u64,
    /// Bytes of the files that exist.
    bytes: AtomicU64,
    /// Bytes that were ever written.
    written: AtomicU64,
}

impl Temporary {
    /// Removes leftovers of an earlier process.
    pub(crate) fn new(disk: Arc<dyn Disk>, data_dir: &Path, reserve: u64) -> io::Result<Self> {
        let dir = data_dir.join("tmp");
        for name in disk.list(&dir)? {
            disk.remove(&dir.join(name))?;
        }
        Ok(Self {
            disk,
            dir,
            reserve,
            bytes: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Bytes of the files that exist now.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were written to such files since the start.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// An empty file.
    pub(crate) fn create(self: &Arc<Self>) -> Result<TemporaryFile> {
        let file = self.disk.temporary(&self.dir);
        Ok(TemporaryFile {
            file: file.map_err(|error| self.failed("making", &error))?,
            owner: self.clone(),
            len: Cell::new(0),
            unchecked: Cell::new(0),
        })
    }

    fn failed(&self, doing: &str, error: &io::Error) -> Error {
        let told = Error::io(
            format_args!("{doing} a temporary file in {}", self.dir.display()),
            error,
        );
        match told.kind() {
            ErrorKind::NoSpace => no_room(),
            _ => told,
        }
    }
}

/// A file of one statement, on its connection's thread, or of a past state.
pub(crate) struct TemporaryFile {
    file: Arc<dyn DiskFile>,
    owner: Arc<Temporary>,
    len: Cell<u64>,
    /// Bytes that may still be written before the disk's free space is checked again.
    unchecked: Cell<u64>,
}

impl TemporaryFile {
    /// Reads bytes; fewer only at the end.
    pub(crate) fn read(&self, out: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.file.read_at(out, offset);
        read.map_err(|error| self.owner.failed("reading", &error))
    }

    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.look_for_room(bytes.len() as u64)?;
        let written = self.file.write_at(bytes, offset);
        written.map_err(|error| self.owner.failed("writing", &error))?;
        self.set_len(self.len.get().max(offset + bytes.len() as u64));
        let written = bytes.len() as u64;
        self.owner.written.fetch_add(written, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn truncate(&self, len: u64) -> Result<()> {
        let cut = self.file.set_len(len);
        cut.map_err(|error| self.owner.failed("cutting", &error))?;
        self.set_len(len);
        Ok(())
    }

    pub(crate) fn len(&self) -> u64 {
        self.len.get()
    }

    fn set_len(&self, len: u64) {
        let before = self.len.replace(len);
        self.owner
            .bytes
            .fetch_add(len.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Rejects a write that could take space needed by commits.
    fn look_for_room(&self, bytes: u64) -> Result<()> {
        let left = self.unchecked.get();
        if bytes <= left {
            self.unchecked.set(left - bytes);
            return Ok(());
        }
        let available = self.owner.disk.available(&self.owner.dir);
        let available = available.map_err(|error| self.owner.failed("making room for", &error))?;
        let wanted = TEMPORARY_ROOM_CHECK_BYTES.max(bytes);
        if available < self.owner.reserve.saturating_add(wanted) {
            return Err(no_room());
        }
        self.unchecked.set(wanted - bytes);
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        self.set_len(0);
    }
}

fn no_room() -> Error {
    Error::new(
        ErrorKind::NoSpace,
        "no space for the statement's temporary file: its sort or intermediate result does not fit into memory. Free space on the \
         disk of the data directory, or make the statement collect less (an index in the desired order, a LIMIT)",
    )
}
