//! Merges runs that stores share, so that there are few, however long a cluster lives.

use super::runs::{WrittenRun, must_be_number};
use crate::archive::merge::COMPRESSION;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::manifest::RunMeta;

/// A run that was merged from adjacent runs of the list, and that no store lists yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergedRun {
    /// The run.
    pub run: WrittenRun,
    /// The [places](super::SharedRun::place) of those that it is to replace: all that they have is in it.
    pub replaces: Vec<String>,
}

impl Engine {
    /// See [`crate::Store::merge_runs`].
    pub(crate) fn merge_shared_runs(&self, number: u64) -> Result<Option<MergedRun>> {
        self.must_have_shared_runs("merge runs")?;
        must_be_number(number)?;
        let Some(inputs) = self.archive.runs_to_merge() else {
            return Ok(None);
        };
        let merged = self.merge_into(number, &inputs);
        if merged.is_err() {
            self.archive.leave_unmerged(&inputs);
        }
        merged.map(Some)
    }

    fn merge_into(&self, number: u64, inputs: &[RunMeta]) -> Result<MergedRun> {
        let places = self.archive.state().remote;
        let replaces = inputs.iter().map(|run| places.get(&run.number).cloned());
        let replaces: Option<Vec<_>> = replaces.collect();
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let meta = RunMeta {
            level: level + 1,
            ..RunMeta::of_log(number, 0, 0)
        };
        let writer = self.archive.create_run(meta, COMPRESSION)?;
        let merged = self.archive.merge(inputs, writer, 0)?;
        let writer = merged.ok_or_else(|| Error::refused("the store is being closed"))?;
        Ok(MergedRun {
            run: self.finish_shared_run(writer)?,
            replaces: replaces
                .ok_or_else(|| Error::refused("a run was replaced while it was merged"))?,
        })
    }
}
