//! The archiver turns the log's records before a redo position into runs.
//!
//! It gathers records in memory, [`ARCHIVE_STEP_BYTES`] at a time, sorts them by object and writes them. Its caller is
//! a checkpoint, which holds the lock that keeps all object files unchanged. Each object file therefore holds the
//! object as of the commit in the file's header, and a snapshot is a copy of it.

use super::Archive;
use super::entry::{Head, Kind};
use super::gathered::Gathered;
use super::index::{KnownAlarm, Newest};
use super::lookup::Lookup;
use super::object_file::ObjectFile;
use super::replaced;
use super::run::RunWriter;
use crate::bookmark::Bookmark;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{CommitNo, Life, Lsn, ObjectKey};
use crate::limits::{ARCHIVE_RETRIES, ARCHIVE_RETRY_PAUSE, ARCHIVE_STEP_BYTES, ARCHIVE_STEP_SHARE};
use crate::log::reader;
use crate::log::segment_pool::SegmentPool;
use crate::manifest::{ArchiveHole, Replacement, RunMeta};
use crate::shared::Shared;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Fast: compression does not block the log's writer, but it does block the checkpoint.
pub(crate) const COMPRESSION: i32 = 1;

/// The position up to which a checkpoint has written every object's file.
#[derive(Clone, Copy)]
pub(crate) struct Horizon {
    pub(crate) redo: Lsn,
    /// Every commit that was acknowledged before this time is before `redo`.
    pub(crate) unix_millis: u64,
}

/// The commit up to which a checkpoint has written an object's file.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) commit: CommitNo,
    pub(crate) newest: Lsn,
}

/// The commits up to which a checkpoint has written object files, for the files that it has written.
pub(crate) type WrittenFiles = FxHashMap<ObjectKey, Written>;

/// Writes the log to the archive.
pub(crate) struct Archiver {
    pub(super) archive: Arc<Archive>,
    segments: Arc<SegmentPool>,
}

impl Archiver {
    pub(crate) fn new(archive: Arc<Archive>, segments: Arc<SegmentPool>) -> Self {
        Self { archive, segments }
    }

    fn shared(&self) -> &Shared {
        &self.archive.shared
    }

    /// Archives the log up to the horizon. A checkpoint calls this after publishing its redo position; `written` lists
    /// the files it wrote. If archiving fails, the log is kept and the next checkpoint tries again, unless commits need
    /// the space. Only errors of the manifest are returned.
    pub(crate) fn archive(&self, horizon: Horizon, written: &WrittenFiles) -> Result<()> {
        let mut pause = ARCHIVE_RETRY_PAUSE;
        let mut retries = 0;
        let error = loop {
            let Err(error) = self.archive_up_to(horizon, written) else {
                self.archive.succeeded();
                return Ok(());
            };
            if self.shared().log.failed() {
                return Err(error);
            }
            self.archive.failed(&error);
            if !self.room_has_run_out() {
                tracing::warn!(%error, "cannot archive the log: keeping it until the next checkpoint tries again");
                return Ok(());
            }
            if retries == ARCHIVE_RETRIES {
                break error;
            }
            retries += 1;
            if self.shared().threads {
                self.archive.pause(pause);
                pause *= 2;
            }
        };
        // The object files have all the changes; only history is lost.
        let redo = horizon.redo;
        let state = self.archive.state();
        let hole = ArchiveHole {
            from: state.archived.unwrap_or(redo.0),
            to: redo.0,
            after_millis: state
                .runs
                .iter()
                .map(|run| run.last_millis)
                .max()
                .unwrap_or(0),
            until_millis: self.shared().unix_millis(),
            given_up_millis: self.shared().unix_millis(),
            reason: error.to_string(),
        };
        let mut dropped = Vec::new();
        self.archive.give_up(hole, |state| {
            let is_archived = |of: &mut Replacement| of.after < redo.0;
            dropped.extend(state.replacements.extract_if(.., is_archived));
            state.archived = Some(redo.0);
            state.archived_millis = horizon.unix_millis;
        })?;
        self.forget_replacements(dropped);
        Ok(())
    }

    /// Removes the runs of replacements that the manifest no longer lists.
    pub(crate) fn forget_replacements(&self, replacements: Vec<Replacement>) {
        let runs: Vec<_> = replacements.into_iter().filter_map(|of| of.run).collect();
        self.archive.remove_runs(&runs);
    }

    /// Returns whether the log can no longer be kept for the archive: commits wait for its space, or would before the
    /// next checkpoint.
    fn room_has_run_out(&self) -> bool {
        let shared = self.shared();
        let next = shared.options.checkpoint_bytes;
        let segment = self.segments.next_bytes(shared.needed_segment_bytes());
        shared.kept_log().saturating_add(next) >= shared.log_bound()
            || (shared.log.wants_segment(1)
                && (shared.no_space() || !shared.may_prepare_segment(segment)))
    }

