//! A disk whose writes go nowhere near what it shows: for trying something on a data directory that must not change.
//!
//! Files below are opened for reading only. What is written goes block by block to one file without a name, in its own
//! folder; names that are made, replaced or removed are in memory. All of it is gone with the disk. Nothing is durable: a sync does
//! nothing.

use super::{Barrier, Disk, DiskFile, OpenMode, RealDisk};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// What is copied before a part of it is written.
const BLOCK: u64 = 4096;

/// Shows a part of the operating system's file system, and takes writes next to it.
#[derive(Clone)]
pub struct ScratchDisk(Arc<Scratch>);

impl std::fmt::Debug for ScratchDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScratchDisk").finish_non_exhaustive()
    }
}

struct Scratch {
    names: Mutex<Names>,
    slots: Slots,
}

#[derive(Default)]
struct Names {
    known: BTreeMap<PathBuf, Known>,
    dirs: BTreeSet<PathBuf>,
    /// Entries of `known` after which those that say nothing any more are dropped.
    sweep_at: usize,
}

enum Known {
    Removed,
    /// As it is below. All who have it open share it.
    Unchanged(Weak<Content>),
    Changed(Arc<Content>),
}

impl ScratchDisk {
    /// A disk that keeps in a folder what is written to it. The folder is made if it does not exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Scratch {
            names: Mutex::new(Names::default()),
            slots: Slots {
                folder: folder.into(),
                table: Mutex::new(SlotTable::default()),
            },
        }))
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.names.lock()
    }

    fn content(&self, path: &Path, below: Option<u64>) -> Arc<Content> {
        Arc::new(Content {
            disk: Arc::downgrade(&self.0),
            path: path.to_owned(),
            has_below: below.is_some(),
            extent: Mutex::new(Extent {
                len: below.unwrap_or(0),
                below_len: below.unwrap_or(0),
                blocks: BTreeMap::new(),
            }),
        })
    }

    /// The file of this name.
    fn find(&self, names: &mut Names, path: &Path) -> io::Result<Arc<Content>> {
        match names.known.get(path) {
            Some(Known::Removed) => return Err(io::ErrorKind::NotFound.into()),
            Some(Known::Changed(content)) => return Ok(Arc::clone(content)),
            Some(Known::Unchanged(content)) => {
                if let Some(content) = content.upgrade() {
                    return Ok(content);
                }
            }
            None => {}
        }
        let content = self.content(path, Some(fs::metadata(path)?.len()));
        names.insert(path, Known::Unchanged(Arc::downgrade(&content)));
        Ok(content)
    }
}

impl Names {
    fn insert(&mut self, path: &Path, known: Known) {
        if self.known.len() >= self.sweep_at {
            self.known
                .retain(|_, known| !matches!(known, Known::Unchanged(content) if content.strong_count() == 0));
            self.sweep_at = (self.known.len() * 2).max(1024);
        }
        self.known.insert(path.to_owned(), known);
    }
}

impl Disk for ScratchDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if !dir.is_dir() {
            let dirs = dir.ancestors().map(Path::to_owned);
            self.names().dirs.extend(dirs);
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut listed: BTreeSet<_> = RealDisk.list(dir)?.into_iter().collect();
        let names = self.names();
        let name = |path: &Path| {
            let is_here = path.parent() == Some(dir);
            is_here.then(|| {
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
            })?
        };
        for (path, known) in &names.known {
            match (name(path), known) {
                (Some(name), Known::Removed) => drop(listed.remove(&name)),
                (Some(name), Known::Changed(_)) => drop(listed.insert(name)),
                _ => {}
            }
        }
        listed.extend(names.dirs.iter().filter_map(|path| name(path)));
        Ok(listed.into_iter().collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut names = self.names();
        let content = match self.find(&mut names, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && mode == OpenMode::Create => {
                let content = self.content(path, None);
                names.insert(path, Known::Changed(Arc::clone(&content)));
                content
            }
            found => found?,
        };
        drop(names);
        let below = content.has_below.then(|| File::open(&content.path));
        Ok(Arc::new(ScratchFile {
            below: below.transpose()?,
            content,
            disk: self.clone(),
        }))
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        let content = self.find(&mut self.names(), path)?;
        let len = content.extent.lock().len;
        Ok(len)
    }

