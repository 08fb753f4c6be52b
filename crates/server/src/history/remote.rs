//! The runs of a manifest in the store, as a disk that can only be read.
//!
//! Contract: it shows `archive/NUMBER.run` of each run that the manifest lists, and asks the store for what is read. Reads block, so
//! they are for threads that may wait. What the store has lost, or has too little of, reads as the end of the file, which the reader
//! of a run reports as damage; [`RemoteRuns::take_damage`] says more.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use abide_history::{Error, Manifest, Ranges, StoredRun};
use abide_storage::{Barrier, Disk, DiskFile, OpenMode};
use tokio::{runtime::Handle, sync::watch};

/// See the module. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct RemoteRuns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    runs: BTreeMap<String, StoredRun>,
    ranges: Arc<Ranges>,
    threads: Handle,
    /// Reads end when this is true.
    stop: watch::Receiver<bool>,
    damage: Mutex<Option<String>>,
}

struct RemoteRun {
    disk: RemoteRuns,
    run: StoredRun,
}

impl RemoteRuns {
    /// The runs of a manifest, as those of a data directory `dir`.
    pub(super) fn new(
        dir: &Path,
        manifest: &Manifest,
        ranges: Arc<Ranges>,
        threads: Handle,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let runs = manifest.runs.iter();
        let runs = runs.map(|run| (format!("{:016x}.run", run.number), run.clone()));
        Self(Arc::new(Inner {
            dir: dir.join("archive"),
            runs: runs.collect(),
            ranges,
            threads,
            stop,
            damage: Mutex::default(),
        }))
    }

    /// What was found damaged or missing last, and has not been taken.
    pub(super) fn take_damage(&self) -> Option<String> {
        let mut damage = self.0.damage.lock().unwrap_or_else(PoisonError::into_inner);
        damage.take()
    }

    fn find(&self, path: &Path) -> io::Result<&StoredRun> {
        let is_here = path.parent() == Some(&self.0.dir);
        let name = path.file_name().and_then(|name| name.to_str());
        let run = name
            .filter(|_| is_here)
            .and_then(|name| self.0.runs.get(name));
        run.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Waits for something of the store, unless it is to stop.
pub(super) fn wait<T>(
    threads: &Handle,
    stop: &watch::Receiver<bool>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut stop = stop.clone();
    threads.block_on(async {
        tokio::select! {
            // First, because a runtime that has ended has no clock.
            biased;
            _ = stop.wait_for(|stop| *stop) => None,
            done = work => Some(done),
        }
    })
}

impl DiskFile for RemoteRun {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = offset.min(self.run.bytes);
        let to = offset.saturating_add(buf.len() as u64).min(self.run.bytes);
        if from == to {
            return Ok(0);
        }
        let inner = &*self.disk.0;
        let reading = inner.ranges.read(&self.run, from..to);
        let read = wait(&inner.threads, &inner.stop, reading);
        match read.ok_or(io::ErrorKind::Interrupted)? {
            Ok(bytes) => {
                buf[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Err(error @ (Error::Missing { .. } | Error::Damaged { .. })) => {
                let mut damage = inner.damage.lock().unwrap_or_else(PoisonError::into_inner);
                *damage = Some(error.to_string());
                Ok(0)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        read_only()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.run.bytes)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn sync(&self) -> io::Result<()> {
        read_only()
    }
}

impl Disk for RemoteRuns {
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if dir != self.0.dir {
            return Ok(Vec::new());
        }
        Ok(self.0.runs.keys().cloned().collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        if mode != OpenMode::Existing {
            return read_only();
        }
        let run = self.find(path)?.clone();
        let disk = self.clone();
        Ok(Arc::new(RemoteRun { disk, run }))
    }

    fn temporary(&self, _: &Path) -> io::Result<Arc<dyn DiskFile>> {
        read_only()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        read_only()
    }

    fn available(&self, _: &Path) -> io::Result<u64> {
        Ok(0)
    }

    fn barrier(&self, _: &Path) -> io::Result<Box<dyn Barrier>> {
        read_only()
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}
