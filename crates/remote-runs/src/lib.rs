//! Runs of history in an object store, for the storage engine to read: those that a lazy restore has left there, and those that the members
//! of a cluster share.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

use std::{
    io,
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

use abide_history::{Error, Ranges, Store as Copies, StoredRun};
use abide_storage::{DiskFile, RemoteRuns};
use bytes::Bytes;
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

/// The longest time that a thread waits for a part of a run.
pub const READ_WAIT: Duration = Duration::from_secs(20);

/// The runs of a store. Their places are those of [`StoredRun::place`].
///
/// A read blocks its thread, at most for [`READ_WAIT`]. It fails while the store does not answer or does not have the run. What is damaged
/// there reads as the end of the file, which the reader of a run reports as damage.
#[derive(Debug)]
pub struct StoredRuns(Arc<Inner>);

/// The threads that wait for the store.
#[derive(Debug)]
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        // Without waiting: this may be a thread that must not.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Debug)]
struct Inner {
    ranges: Arc<Ranges>,
    /// Begun with the first read: most directories read no such runs.
    threads: OnceLock<Threads>,
}

#[derive(Debug)]
struct FileOfRun {
    of: Arc<Inner>,
    run: Arc<StoredRun>,
}

impl StoredRuns {
    /// Asks nothing yet.
    pub fn new(copies: &Copies) -> Self {
        Self(Arc::new(Inner {
            ranges: Arc::new(Ranges::new(copies)),
            threads: OnceLock::new(),
        }))
    }
}

impl RemoteRuns for StoredRuns {
    fn open(&self, number: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        let run = StoredRun::at(place).map_err(io::Error::other)?;
        if run.number != number {
            return Err(io::Error::other(format!("{place} is another run")));
        }
        Ok(Arc::new(FileOfRun {
            of: Arc::clone(&self.0),
            run: Arc::new(run),
        }))
    }
}

impl Inner {
    fn threads(&self) -> io::Result<&Threads> {
        if let Some(threads) = self.threads.get() {
            return Ok(threads);
        }
        let begun = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("abide-runs")
            .enable_all()
            .build()?;
        // Another thread may have begun its own; then this one ends.
        Ok(self.threads.get_or_init(|| Threads(Some(begun))))
    }

    /// Waits for the bytes without being part of an async runtime: the caller may be a thread of one.
    fn read(&self, run: &Arc<StoredRun>, from: u64, to: u64) -> io::Result<Result<Bytes, Error>> {
        let (tell, told) = mpsc::sync_channel(1);
        let (ranges, run) = (Arc::clone(&self.ranges), Arc::clone(run));
        let Threads(Some(runtime)) = self.threads()? else {
            return Err(io::ErrorKind::Interrupted.into());
        };
        runtime.spawn(async move {
            let read = timeout(READ_WAIT, ranges.read(&run, from..to)).await;
            let _ = tell.send(read);
        });
        let read = told
            .recv()
            .map_err(|_| io::Error::from(io::ErrorKind::Interrupted))?;
        read.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the store does not answer"))
    }
}

impl DiskFile for FileOfRun {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = offset.min(self.run.bytes);
        let to = offset.saturating_add(buf.len() as u64).min(self.run.bytes);
        if from == to {
            return Ok(0);
        }
        match self.of.read(&self.run, from, to)? {
            Ok(bytes) => {
                buf[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Err(error @ Error::Damaged { .. }) => {
                tracing::error!(%error, "a run in the object store is damaged");
                Ok(0)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.run.bytes)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
