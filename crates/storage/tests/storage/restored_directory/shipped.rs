//! What a node ships to another place: copies of its history, and parts of its log.

use std::path::{Path, PathBuf};

use abide_storage::{Disk as _, HistoryCopy, LogPart, Lsn, RestoredDirectory, Result, SimDisk};

use super::life::{Life, restore, write_file};
use crate::common::{DIR, flush, read_file};

/// See the module.
pub(super) struct Shipped {
    pub(super) manifest: Vec<u8>,
    /// A directory with the archive and nothing else.
    history: SimDisk,
    /// The end of the log that is in it.
    pub(super) archived: Lsn,
    pub(super) parts: Vec<LogPart>,
    /// The position up to which the parts go.
    pub(super) end: Lsn,
}

impl Shipped {
    /// A copy of the history without parts.
    pub(super) fn of(life: &Life) -> Self {
        let (copy, history) = history(life);
        Self {
            manifest: copy.manifest,
            history,
            parts: Vec::new(),
            archived: copy.archived,
            end: copy.archived,
        }
    }

    /// With the first parts only.
    pub(super) fn first(&self, parts: usize) -> Self {
        let parts = self.parts[..parts].to_vec();
        Self {
            manifest: self.manifest.clone(),
            history: self.history.after_kill(),
            archived: self.archived,
            end: parts.last().map_or(self.archived, |part| part.end),
            parts,
        }
    }

    /// Copies the history again, and keeps the parts.
    pub(super) fn renew(&mut self, life: &Life) {
        let newer = Self::of(life);
        if newer.end > self.end {
            *self = newer;
        } else {
            (self.manifest, self.history) = (newer.manifest, newer.history);
            self.archived = newer.archived;
        }
    }

    /// Ships what is durable, in parts of about these sizes.
    pub(super) fn ship(&mut self, life: &Life, mut most: impl FnMut() -> usize) {
        while self.end < life.store.durable_here() {
            let Some(part) = life.store.log_part(Some(self.end), most()).unwrap() else {
                // What follows continues a state that is to be copied first.
                self.renew(life);
                continue;
            };
            if part.first > self.end {
                *self = Self::of(life);
                continue;
            }
            assert_eq!(part.first, self.end);
            assert!(part.end > part.first);
            self.end = part.end;
            self.parts.push(part);
        }
        assert!(self.end >= life.store.durable_here());
    }

    /// The directory to restore from.
    pub(super) fn disk(&self) -> SimDisk {
        let disk = self.history.after_kill();
        disk.create_dir_all(&tail()).unwrap();
        for (number, part) in self.parts.iter().enumerate() {
            write_file(&disk, &file(number), &part.bytes);
        }
        disk.barrier(&tail()).unwrap().wait().unwrap();
        disk
    }

    pub(super) fn restore_at(
        &self,
        life: &Life,
        at: Option<u64>,
    ) -> Result<(SimDisk, RestoredDirectory)> {
        let disk = self.disk();
        let made = restore(&disk, &self.manifest, at, &life.options())?;
        assert!(!has_tail(&disk));
        Ok((disk, made))
    }
}

/// Copies the history of a node.
fn history(life: &Life) -> (HistoryCopy, SimDisk) {
    let copy = loop {
        match life.store.history_copy() {
            Some(copy) => break copy,
            None => life.checkpoint(),
        }
    };
    assert!(copy.is_complete);
    life.store.history_copied(copy.version);
    let disk = SimDisk::new();
    let dir = Path::new(DIR).join("archive");
    disk.create_dir_all(&dir).unwrap();
    for run in &copy.runs {
        write_file(&disk, &run.path, &read_file(&life.disk, &run.path));
    }
    disk.barrier(&dir).unwrap().wait().unwrap();
    (copy, disk)
}

pub(super) fn tail() -> PathBuf {
    Path::new(DIR).join("tail")
}

/// The file of a part.
pub(super) fn file(number: usize) -> PathBuf {
    tail().join(format!("{:016x}.part", number * 3))
}

pub(super) fn has_tail(disk: &SimDisk) -> bool {
    !disk.list(&tail()).unwrap().is_empty()
}

/// A small life whose history was copied, and what was committed after that, which is only in the parts: objects that were
/// changed, created, deleted and created again, a large transaction, an alarm, and a class.
pub(super) fn small(most: usize) -> (Life, Shipped) {
    let mut life = Life::small();
    life.checkpoint();
    let mut shipped = Shipped::of(&life);
    life.pass(1000);
    let [changed, deleted, again] = [0, 1, 3].map(|id| life.key("First", id));
    let mut ship = |life: &Life| {
        flush(&life.store);
        shipped.ship(life, || most);
    };
    life.put(changed, "changed");
    life.delete(deleted);
    life.put(again, "created again");
    let new = life.key("Fourth", 1);
    life.put(new, "of a new class");
    ship(&life);
    let large = life.key("Second", 2);
    let bytes = crate::recovery_points::world::noise(3, 300_000);
    life.put(large, &hex::encode(bytes));
    ship(&life);
    let alarm = abide_storage::AlarmRow::at(1_700_000_000_000);
    life.set_alarm(changed, Some(&alarm));
    ship(&life);
    (life, shipped)
}
