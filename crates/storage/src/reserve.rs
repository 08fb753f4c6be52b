//! The reserve: disk space that is kept for what a start must write.
//!
//! A start writes the manifest with its new epoch before it can serve reads. On a full disk there is no room for that,
//! so the data directory has a file of zeros, `RESERVE`, whose space is given up for it. Replacing the manifest frees
//! the old one, so the reserve can usually be filled again at once; otherwise maintenance fills it when there is room.
//! Only a start uses it: what a running node cannot write, it can refuse.

use crate::disk::{Disk, OpenMode, sync_names};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{PAGE_BYTES, RECOVERY_RESERVE_BYTES};
use crate::sync::atomic::{AtomicBool, Ordering};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NAME: &str = "RESERVE";

/// Bytes written at a time.
const CHUNK: usize = 64 * 1024;

/// The reserve of a data directory.
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    is_full: AtomicBool,
}

impl Reserve {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self {
            disk,
            path: dir.join(NAME),
            is_full: AtomicBool::new(false),
        }
    }

    /// Writes something that a start needs. If the disk is full, gives the reserve up for it.
    pub(crate) fn spend(&self, write: impl Fn() -> Result<()>) -> Result<()> {
        match write() {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                self.give_up()?;
                tracing::warn!(
                    path = %self.path.display(),
                    "the disk is full: starting with the space that is reserved for this"
                );
                write()
            }
            written => written,
        }
    }

    fn give_up(&self) -> Result<()> {
        let open = self.disk.open(&self.path, OpenMode::Existing);
        let emptied = open.and_then(|file| file.set_len(0).and_then(|()| file.sync()));
        match emptied {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(
                format_args!("giving up {}", self.path.display()),
                &error,
            )),
            _ => Ok(()),
        }
    }

    /// Fills the reserve as far as there is room, unless it is known to be full.
    pub(crate) fn fill(&self) {
        if self.is_full.load(Ordering::Relaxed) {
            return;
        }
        match self.try_fill() {
            Ok(()) => self.is_full.store(true, Ordering::Relaxed),
            Err(error) => {
                tracing::debug!(%error, "the space that a start on a full disk needs is not all reserved yet");
            }
        }
    }

    fn try_fill(&self) -> Result<()> {
        let doing = || format!("reserving space in {}", self.path.display());
        let failed = |error| Error::io(doing(), &error);
        let file = self
            .disk
            .open(&self.path, OpenMode::Create)
            .map_err(failed)?;
        let mut at = file.len().map_err(failed)?;
        if at >= RECOVERY_RESERVE_BYTES {
            return Ok(());
        }
        let chunk = vec![0; CHUNK];
        let mut zeros = &chunk[..];
        let mut filled = Ok(());
        while at < RECOVERY_RESERVE_BYTES {
            let n = zeros.len().min((RECOVERY_RESERVE_BYTES - at) as usize);
            match file.write_at(&zeros[..n], at) {
                Ok(()) => at += n as u64,
                // Every block counts.
                Err(_) if zeros.len() > PAGE_BYTES => zeros = &zeros[..PAGE_BYTES],
                Err(error) => {
                    filled = Err(failed(error));
                    break;
                }
            }
        }
        file.sync().map_err(failed)?;
        if let Some(dir) = self.path.parent() {
            sync_names(&*self.disk, dir)?;
        }
        filled
    }
}