    fn temporary(&self, _dir: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.0.slots.make_file()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut names = self.names();
        let content = self.find(&mut names, from)?;
        names.insert(from, Known::Removed);
        names.insert(to, Known::Changed(content));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut names = self.names();
        self.find(&mut names, path)?;
        names.insert(path, Known::Removed);
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn names(&self, _dir: &Path) -> io::Result<Box<dyn Fn() -> io::Result<()> + '_>> {
        Ok(Box::new(|| Ok(())))
    }

    /// The lock of the directory below, so that nothing serves it meanwhile. Without a file to lock, nothing does.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Box::new(())),
            file => file?,
        };
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }

    fn available(&self, _dir: &Path) -> io::Result<u64> {
        let folder = &self.0.slots.folder;
        RealDisk.create_dir_all(folder)?;
        RealDisk.available(folder)
    }

    fn barrier(&self, _dir: &Path) -> io::Result<Box<dyn Barrier>> {
        Ok(Box::new(Nothing))
    }
}

struct Nothing;

impl Barrier for Nothing {
    fn wait(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What a file has, for all who have it open.
struct Content {
    disk: Weak<Scratch>,
    /// Its name below, or the one that it was made with.
    path: PathBuf,
    has_below: bool,
    extent: Mutex<Extent>,
}

struct Extent {
    len: u64,
    /// How much of the file below still shows.
    below_len: u64,
    /// Where the blocks are that have been written.
    blocks: BTreeMap<u64, Slot>,
}

impl Content {
    /// From now on the disk keeps the content, for as long as it has the name.
    fn keep(self: &Arc<Self>, disk: &ScratchDisk) {
        let mut names = disk.names();
        if let Some(known) = names.known.get_mut(&self.path)
            && matches!(&*known, Known::Unchanged(content) if content.as_ptr() == Arc::as_ptr(self))
        {
            *known = Known::Changed(Arc::clone(self));
        }
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        if let Some(disk) = self.disk.upgrade() {
            let blocks = std::mem::take(&mut self.extent.lock().blocks);
            disk.slots.free(blocks.into_values());
        }
    }
}

struct ScratchFile {
    disk: ScratchDisk,
    content: Arc<Content>,
    below: Option<File>,
}

impl ScratchFile {
    /// Reads within one block.
    fn read_block(&self, extent: &Extent, buf: &mut [u8], offset: u64) -> io::Result<()> {
        buf.fill(0);
        if let Some(slot) = extent.blocks.get(&(offset / BLOCK)) {
            self.disk.0.slots.read(*slot, buf, offset % BLOCK)?;
            return Ok(());
        }
        let shown = extent.below_len.saturating_sub(offset);
        let shown = usize::try_from(shown).unwrap_or(usize::MAX).min(buf.len());
        match &self.below {
            Some(below) if shown > 0 => below.read_exact_at(&mut buf[..shown], offset),
            _ => Ok(()),
        }
    }
}

impl DiskFile for ScratchFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let extent = self.content.extent.lock();
        let left = extent.len.saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        for (at, part) in parts(offset, len) {
            self.read_block(&extent, &mut buf[part], at)?;
        }
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.content.keep(&self.disk);
        let slots = &self.disk.0.slots;
        let mut extent = self.content.extent.lock();
        for (at, part) in parts(offset, bytes.len()) {
            let block = at / BLOCK;
            let slot = match extent.blocks.get(&block) {
                Some(slot) => *slot,
                None => {
                    let mut whole = [0; BLOCK as usize];
                    self.read_block(&extent, &mut whole, block * BLOCK)?;
                    let slot = slots.take()?;
                    slots.write(slot, &whole, 0)?;
                    extent.blocks.insert(block, slot);
                    slot
                }
            };
            slots.write(slot, &bytes[part], at % BLOCK)?;
        }
        extent.len = extent.len.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.extent.lock().len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.content.keep(&self.disk);
        let slots = &self.disk.0.slots;
        let mut extent = self.content.extent.lock();
        if len < extent.len {
            // What is cut off reads as zeros when the file grows again.
            extent.below_len = extent.below_len.min(len);
            let cut = extent.blocks.split_off(&len.div_ceil(BLOCK));
            slots.free(cut.into_values());
            if let Some(slot) = extent.blocks.get(&(len / BLOCK)) {
                let kept = len % BLOCK;
                let zeros = [0; BLOCK as usize];
                slots.write(*slot, &zeros[usize::try_from(kept).unwrap_or(0)..], kept)?;
            }
        }
        extent.len = len;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The number of a block of the file that has all that was written.
type Slot = u64;

struct Slots {
    folder: PathBuf,
    table: Mutex<SlotTable>,
}

#[derive(Default)]
struct SlotTable {
    /// Made with the first block.
    file: Option<Arc<dyn DiskFile>>,
    end: Slot,
    free: Vec<Slot>,
}

impl Slots {
    fn make_file(&self) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.create_dir_all(&self.folder)?;
        RealDisk.temporary(&self.folder)
    }

    fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        let mut table = self.table.lock();
        if let Some(file) = &table.file {
            return Ok(Arc::clone(file));
        }
        let file = self.make_file()?;
        table.file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn take(&self) -> io::Result<Slot> {
        self.file()?;
        let mut table = self.table.lock();
        Ok(table.free.pop().unwrap_or_else(|| {
            table.end += 1;
            table.end - 1
        }))
    }

    fn free(&self, slots: impl Iterator<Item = Slot>) {
        self.table.lock().free.extend(slots);
    }

    fn read(&self, slot: Slot, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file()?.read_at(buf, slot * BLOCK + offset).map(drop)
    }

    fn write(&self, slot: Slot, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file()?.write_at(bytes, slot * BLOCK + offset)
    }
}

/// The parts of a range by block: where each begins, and which bytes of the range it is.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let room = usize::try_from(BLOCK - at % BLOCK).unwrap_or(usize::MAX);
        let part = done..len.min(done + room);
        done = part.end;
        Some((at, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn a_scratch_file_reads_as_a_real_one_and_leaves_what_is_below_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (below, scratch) = (dir.path().join("data"), dir.path().join("scratch"));
        fs::create_dir(&below).unwrap();
        let path = below.join("file");
        let before: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
        for seed in 0..20 {
            fs::write(&path, &before).unwrap();
            let disk = ScratchDisk::new(&scratch);
            let mut model = before.clone();
            let mut random = SplitMix64::new(seed);
            for step in 0..200_u8 {
                // Opened anew each time: the disk closes files that are not in use.
                let file = disk.open(&path, OpenMode::Existing).unwrap();
                let offset = random.below(30_000) as usize;
                match random.below(4) {
                    0 => {
                        file.set_len(offset as u64).unwrap();
                        model.resize(offset, 0);
                    }
                    1 | 2 => {
                        let bytes = vec![step; random.below(9_000) as usize + 1];
                        file.write_at(&bytes, offset as u64).unwrap();
                        model.resize(model.len().max(offset + bytes.len()), 0);
                        model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    }
                    _ => {}
                }
                let mut read = vec![1; 40_000];
                let len = file.read_at(&mut read, 0).unwrap();
                assert_eq!(read[..len], model, "seed {seed}, step {step}");
                assert_eq!(disk.file_len(&path).unwrap(), model.len() as u64);
            }
            assert_eq!(fs::read(&path).unwrap(), before);
        }
        assert_eq!(
            fs::read_dir(&scratch).unwrap().count(),
            0,
            "no file has a name"
        );
    }

    #[test]
    fn names_change_for_those_who_look_through_the_disk_alone() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("data");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("a"), "a").unwrap();
        fs::write(below.join("b"), "b").unwrap();
        let disk = ScratchDisk::new(dir.path().join("scratch"));
        disk.rename(&below.join("a"), &below.join("c")).unwrap();
        disk.remove(&below.join("b")).unwrap();
        disk.open(&below.join("d"), OpenMode::Create).unwrap();
        disk.create_dir_all(&below.join("e/f")).unwrap();
        assert_eq!(disk.list(&below).unwrap(), ["c", "d", "e"]);
        let mut read = [0; 4];
        let file = disk.open(&below.join("c"), OpenMode::Existing).unwrap();
        assert_eq!(file.read_at(&mut read, 0).unwrap(), 1);
        assert_eq!(read[0], b'a');
        let missing = disk.open(&below.join("b"), OpenMode::Existing);
        assert!(missing.is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
        assert_eq!(RealDisk.list(&below).unwrap().len(), 2);
    }
}
