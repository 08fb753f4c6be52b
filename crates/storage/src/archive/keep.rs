//! Keeping the archive small: runs are merged, and what is too old is folded into bases.
//!
//! - A **merge** makes one run of [`ARCHIVE_FAN_IN`] neighbours of the same level. Nothing is lost.
//! - A **fold** makes one **base** of the oldest runs: of each object only its last state in them remains, as a snapshot.
//!   It is done when the expired runs are a good share of the base that has to be written again with them, so the cost
//!   of a byte of history is bounded, and an object with a busy life costs its size and the changes of the retention.
//!
//! The new run is durable before the manifest lists it in place of the old ones; these are removed afterwards. Both read
//! and write as streams: memory is bounded by a block for each run, the index of the new run (128 bytes for each of its
//! objects), and in a fold the pages of one object, up to a bound.

use super::image::Image;
use super::run::{RunMeta, RunWriter};
use super::snapshot;
use super::stream::{Merged, Stream};
use super::{ArchiveOptions, ArchiveState};
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::ident::{Lsn, ObjectKey};
use crate::limits::{
    ARCHIVE_FAN_IN, ARCHIVE_FOLD_SHARE, ARCHIVE_SPAN_SHARE, RESTORE_PAGES_IN_MEMORY,
};
use std::ops::Range;

/// Better than in a step: a merge has time, and its output lives longer.
const COMPRESSION: i32 = 3;

/// What is remembered between two looks at the archive.
#[derive(Default)]
pub(crate) struct Keeper {
    /// The runs in which damage was found: nothing is made of them.
    damaged: Vec<u64>,
    /// True after the size cap's warning, until there is room again.
    over: bool,
}

/// What is to be done with which runs, by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Merge(Range<usize>),
    Fold(Range<usize>),
}

/// Decides what is to be done next.
fn plan(state: &ArchiveState, options: &ArchiveOptions, now: u64) -> Option<Work> {
    let retention = u64::try_from(options.retention.as_millis()).unwrap_or(u64::MAX);
    let horizon = now.saturating_sub(retention);
    let runs = &state.runs;
    let bases = runs.iter().take_while(|run| run.base).count();
    let bytes = |runs: &[RunMeta]| runs.iter().map(|run| run.bytes).sum::<u64>();
    let (base_bytes, history) = (bytes(&runs[..bases]), &runs[bases..]);
    let worth_it = |history: &[RunMeta]| {
        !history.is_empty() && bytes(history).saturating_mul(ARCHIVE_FOLD_SHARE) >= base_bytes
    };
    let expired = history
        .iter()
        .take_while(|run| run.last_millis <= horizon)
        .count();
    if worth_it(&history[..expired]) {
        return Some(Work::Fold(0..bases + expired));
    }
    if state.bytes() > options.max_bytes && worth_it(history) {
        return Some(Work::Fold(0..bases + history.len().div_ceil(2)));
    }
    (0..runs.len()).find_map(|start| {
        let range = start..start + ARCHIVE_FAN_IN;
        let window = runs.get(range.clone())?;
        let (first, last) = (window.first()?, window.last()?);
        let alike = window
            .iter()
            .all(|run| !run.base && run.level == first.level);
        let span = last.last_millis.saturating_sub(first.first_millis);
        (alike && span <= retention / ARCHIVE_SPAN_SHARE).then_some(Work::Merge(range))
    })
}

