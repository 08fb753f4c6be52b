//! The newest entry of each object in all runs, read from their indexes alone.

use super::Archive;
use super::index::IndexEntry;
use super::run::RunReader;
use crate::error::{Error, Result};
use crate::ident::ObjectKey;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The objects of the archive in the order of the first byte of their ids, with those of one byte in memory.
pub(crate) struct NewestEntries {
    /// From the oldest run to the newest, each with the number of its next object.
    runs: Vec<(RunReader, u64)>,
    /// The runs that could not be read, and why.
    unread: Vec<(u64, Error)>,
}

impl Archive {
    /// The newest entries of all objects. An unreadable run is skipped, so an entry need not be of the newest commit.
    pub(crate) fn newest_entries(&self) -> NewestEntries {
        self.newest_entries_without(&BTreeSet::new())
    }

    /// The newest entries of all objects.
    ///
    /// # Errors
    /// A run cannot be read. The others are not tried: each may take long to say so.
    pub(crate) fn all_newest_entries(&self) -> Result<NewestEntries> {
        let listed = self.state().runs;
        let runs: Result<Vec<_>> = listed.iter().map(|run| self.reader(run)).collect();
        Ok(NewestEntries::of(runs?))
    }

    /// The newest entries of all objects, without those of some runs.
    pub(crate) fn newest_entries_without(&self, left_out: &BTreeSet<u64>) -> NewestEntries {
        let (mut runs, mut unread) = (Vec::new(), Vec::new());
        let listed = self.state().runs;
        for run in listed.iter().filter(|run| !left_out.contains(&run.number)) {
            match self.reader(run) {
                Ok(reader) => runs.push((reader, 0)),
                Err(error) => {
                    tracing::error!(%error, "skipping an unreadable run of the archive");
                    unread.push((run.number, error));
                }
            }
        }
        NewestEntries { runs, unread }
    }
}

impl NewestEntries {
    /// The entries of these runs, from the oldest to the newest.
    pub(crate) fn of(runs: impl IntoIterator<Item = RunReader>) -> Self {
        let runs = runs.into_iter().map(|run| (run, 0)).collect();
        let unread = Vec::new();
        Self { runs, unread }
    }

    /// Skips the objects whose ids begin with a lower byte.
    pub(crate) fn skip_to(&mut self, byte: u8) {
        self.read(|run, next| {
            *next = run.first_from(byte)?.max(*next);
            Ok(())
        });
    }

    /// The entries of the objects whose ids begin with this byte. Bytes are asked for in ascending order.
    pub(crate) fn with_first_byte(&mut self, byte: u8) -> FxHashMap<ObjectKey, IndexEntry> {
        let mut found = FxHashMap::default();
        self.read(|run, next| {
            // Keys are in the order of shards, so those with one first byte are together.
            while let Some(entry) = run.nth(*next)?
                && entry.key.id[0] <= byte
            {
                *next += 1;
                found.insert(entry.key, entry);
            }
            Ok(())
        });
        found
    }

    /// The runs that could not be read so far, and why.
    pub(crate) fn unread(&self) -> &[(u64, Error)] {
        &self.unread
    }

    /// Reads from each run, and skips the rest of those that cannot be read.
    fn read(&mut self, mut read: impl FnMut(&mut RunReader, &mut u64) -> Result<()>) {
        let Self { runs, unread } = self;
        runs.retain_mut(|(run, next)| {
            let Err(error) = read(run, next) else {
                return true;
            };
            tracing::error!(%error, "skipping the rest of an unreadable run of the archive");
            unread.push((run.meta.number, error));
            false
        });
    }
}
