//! The newest entry of each object in all runs, read from their indexes alone.

use super::Archive;
use super::index::Newest;
use super::run::RunReader;
use crate::error::Result;
use crate::ident::ObjectKey;
use rustc_hash::FxHashMap;

/// The objects of the archive in the order of the first byte of their ids, with those of one byte in memory.
pub(crate) struct NewestEntries {
    /// From the oldest run to the newest, each with the number of its next object.
    runs: Vec<(RunReader, u64)>,
}

impl Archive {
    /// The newest entries of all objects. An unreadable run is skipped, so an entry need not be of the newest commit.
    pub(crate) fn newest_entries(&self) -> NewestEntries {
        let mut runs = Vec::new();
        for run in &self.state().runs {
            match self.reader(run) {
                Ok(reader) => runs.push((reader, 0)),
                Err(error) => tracing::error!(%error, "skipping an unreadable run of the archive"),
            }
        }
        NewestEntries { runs }
    }
}

impl NewestEntries {
    /// The entries of the objects whose ids begin with this byte. Bytes are asked for in ascending order.
    pub(crate) fn with_first_byte(&mut self, byte: u8) -> FxHashMap<ObjectKey, Newest> {
        let mut found = FxHashMap::default();
        self.runs.retain_mut(|(run, next)| {
            let read = take_byte(run, next, byte, &mut found);
            read.inspect_err(
                |error| tracing::error!(%error, "skipping the rest of an unreadable run of the archive"),
            )
            .is_ok()
        });
        found
    }
}

fn take_byte(
    run: &mut RunReader,
    next: &mut u64,
    byte: u8,
    found: &mut FxHashMap<ObjectKey, Newest>,
) -> Result<()> {
    // Keys are in the order of shards, so those with one first byte are together.
    while let Some(entry) = run.nth(*next)?
        && entry.key.id[0] <= byte
    {
        *next += 1;
        found.insert(entry.key, entry.newest);
    }
    Ok(())
}
