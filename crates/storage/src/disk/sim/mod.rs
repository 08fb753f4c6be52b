//! A disk in memory that fails in every way a real one may.
//!
//! [`SimDisk::crash`] can lose or tear everything unsynced. Of each 512-byte sector, any version since the last sync
//! may remain, independently of every other sector. Of the names created, renamed or removed since the last sync of
//! their directory, any prefix remains. Syncs can be made to fail or to wait, space can run out, and the disk can stop
//! permanently at any write. Data that a failed sync did not write is not written by later syncs either, unless it is
//! written anew: the page cache considers it clean (Rebello et al., "Can Applications Recover from fsync Failures?",
//! USENIX ATC 2020).

mod inode;
mod temporary;

use self::inode::Inode;
use self::temporary::SimTemporary;
use super::{Barrier, Disk, DiskFile, OpenMode};
use crate::random::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A simulated disk; clones share it.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Shared>);

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    syncs: Condvar,
}

#[derive(Default)]
struct State {
    dirs: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, usize>,
    /// Name changes that are not durable yet, in order.
    name_log: Vec<NameChange>,
    files: Vec<Inode>,
    locks: BTreeSet<PathBuf>,
    writes: u64,
    stop_at: Option<u64>,
    capacity: Option<u64>,
    used: u64,
    syncs_fail: Failing,
    sync_has_failed: bool,
    /// File syncs wait, except for this many.
    syncs_held: Option<u64>,
    events: Option<Vec<DiskEvent>>,
    meanwhile: Option<fn(&Path)>,
    unsynced: Option<fn(&Path) -> bool>,
}

/// Which syncs fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Failing {
    #[default]
    None,
    Next,
    All,
}

/// An operation on the disk, for tests that check an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskEvent {
    /// A file was created.
    Create(PathBuf),
    /// A file was renamed.
    Rename(PathBuf, PathBuf),
    /// Bytes were written to a file.
    Write(PathBuf),
    /// A file was synced.
    Sync(PathBuf),
    /// A directory was synced.
    SyncDir(PathBuf),
    /// The whole disk was synced.
    SyncAll,
}

struct NameChange {
    path: PathBuf,
    before: Option<usize>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(state: State) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            syncs: Condvar::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of changes (writes, syncs, renames, …) so far.
    pub fn changes(&self) -> u64 {
        self.state().writes
    }

    /// From this many changes on, every operation fails, as if the machine had lost power.
    pub fn stop_at(&self, change: u64) {
        self.state().stop_at = Some(change);
    }

    /// Returns whether the point set by [`Self::stop_at`] was reached.
    pub fn has_stopped(&self) -> bool {
        self.state().alive().is_err()
    }

    /// The total size of all files in bytes; writes beyond it fail with `StorageFull`. `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// The current total size of all files in bytes.
    pub fn used(&self) -> u64 {
        self.state().used
    }

    /// Makes every sync fail from now on, or succeed again.
    pub fn fail_syncs(&self, fail: bool) {
        let mut state = self.state();
        state.syncs_fail = if fail { Failing::All } else { Failing::None };
        state.sync_has_failed &= fail;
    }

    /// Makes only the next sync fail.
    pub fn fail_sync(&self) {
        self.state().syncs_fail = Failing::Next;
    }

    /// Returns whether syncs fail, will fail, or one has failed.
    pub fn syncs_fail(&self) -> bool {
        let state = self.state();
        state.syncs_fail != Failing::None || state.sync_has_failed
    }

    /// Syncs of these files do nothing and report success: a disk that lies.
    pub fn ignore_syncs(&self, of: fn(&Path) -> bool) {
        self.state().unsynced = Some(of);
    }

    /// Calls a function at the beginning of every file sync, to simulate concurrent activity. It may use the disk.
    pub fn while_syncing(&self, meanwhile: fn(&Path)) {
        self.state().meanwhile = Some(meanwhile);
    }

    /// Makes every file sync wait until [`Self::release_syncs`].
    pub fn hold_syncs(&self) {
        self.state().syncs_held = Some(0);
    }