impl Engine {
    /// Does the next piece of work, if there is any. False: there was none.
    pub(crate) fn keep_archive(&self) -> Result<bool> {
        let mut keeper = self.archive.keeping.lock();
        let state = self.manifest.lock().archive.clone();
        if state.archived.is_none() {
            return Ok(false);
        }
        let options = &self.archive.options;
        let over = state.bytes() > options.max_bytes;
        if over && !keeper.over {
            tracing::warn!(
                bytes = state.bytes(),
                max_bytes = options.max_bytes,
                "the archive is over its size: history is folded away before its time"
            );
        }
        keeper.over = over;
        let Some(work) = plan(&state, options, self.unix_millis()) else {
            return Ok(false);
        };
        let (Work::Merge(range) | Work::Fold(range)) = &work;
        let inputs = &state.runs[range.clone()];
        if inputs
            .iter()
            .any(|run| keeper.damaged.contains(&run.number))
        {
            return Ok(false);
        }
        let made = match &work {
            Work::Merge(_) => self.merge(inputs),
            Work::Fold(_) => self.fold(inputs),
        };
        match made {
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Refused) => {
                // Reported once: the run stays as it is, and so do those beside it.
                tracing::error!(%error, "runs of the archive cannot be merged");
                keeper.damaged.extend(inputs.iter().map(|run| run.number));
                Ok(false)
            }
            Err(error) => {
                self.judge(&error);
                Err(error)
            }
            Ok(Made::Stopped) => Ok(false),
            Ok(Made::Run(run)) => self.replace_runs(inputs, run).map(|()| true),
        }
    }

    fn output(&self, inputs: &[RunMeta], level: u32, base: bool) -> Result<RunWriter> {
        let meta = RunMeta {
            number: self.archive.new_number(),
            level,
            base,
            from: inputs.first().map_or(0, |run| run.from),
            to: inputs.last().map_or(0, |run| run.to),
            first_millis: u64::MAX,
            last_millis: 0,
            objects: 0,
            bytes: 0,
        };
        RunWriter::create(self.disk.clone(), &self.archive.dir, meta, COMPRESSION)
    }

    fn merged(&self, inputs: &[RunMeta]) -> Result<Merged> {
        let readers = self.archive.readers(inputs)?;
        let streams = readers.into_iter().map(Stream::run);
        let streams: Vec<Option<Stream>> = streams.collect::<Result<_>>()?;
        Ok(Merged::new(streams.into_iter().flatten().collect()))
    }

    fn merge(&self, inputs: &[RunMeta]) -> Result<Made> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let mut writer = self.output(inputs, level + 1, false)?;
        let mut merged = self.merged(inputs)?;
        while let Some(key) = merged.key() {
            let newest = merged.newest_index(key);
            while let Some(entry) = merged.current().filter(|entry| entry.head.key == key) {
                writer.add(&entry)?;
                merged.advance()?;
            }
            if let Some(newest) = newest {
                writer.end_object(newest.last_commit, newest.since_base);
            }
            if self.archive_stopping() {
                return Ok(Made::Stopped);
            }
        }
        finish(writer)
    }

    fn fold(&self, inputs: &[RunMeta]) -> Result<Made> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let end = Lsn(inputs.last().map_or(0, |run| run.to));
        let mut writer = self.output(inputs, level, true)?;
        let mut merged = self.merged(inputs)?;
        let (disk, scratch) = (self.disk.clone(), self.archive.scratch());
        let mut image = Image::new(disk, scratch, RESTORE_PAGES_IN_MEMORY);
        while let Some(key) = merged.key() {
            let newest = merged.newest_index(key);
            last_state(&mut merged, key, end, &mut image)?;
            if let (Some(head), Some(newest)) = (image.at().copied(), newest) {
                snapshot::add(&mut writer, head, |page_no| image.page(page_no))?;
                writer.end_object(newest.last_commit, 0);
            } else {
                // A run that held its base was damaged or is gone. Its history begins anew with its next commit.
                tracing::error!(object = %key, "the archive has no whole state of an object: its expired history is dropped");
            }
            if self.archive_stopping() {
                return Ok(Made::Stopped);
            }
        }
        finish(writer)
    }

    fn replace_runs(&self, inputs: &[RunMeta], made: Option<RunMeta>) -> Result<()> {
        let old = |run: &RunMeta| inputs.iter().any(|input| input.number == run.number);
        self.publish_archive(|state| {
            let place = state.runs.iter().position(old).unwrap_or(0);
            state.runs.retain(|run| !old(run));
            if let Some(made) = made {
                state.runs.insert(place, made);
            }
        })?;
        for run in inputs {
            let path = self.archive.dir.join(RunMeta::file_name(run.number));
            if let Err(error) = self.disk.remove(&path) {
                // It is in nobody's way; the next start removes it.
                tracing::warn!(%error, path = %path.display(), "an old run of the archive was not removed");
            }
        }
        Ok(())
    }
}

