//! Merges adjacent runs into one, which has all that they have.

use super::Archive;
use super::plan::plan_shared;
use super::run::RunWriter;
use super::stream::{Merged, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::ObjectKey;
use crate::limits::{ARCHIVE_ROOM_CHECK_BYTES, UNMERGED_FOR};
use crate::manifest::RunMeta;
use crate::timing;

/// Stronger than at archiving: a merge has more time, and its output lives longer.
pub(crate) const COMPRESSION: i32 = 3;

impl Archive {
    /// Adjacent runs that stores share, and that are to be merged, if there are any. Those of a merge that has failed are left out for
    /// [`UNMERGED_FOR`]: others are merged around them.
    pub(crate) fn runs_to_merge(&self) -> Option<Vec<RunMeta>> {
        let state = self.state();
        let mut unmerged = self.unmerged.lock();
        unmerged.retain(|_, since| since.elapsed() < UNMERGED_FOR);
        let is_left_out = |number| unmerged.contains_key(&number);
        let range = plan_shared(&state, self.available(), is_left_out)?;
        Some(state.runs[range].to_vec())
    }

    /// A merge of these runs has failed.
    pub(crate) fn leave_unmerged(&self, runs: &[RunMeta]) {
        let now = timing::now();
        let numbers = runs.iter().map(|run| (run.number, now));
        self.unmerged.lock().extend(numbers);
    }

    /// Copies what runs have, from the oldest to the newest, to another one. `None` if the store is closed meanwhile.
    ///
    /// # Errors
    /// A run cannot be read, or the disk has less than `keep_free` bytes left.
    pub(crate) fn merge(
        &self,
        inputs: &[RunMeta],
        mut writer: RunWriter,
        keep_free: u64,
    ) -> Result<Option<RunWriter>> {
        let readers = inputs.iter().map(|run| self.reader(run));
        let streams = readers.map(|reader| Stream::run(reader?));
        let mut merged = Merged::new(streams.collect::<Result<_>>()?);
        let mut room = RoomCheck::new(self, keep_free);
        while let Some(key) = merged.key() {
            if self.was_deleted(key) {
                merged.skip(key)?;
                continue;
            }
            let newest = merged.newest_index(key);
            while let Some(entry) = merged.current().filter(|entry| entry.head.key == key) {
                room.count(entry.payload.len())?;
                writer.add(&entry)?;
                merged.advance()?;
                if self.is_stopping() {
                    return Ok(None);
                }
            }
            if let Some(newest) = newest {
                writer.end_object(newest.newest);
                self.keep_hot_pages(inputs, key, &mut writer)?;
            }
        }
        Ok(Some(writer))
    }

    /// Returns whether an object's class was deleted: its history goes with it.
    pub(super) fn was_deleted(&self, key: ObjectKey) -> bool {
        let manifest = self.shared.catalog.current();
        manifest.is_deleted(key.namespace)
    }

    /// Copies the hot pages of the newest input run that maps the object. They are used if that ends with the same commit as the
    /// merged run.
    fn keep_hot_pages(
        &self,
        inputs: &[RunMeta],
        key: ObjectKey,
        writer: &mut RunWriter,
    ) -> Result<()> {
        if writer.hot_pages_wanted(key).is_none() {
            return Ok(());
        }
        for run in inputs.iter().rev() {
            if let Some(map) = self.reader(run)?.page_map(key)? {
                writer.add_hot_pages(&map);
                break;
            }
        }
        Ok(())
    }
}

/// Keeps a merge or fold from using the last space on the disk.
pub(super) struct RoomCheck<'a> {
    archive: &'a Archive,
    keep_free: u64,
    bytes: u64,
}

impl<'a> RoomCheck<'a> {
    pub(super) fn new(archive: &'a Archive, keep_free: u64) -> Self {
        Self {
            archive,
            keep_free,
            bytes: 0,
        }
    }

    pub(super) fn count(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        if self.bytes < ARCHIVE_ROOM_CHECK_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        if self.archive.available() < self.keep_free {
            let why = "the disk has no space for a second copy of the history being compacted";
            return Err(Error::new(ErrorKind::NoSpace, why));
        }
        Ok(())
    }
}