    /// Lets this many waiting or future syncs pass.
    pub fn allow_syncs(&self, count: u64) {
        if let Some(allowed) = &mut self.state().syncs_held {
            *allowed += count;
        }
        self.0.syncs.notify_all();
    }

    /// Lets waiting syncs continue.
    pub fn release_syncs(&self) {
        self.state().syncs_held = None;
        self.0.syncs.notify_all();
    }

    /// A hash of all file names and contents.
    pub fn digest(&self) -> u64 {
        let state = self.state();
        let mut hasher = rustc_hash::FxHasher::default();
        for (path, &inode) in &state.names {
            path.hash(&mut hasher);
            state.files[inode].data.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Starts recording operations.
    pub fn record_events(&self) {
        self.state().events = Some(Vec::new());
    }

    /// The operations since [`Self::record_events`].
    pub fn take_events(&self) -> Vec<DiskEvent> {
        self.state().events.replace(Vec::new()).unwrap_or_default()
    }

    /// The disk after a power loss: unsynced sectors and names survive or not, depending on `seed`.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.state();
        let mut random = SplitMix64::new(seed);
        let mut names = state.names.clone();
        let kept = random.below(state.name_log.len() as u64 + 1) as usize;
        for change in state.name_log[kept..].iter().rev() {
            match change.before {
                Some(inode) => names.insert(change.path.clone(), inode),
                None => names.remove(&change.path),
            };
        }
        let files: Vec<Inode> = state.files.iter().map(|f| f.crashed(&mut random)).collect();
        let used = names
            .values()
            .map(|&inode| files[inode].data.len() as u64)
            .sum();
        let after = State {
            dirs: state.dirs.clone(),
            names,
            files,
            used,
            ..State::default()
        };
        Self::with(after)
    }

    /// A copy of the disk, as if the process had been killed but not the machine.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let state = self.state();
        let after = State {
            dirs: state.dirs.clone(),
            names: state.names.clone(),
            files: state.files.clone(),
            used: state.used,
            ..State::default()
        };
        Self::with(after)
    }

    /// Flips one byte of a file, to simulate bit rot.
    pub fn flip(&self, path: &Path, offset: u64) {
        let mut state = self.state();
        if let Some(&inode) = state.names.get(path)
            && let Some(byte) = state.files[inode].data.get_mut(offset as usize)
        {
            *byte ^= 0x5a;
        }
    }
}

impl State {
    /// Counts a change; fails if the disk has stopped.
    fn change(&mut self, event: impl FnOnce() -> DiskEvent) -> io::Result<()> {
        self.alive()?;
        self.writes += 1;
        if let Some(events) = &mut self.events {
            events.push(event());
        }
        Ok(())
    }

    fn alive(&self) -> io::Result<()> {
        match self.stop_at {
            Some(stop) if self.writes >= stop => Err(io::Error::other("the disk has lost power")),
            _ => Ok(()),
        }
    }

    /// Returns whether the next sync succeeds.
    fn sync_succeeds(&mut self) -> io::Result<()> {
        match self.syncs_fail {
            Failing::None => return Ok(()),
            Failing::Next => self.syncs_fail = Failing::None,
            Failing::All => {}
        }
        self.sync_has_failed = true;
        Err(io::Error::other("the sync failed"))
    }