    fn archive_up_to(&self, horizon: Horizon, written: &WrittenFiles) -> Result<()> {
        let redo = horizon.redo;
        let Some(archived) = self.archive.state().archived else {
            return Ok(());
        };
        let mut from = Lsn(archived);
        if from >= redo {
            return Ok(());
        }
        let mut gathered = Gathered::default();
        let share = self.shared().options.memory.limit() / ARCHIVE_STEP_SHARE;
        let most = ARCHIVE_STEP_BYTES.min(usize::try_from(share).unwrap_or(usize::MAX));
        let segments = reader::open(&*self.shared().disk, self.segments.used())?;
        reader::read(&segments, from, Some(redo), |logged| {
            gathered.add(logged.parts, logged.position());
            if gathered.bytes() >= most {
                self.archive_range(&mut gathered, from, logged.end, horizon, written)?;
                from = logged.end;
            }
            Ok(())
        })?;
        self.archive_range(&mut gathered, from, redo, horizon, written)
    }

    /// Writes the gathered part of the log, from `from` to `to`, as a run and publishes it.
    fn archive_range(
        &self,
        gathered: &mut Gathered,
        from: Lsn,
        to: Lsn,
        horizon: Horizon,
        written: &WrittenFiles,
    ) -> Result<()> {
        gathered.sort();
        let mut unreadable = FxHashSet::default();
        let rebase = self.archive.state().rebase;
        let (writer, is_complete) = loop {
            let range = (from, to, horizon.redo);
            match self.write_range(gathered, range, written, &unreadable) {
                Ok(made) => break made,
                Err(error) => match error.object() {
                    // An unreadable file must not cost the history of the other objects, nor its own.
                    Some(key) if unreadable.insert(key) => {
                        tracing::error!(object = %key, %error, "no archive snapshot of an object: its file cannot be read");
                    }
                    _ => return Err(error),
                },
            }
        };
        let meta = (!writer.is_empty()).then(|| writer.finish()).transpose()?;
        let replacing = gathered.replacing();
        let epoch = self.shared().log.epoch.get();
        let mut merged = Vec::new();
        self.archive.publish(|state| {
            state.archived = Some(to.0);
            // One of an earlier epoch whose commit is not in the log by now has none.
            let is_last = to == horizon.redo;
            let is_done = |of: &mut Replacement| {
                let is_merged = replacing.iter().any(|(key, no)| of.is_of(*key, *no));
                is_merged || (is_last && of.epoch != epoch)
            };
            merged.extend(state.replacements.extract_if(.., is_done));
            if to == horizon.redo {
                state.archived_millis = horizon.unix_millis;
            }
            state.runs.extend(meta);
            if state.rebase > rebase {
                // The run may continue what was lost while it was written.
                state.lose_history();
            }
            if !is_complete {
                state.lapse();
            }
        })?;
        self.forget_replacements(merged);
        self.archive.request_compaction();
        gathered.clear();
        Ok(())
    }

    /// Writes the gathered entries, without snapshots of the objects whose files are unreadable. Returns false if an
    /// object then has no complete state.
    fn write_range(
        &self,
        gathered: &Gathered,
        (from, to, redo): (Lsn, Lsn, Lsn),
        written: &WrittenFiles,
        unreadable: &FxHashSet<ObjectKey>,
    ) -> Result<(RunWriter, bool)> {
        let mut writer = self.new_run(from.0, to.0)?;
        let mut older = Lookup::new(&self.archive);
        let mut is_complete = true;
        for places in gathered.objects() {
            let written = (!unreadable.contains(&places[0].0)).then_some(written);
            is_complete &=
                self.archive_object(gathered, places, redo, written, &mut older, &mut writer)?;
        }
        Ok((writer, is_complete))
    }

    /// Adds an object's entries, and a snapshot if it needs one and `written` is given. Returns false if it exists and
    /// has no complete state.
    fn archive_object(
        &self,
        gathered: &Gathered,
        places: &[(ObjectKey, usize)],
        redo: Lsn,
        written: Option<&WrittenFiles>,
        older: &mut Lookup<'_>,
        writer: &mut RunWriter,
    ) -> Result<bool> {
        let Some(&(key, _)) = places.first() else {
            return Ok(true);
        };
        let rebase = Lsn(self.archive.state().rebase);
        let left = gathered.write_object(
            places,
            rebase,
            |key| Ok(older.newest(key)),
            |head, writer| self.archive_replacement(head, writer),
            |last, writer| match written {
                Some(written) => self.archive_snapshot(last, redo, written.get(&key), writer),
                None => Ok(false),
            },
            writer,
        )?;
        if left.is_complete && !left.had_base {
            self.archive.is_not_missing(key);
        }
        if written.is_some() {
            self.complete_hot_pages(key, writer)?;
        }
        Ok(left.is_complete)
    }

