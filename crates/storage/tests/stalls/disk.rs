//! A simulated disk whose operations can be held, refused, or made to panic, by a part of the path.
#![allow(unreachable_pub, reason = "a module of a test binary")]

use abide_storage::{Barrier, Disk, DiskFile, OpenMode, SimDisk};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// "Too many open files" on Linux.
pub const EMFILE: i32 = 24;
/// "Input/output error".
pub const EIO: i32 = 5;
/// "No space left on device".
pub const ENOSPC: i32 = 28;

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Open,
    Read,
    Sync,
    Rename,
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It waits until the rule is lifted.
    Hold,
    /// It fails with this number, so many times, after so many that do not.
    Fail {
        errno: i32,
        times: u32,
        after: u32,
    },
    Panic,
}

struct Rule {
    op: Op,
    path: String,
    effect: Effect,
}

#[derive(Default)]
struct Rules {
    list: Vec<Rule>,
    /// Operations that wait now.
    held: usize,
}

/// See the module. Clones share the disk and its rules.
#[derive(Clone, Default)]
pub struct SlowDisk {
    pub sim: SimDisk,
    rules: Arc<(Mutex<Rules>, Condvar)>,
}

impl SlowDisk {
    pub fn new(sim: SimDisk) -> Self {
        let rules = Arc::default();
        Self { sim, rules }
    }

    /// From now on such operations wait.
    pub fn hold(&self, op: Op, path: &str) {
        self.add(op, path, Effect::Hold);
    }

    /// The next such operations fail, so many times.
    pub fn fail(&self, op: Op, path: &str, errno: i32, times: u32) {
        self.fail_after(op, path, errno, times, 0);
    }

    /// The same, but so many pass before.
    pub fn fail_after(&self, op: Op, path: &str, errno: i32, times: u32, after: u32) {
        let effect = Effect::Fail {
            errno,
            times,
            after,
        };
        self.add(op, path, effect);
    }

    /// The next such operation panics.
    pub fn panic(&self, op: Op, path: &str) {
        self.add(op, path, Effect::Panic);
    }

    fn add(&self, op: Op, path: &str, effect: Effect) {
        let path = path.to_owned();
        self.rules().list.push(Rule { op, path, effect });
    }

    /// Lifts every rule.
    pub fn release(&self) {
        self.rules().list.clear();
        self.rules.1.notify_all();
    }

    /// Returns when an operation is held.
    pub fn wait_until_held(&self) {
        let mut rules = self.rules();
        while rules.held == 0 {
            rules = self
                .rules
                .1
                .wait_timeout(rules, Duration::from_mins(1))
                .map_or_else(
                    |_| panic!("a test thread panicked"),
                    |(rules, timeout)| {
                        assert!(!timeout.timed_out(), "nothing was held in a minute");
                        rules
                    },
                );
        }
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, op: Op, path: &Path) -> io::Result<()> {
        let text = path.to_string_lossy();
        let mut rules = self.rules();
        loop {
            let met = rules.list.iter_mut().find(|rule| {
                let spent = matches!(rule.effect, Effect::Fail { times: 0, .. });
                !spent && rule.op == op && text.contains(&rule.path)
            });
            match met.map(|rule| &mut rule.effect) {
                None => return Ok(()),
                Some(Effect::Fail { after, .. }) if *after > 0 => {
                    *after -= 1;
                    return Ok(());
                }
                Some(Effect::Fail { errno, times, .. }) => {
                    *times -= 1;
                    return Err(io::Error::from_raw_os_error(*errno));
                }
                Some(Effect::Panic) => {
                    rules.list.clear();
                    drop(rules);
                    panic!("the disk panics on purpose");
                }
                Some(Effect::Hold) => {
                    rules.held += 1;
                    self.rules.1.notify_all();
                    rules = self
                        .rules
                        .1
                        .wait(rules)
                        .unwrap_or_else(PoisonError::into_inner);
                    rules.held -= 1;
                }
            }
        }
    }
}

impl Disk for SlowDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.sim.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.sim.list(dir)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.check(Op::Open, path)?;
        Ok(Arc::new(SlowFile {
            file: self.sim.open(path, mode)?,
            path: path.to_owned(),
            disk: self.clone(),
        }))
    }

    fn temporary(&self, dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
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
        self.sim.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.sim.lock(path)
    }

    fn available(&self, dir: &Path) -> io::Result<u64> {
        self.sim.available(dir)
    }

    fn barrier(&self, dir: &Path) -> io::Result<Box<dyn Barrier>> {
        self.sim.barrier(dir)
    }
}

struct SlowFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    disk: SlowDisk,
}

impl DiskFile for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.check(Op::Read, &self.path)?;
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.check(Op::Sync, &self.path)?;
        self.file.sync()
    }
}