/// Makes `image` the last state of an object in the runs that are merged, which end at `end`.
fn last_state(merged: &mut Merged, key: ObjectKey, end: Lsn, image: &mut Image) -> Result<()> {
    image.reset()?;
    while let Some(entry) = merged.current().filter(|entry| entry.head.key == key) {
        // A snapshot may be ahead of the commits archived with it. What is between is in later runs, and must stay
        // within reach, so such a snapshot counts only if there is no other state.
        if entry.head.lsn <= end || image.at().is_none() {
            image.apply(&entry)?;
        }
        merged.advance()?;
    }
    Ok(())
}

/// What became of a piece of work.
enum Made {
    /// The store is closed; nothing was changed.
    Stopped,
    /// The new run; `None` if nothing was worth keeping.
    Run(Option<RunMeta>),
}

fn finish(writer: RunWriter) -> Result<Made> {
    if writer.is_empty() {
        return Ok(Made::Run(None));
    }
    writer.finish().map(|run| Made::Run(Some(run)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HOUR: u64 = 3_600_000;

    fn options() -> ArchiveOptions {
        ArchiveOptions {
            retention: Duration::from_hours(80),
            max_bytes: 10_000,
            ..ArchiveOptions::default()
        }
    }

    /// Runs of one hour each: level, bytes.
    fn state(runs: &[(u32, u64)]) -> ArchiveState {
        let run = |(at, &(level, bytes)): (usize, &(u32, u64))| RunMeta {
            number: at as u64,
            level,
            base: level == 99,
            from: 0,
            to: 0,
            first_millis: at as u64 * HOUR,
            last_millis: (at as u64 + 1) * HOUR,
            objects: 1,
            bytes,
        };
        ArchiveState {
            archived: Some(0),
            runs: runs.iter().enumerate().map(run).collect(),
        }
    }

    #[test]
    fn eight_neighbours_of_a_level_are_merged_unless_they_span_too_much() {
        let mut runs = state(&[(1, 10); 3]);
        runs.runs.extend(state(&[(0, 10); 8]).runs);
        assert_eq!(plan(&runs, &options(), 0), Some(Work::Merge(3..11)));
        let seven = ArchiveState {
            archived: None,
            runs: runs.runs[..10].to_vec(),
        };
        assert_eq!(plan(&seven, &options(), 0), None);
        let hour = ArchiveOptions {
            retention: Duration::from_hours(60),
            ..options()
        };
        assert_eq!(plan(&runs, &hour, 0), None);
    }

    #[test]
    fn expired_runs_are_folded_once_they_are_a_good_share_of_the_base() {
        let runs = state(&[(99, 100), (3, 10), (3, 10), (3, 10), (2, 10)]);
        let at = |hours| plan(&runs, &options(), hours * HOUR);
        assert_eq!(at(83), None);
        assert_eq!(at(84), Some(Work::Fold(0..4)));
        assert_eq!(at(900), Some(Work::Fold(0..5)));
    }

    #[test]
    fn an_archive_over_its_size_folds_the_older_half_of_its_history_but_not_bases_alone() {
        let over = state(&[(99, 6000), (1, 2000), (1, 2000), (0, 2000)]);
        assert_eq!(plan(&over, &options(), 0), Some(Work::Fold(0..3)));
        let bases = state(&[(99, 20_000), (0, 20)]);
        assert_eq!(plan(&bases, &options(), 0), None);
    }
}
