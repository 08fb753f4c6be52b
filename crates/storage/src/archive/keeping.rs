//! Which runs are on the disk.
//!
//! A run that a store elsewhere has too need not be on the disk. The disk keeps the newest runs, up to
//! [`ArchiveOptions::local_bytes`](crate::ArchiveOptions::local_bytes), and fewer if it is nearly full, because that is better than to
//! give up history. A run that is not on the disk, as after a lazy restore, returns if it is within the bound.
//!
//! The manifest says where a run is. A run leaves once the manifest says that it is elsewhere, and has returned once its file is durable,
//! checked and listed. A crash between the two leaves a file that the next start removes.

use super::plan::Room;
use super::run::RunReader;
use super::{Archive, verify};
use crate::disk::OpenMode;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{ARCHIVE_RETURN_BYTES, ARCHIVE_RETURN_ROOM};
use crate::manifest::{ArchiveHole, RunMeta};
use crate::timing;
use std::collections::{BTreeMap, BTreeSet};

impl Archive {
    /// Records which runs a store elsewhere has, and where.
    pub(crate) fn note_copied(&self, places: BTreeMap<u64, String>) {
        *self.copied.lock() = places;
    }

    /// Removes the oldest runs from the disk that exceed what it is to keep, as far as they are elsewhere. Returns whether any has left.
    pub(crate) fn keep_within_bound(&self) -> Result<bool> {
        match self.options().local_bytes {
            Some(most) if !self.is_only_copy() => self.leave_beyond(most),
            _ => Ok(false),
        }
    }

    /// Frees what the disk lacks, and at least one run, as far as runs are elsewhere. Returns whether any has left.
    pub(super) fn make_room(&self, room: &Room) -> Result<bool> {
        let lacking = room.reserve.saturating_sub(room.available).max(1);
        let here = self.state().bytes_here();
        let left = self.leave_beyond(here.saturating_sub(lacking))?;
        if left {
            tracing::warn!(
                "the disk is nearly full: parts of the history that are copied leave it, and are in the store of the copies alone"
            );
        }
        Ok(left)
    }

    fn leave_beyond(&self, most: u64) -> Result<bool> {
        if self.shared.options.remote_runs.is_none() {
            return Ok(false);
        }
        let state = self.state();
        let copied = self.copied.lock().clone();
        let mut here = state.bytes_here();
        let mut leaving = BTreeMap::new();
        let mut files = Vec::new();
        for run in state.runs.iter().filter(|run| state.is_here(run)) {
            if here <= most {
                break;
            }
            // An operator may put a damaged one back.
            if let Some(place) = copied.get(&run.number)
                && !state.damaged.contains(&run.number)
            {
                here -= run.bytes;
                leaving.insert(run.number, place.clone());
                files.push(run.clone());
            }
        }
        if files.is_empty() {
            return Ok(false);
        }
        self.publish(|state| {
            // A merge may have replaced it.
            leaving.retain(|number, _| state.runs.iter().any(|run| run.number == *number));
            state.remote.append(&mut leaving);
        })?;
        self.remove_runs(&files);
        Ok(true)
    }

    /// Brings the newest run back that is not on the disk, if it is within the bound and the disk has plenty of room. Returns whether it did.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if the store cannot be asked now. A later call begins that run again.
    pub(crate) fn bring_back(&self) -> Result<bool> {
        let state = self.state();
        if state.remote.is_empty() || self.is_only_copy() {
            return Ok(false);
        }
        let is_far = |run: &&RunMeta| !state.is_here(run) && !state.damaged.contains(&run.number);
        let Some(run) = state.runs.iter().rev().find(is_far) else {
            return Ok(false);
        };
        let most = self.options().local_bytes.unwrap_or(u64::MAX);
        let room = run.bytes.saturating_mul(ARCHIVE_RETURN_ROOM);
        let has_room = self.has_room_for(room.saturating_add(self.reserve()));
        if state.bytes_here().saturating_add(run.bytes) > most || !has_room {
            return Ok(false);
        }
        let returned = self.copy_here(run).and_then(|()| self.list_here(run));
        match returned {
            Ok(()) => Ok(true),
            Err(error) if self.shared.log.failed() => Err(error),
            Err(error) => {
                self.remove_runs(std::slice::from_ref(run));
                if error.kind() != ErrorKind::Damaged || !self.has(run.number) {
                    return Err(error);
                }
                tracing::error!(%error, "ignoring an unreadable run of the archive");
                self.set_aside(&BTreeSet::from([run.number]))?;
                Ok(true)
            }
        }
    }

    /// See [`crate::Store::give_up_remote_history`].
    pub(crate) fn give_up_remote(&self) -> Result<u64> {
        if self.is_only_copy() {
            return Err(Error::refused(
                "objects of this directory may have their states in that store alone: without it they are lost; restore another copy",
            ));
        }
        let state = self.state();
        let far = || state.runs.iter().filter(|run| !state.is_here(run));
        let Some(newest) = far().map(|run| run.to).max() else {
            return Ok(0);
        };
        let hole = ArchiveHole {
            from: far().map(|run| run.from).min().unwrap_or(0),
            to: newest,
            after_millis: far().map(|run| run.first_millis).min().unwrap_or(0),
            until_millis: far().map(|run| run.last_millis).max().unwrap_or(0),
            given_up_millis: self.shared.unix_millis(),
            reason: "the store that had it alone was given up".to_owned(),
        };
        self.give_up(hole, |state| {
            state.lose_history();
            let far = std::mem::take(&mut state.remote);
            state.runs.retain(|run| !far.contains_key(&run.number));
            state.damaged.retain(|number| !far.contains_key(number));
        })?;
        Ok(far().map(|run| run.bytes).sum())
    }

    /// Writes the file of a run durably, and checks it.
    fn copy_here(&self, run: &RunMeta) -> Result<()> {
        let disk = &*self.shared.disk;
        let path = self.dir.join(RunMeta::file_name(run.number));
        let failed = |error| Error::io(format_args!("writing {}", path.display()), &error);
        let from = self.reader(run)?;
        let file = disk.open(&path, OpenMode::Create).map_err(failed)?;
        let mut at = 0;
        while at < run.bytes {
            let begun = timing::now();
            let length = ARCHIVE_RETURN_BYTES.min(run.bytes - at);
            let piece = from.bytes(at, length as usize)?;
            file.write_at(&piece, at).map_err(failed)?;
            at += length;
            let rest = self.options().time_for(length);
            self.pause(rest.saturating_sub(begun.elapsed()));
            if self.is_stopping() {
                return Err(Error::new(ErrorKind::Busy, "the store is being closed"));
            }
        }
        file.sync()
            .and_then(|()| disk.sync_dir(&self.dir))
            .map_err(|error| Error::sync(format_args!("syncing {}", path.display()), &error))?;
        verify(RunReader::open(disk, &self.dir, run)?, |_, _| Ok(()))
    }

    /// Publishes that a run is on the disk.
    fn list_here(&self, run: &RunMeta) -> Result<()> {
        let mut is_listed = false;
        self.publish(|state| {
            is_listed = state.runs.iter().any(|of| of.number == run.number);
            state.remote.remove(&run.number);
        })?;
        if !is_listed {
            // A merge has replaced it.
            self.remove_runs(std::slice::from_ref(run));
        }
        Ok(())
    }
}
