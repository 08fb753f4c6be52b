//! Disks and clocks that lie. What they do wrong is what a careless engine would make of an honest disk or clock, so no code of
//! the product has to be broken for it.

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use abide::{
    clock::{Clock, Sleep, TestClock},
    storage::{Barrier, Disk, DiskFile, OpenMode, SimDisk},
};
use abide_sim::Machine;

/// What a machine does wrong. The first sentence says how, the second which promise is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A sync of the log returns before anything is written. Nothing leaves before it is durable.
    LogSyncedLate,
    /// A sync of the log does nothing. Acknowledged writes survive.
    LogUnsynced,
    /// A sync of the log that failed says that it did not. Acknowledged writes survive.
    FailedSyncIgnored,
    /// A sync of the log that failed is tried again, and its second answer is believed. A node starts after every crash.
    FailedSyncRetried,
    /// A segment's header is not synced before its first record. A node starts after every crash.
    HeaderUnsynced,
    /// What recovery has read is not written anew and synced before more is built on it. A node starts after every crash.
    RecoveredUnsynced,
    /// Objects' files are not synced. Acknowledged writes survive.
    FilesUnsynced,
    /// Directories of objects' files are not synced. Acknowledged writes survive.
    NamesUnsynced,
    /// The manifest is renamed before it is synced. A node starts after every crash.
    ManifestUnsynced,
    /// The wall clock does not go back when it is set back. Alarms do not go off early.
    ClockNeverBack,
    /// The wall clock is a second fast. Alarms do not go off early.
    ClockFast,
}

impl Lie {
    /// All of them.
    pub(crate) const ALL: &[Self] = &[
        Self::LogSyncedLate,
        Self::LogUnsynced,
        Self::FailedSyncIgnored,
        Self::FailedSyncRetried,
        Self::HeaderUnsynced,
        Self::RecoveredUnsynced,
        Self::FilesUnsynced,
        Self::NamesUnsynced,
        Self::ManifestUnsynced,
        Self::ClockNeverBack,
        Self::ClockFast,
    ];
}

/// A machine that lies so.
impl Machine for Lie {
    fn disk(&self, disk: &SimDisk) -> Arc<dyn Disk> {
        Arc::new(LyingDisk {
            disk: disk.clone(),
            lie: *self,
            recovered: Arc::default(),
        })
    }

    fn clock(&self, clock: &TestClock) -> Arc<dyn Clock> {
        Arc::new(LyingClock {
            clock: clock.clone(),
            lie: *self,
            latest: AtomicU64::new(0),
        })
    }
}

/// The disk of one life of the process.
struct LyingDisk {
    disk: SimDisk,
    lie: Lie,
    /// The manifest of this life has been published, which is the end of recovery.
    recovered: Arc<AtomicBool>,
}

impl Disk for LyingDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path, mode)?;
        let is_of_log = is_in(path, "log");
        let is_told = match self.lie {
            Lie::LogSyncedLate
            | Lie::LogUnsynced
            | Lie::FailedSyncIgnored
            | Lie::FailedSyncRetried
            | Lie::HeaderUnsynced
            | Lie::RecoveredUnsynced => is_of_log,
            Lie::FilesUnsynced => is_in(path, "objects"),
            Lie::ManifestUnsynced => path.ends_with("MANIFEST.new"),
            Lie::NamesUnsynced | Lie::ClockNeverBack | Lie::ClockFast => false,
        };
        if !is_told {
            return Ok(file);
        }
        Ok(Arc::new(LyingFile {
            file,
            lie: self.lie,
            recovered: self.recovered.clone(),
            unsynced: Mutex::default(),
        }))
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.temporary(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)?;
        if to.ends_with("MANIFEST") {
            self.recovered.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.lie == Lie::NamesUnsynced && is_in(dir, "objects") {
            return Ok(());
        }
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.disk.available(dir)
    }

    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        if self.lie == Lie::FilesUnsynced {
            return Ok(Box::new(NoBarrier));
        }
        self.disk.barrier(dir)
    }
}

fn is_in(path: &Path, dir: &str) -> bool {
    path.components().any(|part| part.as_os_str() == dir)
}

struct NoBarrier;

impl Barrier for NoBarrier {
    fn wait(&self) -> io::Result<()> {
        Ok(())
    }
}

struct LyingFile {
    file: Arc<dyn DiskFile>,
    lie: Lie,
    recovered: Arc<AtomicBool>,
    /// The offsets written since the last sync.
    unsynced: Mutex<BTreeSet<u64>>,
}

impl LyingFile {
    fn recovers(&self) -> bool {
        self.lie == Lie::RecoveredUnsynced && !self.recovered.load(Ordering::Relaxed)
    }
}

impl DiskFile for LyingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.recovers() {
            return Ok(());
        }
        let mut unsynced = self.unsynced.lock().expect("no holder panics");
        if self.lie == Lie::LogSyncedLate && !unsynced.is_empty() {
            self.file.sync()?;
            unsynced.clear();
        }
        unsynced.insert(offset);
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let mut unsynced = self.unsynced.lock().expect("no holder panics");
        match self.lie {
            Lie::LogSyncedLate | Lie::LogUnsynced | Lie::FilesUnsynced | Lie::ManifestUnsynced => {
                return Ok(());
            }
            Lie::RecoveredUnsynced if self.recovers() => return Ok(()),
            // A header alone: it is the first block of a segment.
            Lie::HeaderUnsynced if unsynced.len() == 1 && unsynced.contains(&0) => return Ok(()),
            _ => {}
        }
        unsynced.clear();
        let synced = self.file.sync();
        match self.lie {
            Lie::FailedSyncIgnored => Ok(()),
            Lie::FailedSyncRetried => synced.or_else(|_| self.file.sync()),
            _ => synced,
        }
    }
}

struct LyingClock {
    clock: TestClock,
    lie: Lie,
    latest: AtomicU64,
}

impl Clock for LyingClock {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn unix_millis(&self) -> u64 {
        let now = self.clock.unix_millis();
        match self.lie {
            Lie::ClockNeverBack => self.latest.fetch_max(now, Ordering::Relaxed).max(now),
            Lie::ClockFast => now + 1_000,
            _ => now,
        }
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.clock.sleep_until(deadline)
    }
}