    /// Completes the hot pages of an object from its file, if that is as of the last commit in the run. The caller holds the checkpoint
    /// lock.
    fn complete_hot_pages(&self, key: ObjectKey, writer: &mut RunWriter) -> Result<()> {
        let Some(commit) = writer.hot_pages_wanted(key) else {
            return Ok(());
        };
        if self.is_torn(key) {
            return Ok(());
        }
        let file = ObjectFile::open(self.shared(), key)?;
        match file.filter(|file| file.commit() == commit) {
            Some(file) => writer.complete_hot_pages(|page_no| file.page(page_no)),
            None => Ok(()),
        }
    }

    /// Returns whether the file of an object may have pages of a later commit than its header says: it could not be written as a
    /// whole, or was replaced.
    fn is_torn(&self, key: ObjectKey) -> bool {
        let manifest = self.shared().catalog.current();
        let replacements = &manifest.archive.replacements;
        let key_text = (!replacements.is_empty()).then(|| key.to_string());
        let is_replaced = replacements
            .iter()
            .any(|of| Some(&of.object) == key_text.as_ref());
        is_replaced || manifest.quarantine_of(key).is_some()
    }

    /// Adds the replacement that a commit continues. Returns false if the archive does not have it.
    fn archive_replacement(&self, head: &Head, writer: &mut RunWriter) -> Result<bool> {
        let state = self.archive.state();
        let disk = &*self.shared().disk;
        match replaced::add(disk, self.archive.dir(), &state, head, writer) {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                tracing::error!(object = %head.key, %error, "the history of an object continues with its next snapshot");
                Ok(false)
            }
            added => added,
        }
    }

    /// Adds a snapshot of an object to a run, from its file. Returns false if there is none.
    fn archive_snapshot(
        &self,
        last: &Head,
        redo: Lsn,
        written: Option<&Written>,
        writer: &mut RunWriter,
    ) -> Result<bool> {
        let manifest = self.shared().catalog.current();
        if manifest.quarantine_of(last.key).is_some() {
            return Ok(false);
        }
        let head = self.archive_file(last.key, writer, |commit| {
            if commit == last.commit {
                return Some(*last);
            }
            // Newer than the range being archived. A file that this checkpoint did not write was written by an earlier
            // one, so its commit is before redo. Its time is unknown, but not later than now.
            let newest = written.filter(|written| written.commit == commit);
            commit.is_after(last.commit).then(|| Head {
                commit,
                position: self
                    .shared()
                    .log
                    .position(newest.map_or(redo, |written| written.newest)),
                unix_millis: self.shared().unix_millis(),
                ..*last
            })
        })?;
        Ok(head.is_some())
    }

    /// Adds the content of an object's file to a run, as a snapshot. `head` returns the entry's header for the file's
    /// commit, or rejects the commit. `None` if there is no snapshot. The caller holds the checkpoint lock.
    fn archive_file(
        &self,
        key: ObjectKey,
        writer: &mut RunWriter,
        head: impl FnOnce(CommitNo) -> Option<Head>,
    ) -> Result<Option<Head>> {
        let Some(mut file) = ObjectFile::open(self.shared(), key)? else {
            return Ok(None);
        };
        let head = head(file.commit());
        head.map(|head| file.copy(writer, head)).transpose()
    }

    /// Archives the content of an object's file as a snapshot, even while the archive is off. `present` must be its
    /// newest commit. The caller has paused checkpoints.
    pub(crate) fn archive_present(&self, key: ObjectKey, present: &Bookmark) -> Result<()> {
        let at = self.shared().catalog.current().archived().get();
        let mut writer = self.new_run(at, at)?;
        let copied = self.archive_file(key, &mut writer, |commit| {
            (commit == present.commit).then(|| Head {
                key,
                commit,
                position: present.position,
                database_pages: 0,
                unix_millis: self.shared().unix_millis(),
                entries: 0,
                kind: Kind::Snapshot,
                life: Life::Continues,
                replaces: false,
                first: true,
                last: true,
            })
        })?;
        let copied = copied.ok_or_else(|| {
            Error::refused(format!(
                "the object {key} was written during the restore: try again"
            ))
        })?;
        let known = Lookup::new(&self.archive)
            .newest(key)
            .filter(|index| index.newest.commit == present.commit);
        writer.end_object(Newest {
            commit: present.commit,
            pages: copied.database_pages,
            alarm: known.map_or(KnownAlarm::Unknown, |index| index.newest.alarm),
            since_base: 0,
        });
        let made = writer.finish()?;
        self.archive.publish(|state| state.runs.push(made))?;
        self.archive.request_compaction();
        Ok(())
    }

    /// Begins a run of level 0 for a range of the log.
    pub(crate) fn new_run(&self, from: u64, to: u64) -> Result<RunWriter> {
        let meta = RunMeta::of_log(self.archive.new_number(), from, to);
        self.archive.create_run(meta, COMPRESSION)
    }
}
