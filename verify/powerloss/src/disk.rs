//! The content of a disk, including its volatile cache.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use abide_harness::Random;

/// The unit of atomic writes: 512 bytes.
pub(crate) const SECTOR: usize = 512;

type Sector = [u8; SECTOR];

/// A disk with a cache that loses power. Clones share it.
///
/// Of each sector, any version since the last flush may survive, independently of every other sector: writes are lost,
/// torn and reordered between flushes. A flush makes all earlier writes durable.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    content: Vec<u8>,
    /// The older versions of each sector written since the last flush, oldest first.
    unflushed: BTreeMap<usize, Vec<Sector>>,
    changes: u64,
    cut_at: Option<u64>,
    lies: bool,
}

impl Disk {
    /// A disk with this content, all of it durable. Its length is cut to whole sectors.
    pub fn new(mut content: Vec<u8>) -> Self {
        content.truncate(content.len() / SECTOR * SECTOR);
        Self(Arc::new(Mutex::new(State {
            content,
            unflushed: BTreeMap::new(),
            changes: 0,
            cut_at: None,
            lies: false,
        })))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.state().content.len()
    }

    /// True if it has no sector.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes and flushes so far.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Cuts the power after this many more writes and flushes; 0 is now. From then on every operation fails.
    pub fn cut_after(&self, changes: u64) {
        let mut state = self.state();
        state.cut_at = Some(state.changes + changes);
    }

    /// Returns whether the power is cut.
    pub fn is_cut(&self) -> bool {
        self.state().is_cut()
    }

    /// From now on flushes succeed and do nothing: a disk on which no guarantee can be kept.
    pub fn ignore_flushes(&self) {
        self.state().lies = true;
    }

    /// The disk after power is restored: which unflushed writes survive depends on the seed.
    #[must_use]
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let state = self.state();
        let mut random = Random::new(seed);
        let mut content = state.content.clone();
        for (&sector, versions) in &state.unflushed {
            // One more than the older versions: the newest may have reached the disk, too.
            let count = u32::try_from(versions.len() + 1).unwrap_or(u32::MAX);
            if let Some(version) = versions.get(random.below(count) as usize) {
                let start = sector * SECTOR;
                content[start..start + SECTOR].copy_from_slice(version);
            }
        }
        Self::new(content)
    }

    /// Reads up to this many bytes; fewer only at the end of the disk.
    pub(crate) fn read<R>(
        &self,
        offset: u64,
        len: usize,
        take: impl FnOnce(&[u8]) -> R,
    ) -> io::Result<R> {
        let state = self.state();
        state.powered()?;
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(state.content.len());
        let end = start.saturating_add(len).min(state.content.len());
        Ok(take(&state.content[start..end]))
    }

    /// Writes, to the cache.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(bytes.len());
        if end > state.content.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let State {
            content, unflushed, ..
        } = &mut *state;
        for sector in start / SECTOR..end.div_ceil(SECTOR) {
            let mut old = [0; SECTOR];
            old.copy_from_slice(&content[sector * SECTOR..][..SECTOR]);
            unflushed.entry(sector).or_default().push(old);
        }
        content[start..end].copy_from_slice(bytes);
        Ok(())
    }

    /// Makes all earlier writes durable.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        if !state.lies {
            state.unflushed.clear();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_cut(&self) -> bool {
        self.cut_at.is_some_and(|cut_at| self.changes >= cut_at)
    }

    fn powered(&self) -> io::Result<()> {
        if self.is_cut() {
            return Err(io::Error::other("the power is cut"));
        }
        Ok(())
    }

    fn change(&mut self) -> io::Result<()> {
        self.powered()?;
        self.changes += 1;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where it fails")]
mod tests {
    use super::*;

    const SEEDS: std::ops::Range<u64> = 1..200;

    fn first_bytes(disk: &Disk) -> Vec<u8> {
        disk.read(0, disk.len(), |bytes| {
            bytes.chunks(SECTOR).map(|sector| sector[0]).collect()
        })
        .unwrap()
    }

    /// All that can be found after a loss of power.
    fn found(disk: &Disk) -> std::collections::BTreeSet<Vec<u8>> {
        SEEDS
            .map(|seed| first_bytes(&disk.after_power_loss(seed)))
            .collect()
    }

    #[test]
    fn what_was_flushed_survives() {
        let disk = Disk::new(vec![0; 2 * SECTOR]);
        disk.write(0, &[1; 2 * SECTOR]).unwrap();
        disk.flush().unwrap();
        assert_eq!(found(&disk), [vec![1, 1]].into());
    }

    #[test]
    fn of_each_sector_any_version_since_the_last_flush_may_survive() {
        let disk = Disk::new(vec![0; 2 * SECTOR]);
        disk.write(0, &[1; 2 * SECTOR]).unwrap();
        disk.flush().unwrap();
        disk.write(0, &[2; SECTOR]).unwrap();
        disk.write(0, &[3; 2 * SECTOR]).unwrap();
        let all = [[1, 1], [1, 3], [2, 1], [2, 3], [3, 1], [3, 3]];
        assert_eq!(found(&disk), all.map(Vec::from).into());
    }

    #[test]
    fn a_disk_that_ignores_flushes_loses_what_was_flushed() {
        let disk = Disk::new(vec![0; SECTOR]);
        disk.ignore_flushes();
        disk.write(0, &[1; SECTOR]).unwrap();
        disk.flush().unwrap();
        assert_eq!(found(&disk), [vec![0], vec![1]].into());
    }

    #[test]
    fn nothing_is_done_without_power() {
        let disk = Disk::new(vec![0; SECTOR]);
        disk.cut_after(1);
        disk.write(0, &[1; SECTOR]).unwrap();
        assert!(disk.is_cut());
        disk.write(0, &[2; SECTOR]).unwrap_err();
        disk.flush().unwrap_err();
        disk.read(0, SECTOR, |_| ()).unwrap_err();
        assert_eq!(found(&disk), [vec![0], vec![1]].into());
    }
}
