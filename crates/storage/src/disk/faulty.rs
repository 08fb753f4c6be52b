//! A simulated disk with faults on command.
//!
//! [`FaultyDisk`] passes every operation on to a [`SimDisk`], unless a rule covers it. A rule selects operations by
//! kind and by a part of the path. A covered operation fails, waits or panics, as the rule's [`Fault`] specifies; if it
//! fails or panics, it has no effect. Rules can be added and cleared at any time.

use super::{Barrier, Disk, DiskFile, OpenMode, SimDisk};
use crate::sync::{Condvar, Mutex};
use crate::timing;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long [`FaultyDisk::wait_until_held`] waits.
const HELD_WITHIN: Duration = Duration::from_mins(1);

/// Linux error numbers.
pub mod errno {
    /// "No such file or directory".
    pub const ENOENT: i32 = 2;
    /// "Input/output error".
    pub const EIO: i32 = 5;
    /// "Cannot allocate memory".
    pub const ENOMEM: i32 = 12;
    /// "Permission denied".
    pub const EACCES: i32 = 13;
    /// "Is a directory".
    pub const EISDIR: i32 = 21;
    /// "Too many open files in system".
    pub const ENFILE: i32 = 23;
    /// "Too many open files".
    pub const EMFILE: i32 = 24;
    /// "No space left on device".
    pub const ENOSPC: i32 = 28;
}

/// An operation on a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// [`Disk::open`] and [`Disk::temporary`].
    Open,
    /// [`DiskFile::read_at`].
    Read,
    /// [`DiskFile::write_at`].
    Write,
    /// [`DiskFile::set_len`].
    SetLen,
    /// [`DiskFile::len`].
    Len,
    /// [`DiskFile::sync`].
    Sync,
    /// [`Disk::rename`], by the old name.
    Rename,
    /// [`Disk::remove`].
    Remove,
    /// [`Disk::list`].
    List,
    /// [`Disk::create_dir_all`].
    CreateDir,
    /// The opening of a directory by [`Disk::sync_dir`] and [`Disk::names`].
    OpenDir,
    /// The sync of a directory by [`Disk::sync_dir`] and [`Disk::names`].
    SyncDir,
    /// [`Disk::barrier`].
    Barrier,
    /// [`Barrier::wait`], by the directory of the barrier.
    BarrierWait,
}

impl DiskOp {
    /// Operations that need a descriptor.
    pub const OPENING: [Self; 4] = [Self::Open, Self::List, Self::OpenDir, Self::Barrier];

    /// Operations on a file and its name, except syncs.
    pub const OF_FILES: [Self; 7] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Len,
        Self::Rename,
        Self::Remove,
    ];
}

/// What happens to an operation that a rule covers.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    effect: Effect,
    after: u32,
    times: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Effect {
    Fail(i32),
    Hold,
    Panic,
}

impl Fault {
    const fn new(effect: Effect) -> Self {
        Self {
            effect,
            after: 0,
            times: None,
        }
    }

    /// The operation fails with this error number of the operating system.
    pub const fn error(errno: i32) -> Self {
        Self::new(Effect::Fail(errno))
    }

    /// The operation panics, and all rules are cleared.
    pub const fn panic() -> Self {
        Self::new(Effect::Panic)
    }

    /// The first `count` operations succeed.
    #[must_use]
    pub const fn after(self, count: u32) -> Self {
        Self {
            after: count,
            ..self
        }
    }

    /// The fault occurs `count` times.
    #[must_use]
    pub const fn times(self, count: u32) -> Self {
        Self {
            times: Some(count),
            ..self
        }
    }
}

struct Rule {
    ops: Vec<DiskOp>,
    path: String,
    fault: Fault,
}

#[derive(Default)]
struct Rules {
    list: Vec<Rule>,
    /// Operations that are waiting now.
    held: usize,
}

#[derive(Default)]
struct Shared {
    rules: Mutex<Rules>,
    changed: Condvar,
    /// False while there are no rules. An atomic of the standard library even in a model: a disk without rules adds no
    /// scheduling step.
    has_rules: AtomicBool,
    failed: AtomicU64,
}

/// See the module. Clones share the disk and its rules.
#[derive(Clone, Default)]
pub struct FaultyDisk {
    /// The underlying disk.
    pub sim: SimDisk,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultyDisk")
            .field("sim", &self.sim)
            .finish_non_exhaustive()
    }
}

impl FaultyDisk {
    /// A disk without faults so far.
    pub fn new(sim: SimDisk) -> Self {
        Self {
            sim,
            shared: Arc::default(),
        }
    }

