//! What to copy so that a data directory can be built from the archive.

use super::Archive;
use crate::error::Result;
use crate::ident::Lsn;
use crate::manifest::RunMeta;
use std::path::PathBuf;

/// What a copy of the archive consists of, as of a moment at which the log before the redo position is archived. The
/// manifest and the listed runs are enough to build a data directory with every object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryCopy {
    /// The manifest, as in the file `MANIFEST`. It lists all runs, also damaged ones.
    pub manifest: Vec<u8>,
    /// The version of the history that this is: see [`crate::Store::history_version`].
    pub version: u64,
    /// The runs, oldest first, and new states of objects that the log after them continues. A run never changes, and its number is never used again in this data directory. When a
    /// merge has replaced a run, its file is removed, even while it is copied: ask for another copy then.
    pub runs: Vec<ArchivedRun>,
    /// Runs in which damage was found, which are not among [`Self::runs`]. A state that needs one of them cannot be
    /// built. The files may be missing.
    pub damaged: Vec<ArchivedRun>,
    /// The end of the log that is in the runs: parts of the log ([`crate::Store::log_part`]) that continue the copy begin
    /// there, or before.
    pub archived: Lsn,
    /// Every commit that was acknowledged before this time, in milliseconds since 1970 by the clock of then, is in the
    /// runs, or in a part of the history that was dropped.
    pub archived_millis: u64,
    /// True if the runs have a complete state of every stored object. False while objects that are older than the
    /// archive, or whose history has a hole, are being added to it, and if that is impossible.
    pub is_complete: bool,
    /// Objects known to have no complete state in the runs; 0 if `is_complete`.
    pub missing_objects: u64,
}

/// A file of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchivedRun {
    /// The number in its name.
    pub number: u64,
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// What [`RestoreOptions::remote`](crate::RestoreOptions::remote) said of a run that is not on the disk, so not at `path`.
    pub remote: Option<String>,
}

impl Archive {
    /// See [`crate::Store::history_copy`].
    pub(crate) fn copy(&self) -> Result<Option<HistoryCopy>> {
        // Before the look at the log: every commit that was acknowledged before this time is in the log then.
        let now = self.shared.unix_millis();
        let end = self.shared.log.appended();
        let (manifest, version) = self.shared.catalog.current_history();
        let state = &manifest.archive;
        if state.archived != Some(manifest.redo) {
            return Ok(None);
        }
        let is_damaged = |run: &&RunMeta| state.damaged.contains(&run.number);
        let file = |run: &RunMeta| ArchivedRun {
            number: run.number,
            path: self.dir.join(RunMeta::file_name(run.number)),
            bytes: run.bytes,
            remote: state.remote.get(&run.number).cloned(),
        };
        let (damaged, runs): (Vec<_>, Vec<_>) = state.runs.iter().partition(is_damaged);
        // The log after the runs continues them.
        let new_states = state.replacements.iter().filter_map(|of| of.run.as_ref());
        let is_complete = state.is_complete();
        Ok(Some(HistoryCopy {
            manifest: manifest.encode()?,
            version,
            runs: runs.into_iter().chain(new_states).map(file).collect(),
            damaged: damaged.into_iter().map(file).collect(),
            archived: manifest.redo(),
            archived_millis: if end <= manifest.redo() {
                now
            } else {
                state.archived_millis
            },
            is_complete,
            missing_objects: if is_complete { 0 } else { self.missing() },
        }))
    }
}
