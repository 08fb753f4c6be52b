//! The runs that a lazy restore has left in the store, for the storage engine to read.
//!
//! Contract: a read blocks its thread, at most for [`limits::LEFT_RUN_WAIT`]. It fails while the store does not answer or does not have the
//! run. What is damaged there reads as the end of the file, which the reader of a run reports as damage.

use std::{
    io,
    sync::{Arc, OnceLock, mpsc},
};

use abide_history::{Error, Ranges, Store as Copies, StoredRun};
use abide_storage::{DiskFile, RemoteRuns};
use bytes::Bytes;
use tokio::{runtime::Builder, time::timeout};

use super::copier::Threads;
use crate::limits;

/// See the module.
#[derive(Debug)]
pub(super) struct LeftRuns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ranges: Arc<Ranges>,
    /// Begun with the first read: most directories have no such runs.
    threads: OnceLock<Threads>,
}

#[derive(Debug)]
struct LeftRun {
    of: Arc<Inner>,
    run: Arc<StoredRun>,
}

impl LeftRuns {
    pub(super) fn new(copies: &Copies) -> Self {
        Self(Arc::new(Inner {
            ranges: Arc::new(Ranges::new(copies)),
            threads: OnceLock::new(),
        }))
    }
}

impl RemoteRuns for LeftRuns {
    fn open(&self, number: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        let run = StoredRun::at(place).map_err(io::Error::other)?;
        if run.number != number {
            return Err(io::Error::other(format!("{place} is another run")));
        }
        Ok(Arc::new(LeftRun {
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
            let read = timeout(limits::LEFT_RUN_WAIT, ranges.read(&run, from..to)).await;
            let _ = tell.send(read);
        });
        let read = told
            .recv()
            .map_err(|_| io::Error::from(io::ErrorKind::Interrupted))?;
        read.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the store does not answer"))
    }
}

impl DiskFile for LeftRun {
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
                tracing::error!(%error, "a run in the store of archive.url is damaged");
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