    fn grow(&mut self, from: usize, to: usize) -> io::Result<()> {
        let used = self.used + to.saturating_sub(from) as u64;
        if to > from && self.capacity.is_some_and(|capacity| used > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.used = used - from.saturating_sub(to) as u64;
        Ok(())
    }

    fn set_name(&mut self, path: &Path, after: Option<usize>) {
        let before = match after {
            Some(inode) => self.names.insert(path.to_owned(), inode),
            None => self.names.remove(path),
        };
        self.name_log.push(NameChange {
            path: path.to_owned(),
            before,
        });
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for SimDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.alive()?;
        for dir in dir.ancestors() {
            state.dirs.insert(dir.to_owned());
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        state.alive()?;
        let inside = |path: &PathBuf| {
            (path.parent() == Some(dir))
                .then(|| path.file_name().map(|n| n.to_string_lossy().into_owned()))
                .flatten()
        };
        let names = state.names.keys().filter_map(inside);
        Ok(names.chain(state.dirs.iter().filter_map(inside)).collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.alive()?;
        let inode = match state.names.get(path) {
            Some(&inode) => inode,
            None if mode == OpenMode::Existing => return Err(not_found()),
            None => {
                if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
                    return Err(not_found());
                }
                state.change(|| DiskEvent::Create(path.to_owned()))?;
                state.files.push(Inode::new(path));
                let inode = state.files.len() - 1;
                state.set_name(path, Some(inode));
                inode
            }
        };
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn temporary(&self, _dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.state().alive()?;
        Ok(Arc::new(SimTemporary::new(self.clone())))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.change(|| DiskEvent::Rename(from.to_owned(), to.to_owned()))?;
        let inode = *state.names.get(from).ok_or_else(not_found)?;
        // The new name is set in one step of the name log and the old one removed in the next: a crash in between
        // leaves both names, never none.
        state.set_name(to, Some(inode));
        state.set_name(from, None);
        to.clone_into(&mut state.files[inode].path);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        let inode = *state.names.get(path).ok_or_else(not_found)?;
        state.change(|| DiskEvent::Write(path.to_owned()))?;
        state.set_name(path, None);
        let len = state.files[inode].data.len();
        state.grow(len, 0)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.change(|| DiskEvent::SyncDir(dir.to_owned()))?;
        state.sync_succeeds()?;
        state.name_log.retain(|c| c.path.parent() != Some(dir));
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.state();
        state.alive()?;
        if !state.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn available(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.state();
        state.alive()?;
        let capacity = state.capacity.unwrap_or(u64::MAX);
        Ok(capacity.saturating_sub(state.used))
    }

    fn barrier(&self, _dir: &Path) -> io::Result<Box<dyn Barrier>> {
        Ok(Box::new(SimBarrier(self.clone())))
    }
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}

struct SimBarrier(SimDisk);

impl Barrier for SimBarrier {
    fn wait(&self) -> io::Result<()> {
        let mut state = self.0.state();
        state.change(|| DiskEvent::SyncAll)?;
        state.sync_succeeds()?;
        state.name_log.clear();
        state.files.iter_mut().for_each(Inode::sync);
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        state.alive()?;
        let data = &state.files[self.inode].data;
        let start = (offset as usize).min(data.len());
        let end = (start + buf.len()).min(data.len());
        buf[..end - start].copy_from_slice(&data[start..end]);
        Ok(end - start)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let (path, len) = {
            let file = &state.files[self.inode];
            (file.path.clone(), file.data.len())
        };
        state.change(|| DiskEvent::Write(path))?;
        state.grow(len, len.max(offset as usize + bytes.len()))?;
        state.files[self.inode].write(bytes, offset as usize);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.alive()?;
        Ok(state.files[self.inode].data.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let (path, old) = {
            let file = &state.files[self.inode];
            (file.path.clone(), file.data.len())
        };
        state.change(|| DiskEvent::Write(path))?;
        state.grow(old, len as usize)?;
        state.files[self.inode].data.resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        if let Some(meanwhile) = state.meanwhile {
            let path = state.files[self.inode].path.clone();
            drop(state);
            meanwhile(&path);
            state = self.disk.state();
        }
        while state.syncs_held == Some(0) {
            state = self
                .disk
                .0
                .syncs
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(allowed) = &mut state.syncs_held {
            *allowed -= 1;
        }
        let path = state.files[self.inode].path.clone();
        if state.unsynced.is_some_and(|ignored| ignored(&path)) {
            return state.alive();
        }
        state.change(|| DiskEvent::Sync(path))?;
        let synced = state.sync_succeeds();
        let file = &mut state.files[self.inode];
        match synced {
            Ok(()) => file.sync(),
            Err(_) => file.fail_sync(),
        }
        synced
    }
}
