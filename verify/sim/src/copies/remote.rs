//! The runs that a lazy restore has left in the bucket, for the storage engine, which waits for nothing here: what is not answered
//! at once fails, and is tried again.

use std::{
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use abide::{
    history::{Error, Ranges, Store as Objects, StoredRun},
    storage::DiskFile,
};
use abide_storage::RemoteRuns;

/// How often a future is polled that waits for nothing but its next step.
const POLLS: u32 = 10_000;

/// See the module.
pub(super) struct LeftRuns(Arc<Ranges>);

struct LeftRun {
    ranges: Arc<Ranges>,
    run: StoredRun,
}

impl LeftRuns {
    pub(super) fn new(objects: &Objects) -> Self {
        Self(Arc::new(Ranges::new(objects)))
    }
}

/// The result of a future that waits for nothing.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    (0..POLLS).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

impl RemoteRuns for LeftRuns {
    fn open(&self, _: u64, place: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(LeftRun {
            ranges: Arc::clone(&self.0),
            run: StoredRun::at(place).map_err(io::Error::other)?,
        }))
    }
}

impl DiskFile for LeftRun {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = offset.min(self.run.bytes);
        let to = offset.saturating_add(buf.len() as u64).min(self.run.bytes);
        match at_once(self.ranges.read(&self.run, from..to)) {
            Some(Ok(bytes)) => {
                buf[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Some(Err(Error::Damaged { .. })) => Ok(0),
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(io::ErrorKind::TimedOut.into()),
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