    /// From now on, these operations on paths that contain `path` fail with `errno`.
    pub fn fail(&self, ops: &[DiskOp], path: &str, errno: i32) {
        self.inject(ops, path, Fault::error(errno));
    }

    /// From now on, these operations on paths that contain `path` wait until the rules are cleared.
    pub fn hold(&self, ops: &[DiskOp], path: &str) {
        self.inject(ops, path, Fault::new(Effect::Hold));
    }

    /// Adds a rule. The first rule that covers an operation applies.
    pub fn inject(&self, ops: &[DiskOp], path: &str, fault: Fault) {
        let rule = Rule {
            ops: ops.to_vec(),
            path: path.to_owned(),
            fault,
        };
        self.shared.rules.lock().list.push(rule);
        self.shared.has_rules.store(true, Ordering::SeqCst);
    }

    /// Removes every rule; waiting operations continue.
    pub fn clear(&self) {
        self.shared.has_rules.store(false, Ordering::SeqCst);
        self.shared.rules.lock().list.clear();
        self.shared.changed.notify_all();
    }

    /// Returns once an operation is waiting.
    ///
    /// # Panics
    /// None waits within a minute.
    pub fn wait_until_held(&self) {
        let deadline = timing::now() + HELD_WITHIN;
        let mut rules = self.shared.rules.lock();
        while rules.held == 0 {
            let left = deadline.saturating_duration_since(timing::now());
            assert!(!left.is_zero(), "no operation is held");
            rules = self.shared.changed.wait_timeout(rules, left);
        }
    }

    /// The number of operations that failed because of a rule.
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    fn check(&self, op: DiskOp, path: &Path) -> io::Result<()> {
        if !self.shared.has_rules.load(Ordering::SeqCst) {
            return Ok(());
        }
        let text = path.to_string_lossy();
        let mut rules = self.shared.rules.lock();
        loop {
            let covers = |rule: &&mut Rule| {
                rule.fault.times != Some(0) && rule.ops.contains(&op) && text.contains(&rule.path)
            };
            let Some(Rule { fault, .. }) = rules.list.iter_mut().find(covers) else {
                return Ok(());
            };
            if fault.after > 0 {
                fault.after -= 1;
                return Ok(());
            }
            if let Some(times) = &mut fault.times {
                *times -= 1;
            }
            match fault.effect {
                Effect::Fail(errno) => {
                    self.shared.failed.fetch_add(1, Ordering::Relaxed);
                    return Err(io::Error::from_raw_os_error(errno));
                }
                Effect::Panic => {
                    rules.list.clear();
                    drop(rules);
                    panic!("the disk panics on purpose");
                }
                Effect::Hold => {
                    rules.held += 1;
                    self.shared.changed.notify_all();
                    rules = self.shared.changed.wait(rules);
                    rules.held -= 1;
                }
            }
        }
    }
}

impl Disk for FaultyDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check(DiskOp::CreateDir, dir)?;
        self.sim.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.check(DiskOp::List, dir)?;
        self.sim.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.check(DiskOp::Open, path)?;
        Ok(Arc::new(FaultyFile {
            file: self.sim.open(path, mode)?,
            path: path.to_owned(),
            disk: self.clone(),
        }))
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check(DiskOp::Open, dir)?;
        self.sim.temporary(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(DiskOp::Rename, from)?;
        self.sim.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(DiskOp::Remove, path)?;
        self.sim.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.check(DiskOp::Remove, dir)?;
        self.sim.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.names(dir)?()
    }

    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        self.check(DiskOp::OpenDir, dir)?;
        let dir = dir.to_owned();
        Ok(Box::new(move || {
            self.check(DiskOp::SyncDir, &dir)?;
            self.sim.sync_dir(&dir)
        }))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.sim.lock(path)
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.sim.available(dir)
    }

    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        self.check(DiskOp::Barrier, dir)?;
        Ok(Box::new(FaultyBarrier {
            barrier: self.sim.barrier(dir)?,
            dir: dir.to_owned(),
            disk: self.clone(),
        }))
    }
}

struct FaultyBarrier {
    barrier: Box<dyn Barrier>,
    dir: PathBuf,
    disk: FaultyDisk,
}

impl Barrier for FaultyBarrier {
    fn wait(&self) -> io::Result<()> {
        self.disk.check(DiskOp::BarrierWait, &self.dir)?;
        self.barrier.wait()
    }
}

struct FaultyFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    disk: FaultyDisk,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.check(DiskOp::Read, &self.path)?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.check(DiskOp::Write, &self.path)?;
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.check(DiskOp::Len, &self.path)?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.check(DiskOp::SetLen, &self.path)?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.check(DiskOp::Sync, &self.path)?;
        self.file.sync()
    }
}
