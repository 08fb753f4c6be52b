//! A file of the simulated disk: its content, and what a crash may leave of it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::random::SplitMix64;

const SECTOR: usize = 512;

#[derive(Clone, Default)]
pub(super) struct Inode {
    pub(super) path: PathBuf,
    pub(super) data: Vec<u8>,
    durable_len: usize,
    /// The older versions of each sector written since the last sync, oldest first; `None` is all zeros.
    unsynced: Sectors,
    /// The older versions of each sector that a sync failed to write and that was not written since.
    forsaken: Sectors,
}

/// Older versions of sectors.
type Sectors = HashMap<usize, Vec<Option<Box<[u8; SECTOR]>>>>;

impl Inode {
    /// An empty file.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::default()
        }
    }

    pub(super) fn crashed(&self, random: &mut SplitMix64) -> Self {
        let mut data = self.data.clone();
        let mut sectors: Vec<_> = self.unsynced.iter().chain(&self.forsaken).collect();
        sectors.sort_by_key(|(sector, _)| **sector);
        for (&sector, versions) in sectors {
            // One more than the older versions: the newest may have reached the disk too.
            if let Some(version) = versions.get(random.below(versions.len() as u64 + 1) as usize) {
                let start = (sector * SECTOR).min(data.len());
                let end = (start + SECTOR).min(data.len());
                match version {
                    Some(version) => data[start..end].copy_from_slice(&version[..end - start]),
                    None => data[start..end].fill(0),
                }
            }
        }
        if data.len() != self.durable_len && random.below(2) == 0 {
            data.resize(self.durable_len, 0);
        }
        Self {
            path: self.path.clone(),
            durable_len: data.len(),
            data,
            ..Self::default()
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        let before = self.data.len();
        if before < end {
            self.data.resize(end, 0);
        }
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            let start = sector * SECTOR;
            let stop = (start + SECTOR).min(self.data.len());
            let old = (start < before).then(|| {
                let mut old = Box::new([0; SECTOR]);
                old[..stop - start].copy_from_slice(&self.data[start..stop]);
                old
            });
            let forsaken = &mut self.forsaken;
            let versions = self
                .unsynced
                .entry(sector)
                .or_insert_with(|| forsaken.remove(&sector).unwrap_or_default());
            versions.push(old);
        }
        self.data[offset..end].copy_from_slice(bytes);
    }

    pub(super) fn sync(&mut self) {
        self.unsynced.clear();
        self.durable_len = self.data.len();
    }

    pub(super) fn fail_sync(&mut self) {
        self.forsaken.extend(self.unsynced.drain());
    }
}
