//! A simulated disk with faults on command: a rule names operations and files, and the error that they get.
//!
//! [`FaultyDisk`] passes everything on to a [`SimDisk`], unless a rule refuses it. An operation that is refused has not
//! happened. Rules can be added and lifted at any time.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use abide_storage::{Barrier, Disk, DiskFile, OpenMode, SimDisk};

/// "Input/output error" on Linux.
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
/// "No such file or directory".
pub const ENOENT: i32 = 2;

/// What is done to a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Open,
    Read,
    Write,
    SetLen,
    Len,
    Sync,
    Rename,
    Remove,
    List,
    CreateDir,
    OpenDir,
    SyncDir,
    Barrier,
}

impl Op {
    /// Those that need a descriptor.
    pub const OPENING: [Self; 4] = [Self::Open, Self::List, Self::OpenDir, Self::Barrier];
    /// Those of a file and its name, but for syncs.
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

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The operations that it meets.
    pub ops: Vec<Op>,
    /// A part of the paths that it meets.
    pub path: String,
    pub errno: i32,
    /// So many pass before the first that it meets.
    pub after: u32,
    /// How often it is still to come; `None`: always.
    pub times: Option<u32>,
}

#[derive(Default)]
struct Faults {
    list: Vec<Fault>,
    met: u64,
}

/// See the module. Clones share the disk and its faults.
#[derive(Clone, Default)]
pub struct FaultyDisk {
    pub sim: SimDisk,
    faults: Arc<Mutex<Faults>>,
}

impl FaultyDisk {
    pub fn new(sim: SimDisk) -> Self {
        Self {
            sim,
            faults: Arc::default(),
        }
    }

    /// From now on, operations on paths that contain `path` fail with `errno`.
    pub fn fail(&self, ops: &[Op], path: &str, errno: i32) {
        self.add(ops, path, errno, 0, None);
    }

    /// The same, but so many pass before.
    pub fn fail_after(&self, ops: &[Op], path: &str, errno: i32, after: u32) {
        self.add(ops, path, errno, after, None);
    }

    /// The next such operations fail, so many times.
    pub fn fail_times(&self, ops: &[Op], path: &str, errno: i32, times: u32) {
        self.add(ops, path, errno, 0, Some(times));
    }

    fn add(&self, ops: &[Op], path: &str, errno: i32, after: u32, times: Option<u32>) {
        let fault = Fault {
            ops: ops.to_vec(),
            path: path.to_owned(),
            errno,
            after,
            times,
        };
        self.faults().list.push(fault);
    }

    /// Lifts every fault.
    pub fn mend(&self) {
        self.faults().list.clear();
    }

    /// How many operations were refused so far.
    pub fn met(&self) -> u64 {
        self.faults().met
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, op: Op, path: &Path) -> io::Result<()> {
        let mut faults = self.faults();
        let text = path.to_string_lossy();
        let fault = faults.list.iter_mut().find(|fault| {
            fault.times != Some(0) && fault.ops.contains(&op) && text.contains(&fault.path)
        });
        let Some(fault) = fault else { return Ok(()) };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        if let Some(times) = &mut fault.times {
            *times -= 1;
        }
        let errno = fault.errno;
        faults.met += 1;
        Err(io::Error::from_raw_os_error(errno))
    }
}

impl Disk for FaultyDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check(Op::CreateDir, dir)?;
        self.sim.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.check(Op::List, dir)?;
        self.sim.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.check(Op::Open, path)?;
        Ok(Arc::new(FaultyFile {
            file: self.sim.open(path, mode)?,
            path: path.to_owned(),
            disk: self.clone(),
        }))
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.check(Op::Open, dir)?;
        self.sim.temporary(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Op::Rename, from)?;
        self.sim.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(Op::Remove, path)?;
        self.sim.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check(Op::OpenDir, dir)?;
        self.check(Op::SyncDir, dir)?;
        self.sim.sync_dir(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        self.check(Op::OpenDir, dir)?;
        let dir = dir.to_owned();
        Ok(Box::new(move || {
            self.check(Op::SyncDir, &dir)?;
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
        self.check(Op::Barrier, dir)?;
        self.sim.barrier(dir)
    }
}

struct FaultyFile {
    file: Arc<dyn DiskFile>,
    path: std::path::PathBuf,
    disk: FaultyDisk,
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.check(Op::Read, &self.path)?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.check(Op::Write, &self.path)?;
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.check(Op::Len, &self.path)?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.check(Op::SetLen, &self.path)?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.check(Op::Sync, &self.path)?;
        self.file.sync()
    }
}
