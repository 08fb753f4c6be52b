//! Runs that are not on the disk, but in a store elsewhere.

use crate::disk::DiskFile;
use std::io;
use std::sync::Arc;

/// A store that has runs of the archive. Reads block.
pub trait RemoteRuns: Send + Sync {
    /// The file of a run, to be read. `place` is what [`RestoreOptions::remote`](crate::RestoreOptions::remote) or [`Store::runs_copied`](crate::Store::runs_copied)
    /// said of it. It need not ask the store.
    ///
    /// An error of a read means that the store cannot be asked now, or does not have the run now: it is tried again later, and no
    /// run counts as damaged for it. A run that is damaged in the store is read as it is there.
    ///
    /// # Errors
    /// If it does not know such a place.
    fn open(&self, number: u64, place: &str) -> io::Result<Arc<dyn DiskFile>>;
}
