//! Keeping the archive small: runs are merged, and what is too old is folded into bases.
//!
//! - A **merge** makes one run of [`ARCHIVE_FAN_IN`] neighbours of the same level. Nothing is lost.
//! - A **fold** makes one **base** of the oldest runs: of each object only its last state in them remains, as a snapshot.
//!   It is done when the expired runs are a good share of the base that has to be written again with them, so the cost
//!   of a byte of history is bounded, and an object with a busy life costs its size and the changes of the retention.
//!
//! - If the disk has no room even for that, the oldest history is **dropped**: the base stays, and so do the newest runs.
//!
//! The new run is durable before the manifest lists it in place of the old ones; these are removed afterwards. Both read
//! and write as streams: memory is bounded by a block for each run, the index of the new run (128 bytes for each of its
//! objects), and in a fold the pages of one object, up to a bound.
//!
//! A run that cannot be read is not merged, and the others are merged around it: somebody may put it back. Once it has
//! expired a fold takes of it what can be read. No error here stops the node; the archive is tidied later.

use super::image::Image;
use super::index::NO_BASE;
use super::run::{RunMeta, RunWriter};
use super::snapshot;
use super::stream::{Merged, Stream};
use super::{ArchiveOptions, ArchiveState};
use crate::broken::{Variant, broken};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{Lsn, ObjectKey};
use crate::limits::{
    ARCHIVE_FAN_IN, ARCHIVE_FOLD_SHARE, ARCHIVE_ROOM_CHECK_BYTES, ARCHIVE_SPAN_SHARE,
    LOG_TAIL_FACTOR, PAGE_BYTES, RESTORE_PAGES_IN_MEMORY,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Better than in a step: a merge has time, and its output lives longer.
const COMPRESSION: i32 = 3;

/// What is remembered between two looks at the archive.
#[derive(Default)]
pub(crate) struct Keeper {
    /// The runs that were found damaged before this start were looked at again.
    looked: bool,
    /// A fold did not fit in so much room.
    too_little: u64,
    /// True after the warning that history leaves before its time, until that is over.
    over: bool,
}

/// The room on the disk.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Bytes that can be written.
    available: u64,
    /// Bytes that the archive leaves free: those of a full log, but not more than the archive takes.
    reserve: u64,
    /// A fold needs more than this.
    too_little: u64,
    /// A step could not be written.
    full: bool,
}

impl Room {
    fn is_short(&self) -> bool {
        self.full || self.available < self.reserve
    }

    /// What a fold may not use either: half of the reserve, for it makes room.
    fn floor(&self) -> u64 {
        self.reserve / 2
    }

    fn fits_fold(&self, base_bytes: u64) -> bool {
        self.available > self.too_little
            && base_bytes.saturating_add(self.floor()) <= self.available
    }
}

/// What is to be done with which runs, by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Merge(Range<usize>),
    Fold(Range<usize>),
    Drop(Range<usize>),
}

/// Decides what is to be done next.
fn plan(state: &ArchiveState, options: &ArchiveOptions, now: u64, room: &Room) -> Option<Work> {
    let retention = u64::try_from(options.retention.as_millis()).unwrap_or(u64::MAX);
    let horizon = if broken(Variant::FoldEarly) {
        now
    } else {
        now.saturating_sub(retention)
    };
    let runs = &state.runs;
    let bases = runs.iter().take_while(|run| run.base).count();
    let bytes = |runs: &[RunMeta]| runs.iter().map(|run| run.bytes).sum::<u64>();
    let (base_bytes, history) = (bytes(&runs[..bases]), &runs[bases..]);
    let worth_it = |history: &[RunMeta]| {
        !history.is_empty() && bytes(history).saturating_mul(ARCHIVE_FOLD_SHARE) >= base_bytes
    };
    let fits = room.fits_fold(base_bytes);
    let expired = history
        .iter()
        .take_while(|run| run.last_millis <= horizon)
        .count();
    if fits && worth_it(&history[..expired]) {
        return Some(Work::Fold(0..bases + expired));
    }
    let half = bases + history.len().div_ceil(2);
    if state.bytes() > options.max_bytes || room.is_short() {
        if fits && worth_it(history) {
            return Some(Work::Fold(0..half));
        }
        // A step that could not be written needs room, whatever it costs; a cap only if there is much to gain.
        if !history.is_empty() && (room.full || (worth_it(history) && !fits)) {
            return Some(Work::Drop(bases..half));
        }
    }
    (0..runs.len()).find_map(|start| {
        let range = start..start + ARCHIVE_FAN_IN;
        let window = runs.get(range.clone())?;
        let (first, last) = (window.first()?, window.last()?);
        let alike = window.iter().all(|run| {
            !run.base && run.level == first.level && !state.damaged.contains(&run.number)
        });
        let span = last.last_millis.saturating_sub(first.first_millis);
        // What has expired leaves together. A merge leaves as much room as it takes.
        let short = span <= retention / ARCHIVE_SPAN_SHARE || last.last_millis <= horizon;
        let fits = bytes(window).saturating_mul(2) <= room.available;
        (alike && short && fits).then_some(Work::Merge(range))
    })
}

impl Engine {
    /// Does the next piece of work, if there is any. False: there was none, or it must wait. An error is one of the
    /// manifest.
    pub(crate) fn keep_archive(&self) -> Result<bool> {
        let mut keeper = self.archive.keeping.lock();
        if !keeper.looked {
            keeper.looked = true;
            self.look_at_damaged()?;
        }
        let state = self.manifest.lock().archive.clone();
        if state.archived.is_none() {
            return Ok(false);
        }
        let options = &self.archive.options;
        let full_log = self
            .options
            .checkpoint_bytes
            .saturating_mul(LOG_TAIL_FACTOR);
        let room = Room {
            available: self.archive.available(),
            reserve: full_log.min(state.bytes()),
            too_little: keeper.too_little,
            full: self.archive.full.load(Ordering::Acquire),
        };
        let over = state.bytes() > options.max_bytes || room.is_short();
        if over && !keeper.over {
            tracing::warn!(
                bytes = state.bytes(),
                max_bytes = options.max_bytes,
                available = room.available,
                "the archive is over its size, or the disk is nearly full: history leaves before its time"
            );
        }
        keeper.over = over;
        let Some(work) = plan(&state, options, self.unix_millis(), &room) else {
            return Ok(false);
        };
        let (Work::Merge(range) | Work::Fold(range) | Work::Drop(range)) = &work;
        let inputs = &state.runs[range.clone()];
        let made = match &work {
            Work::Merge(_) => self.merge(inputs, room.reserve),
            Work::Fold(_) => self.fold(inputs, room.floor()),
            Work::Drop(_) => {
                tracing::error!(
                    runs = inputs.len(),
                    "the disk is full: history is dropped, and objects cannot be restored to the commits in it"
                );
                Ok(Made::Run {
                    run: None,
                    lost: true,
                })
            }
        };
        match made {
            Ok(Made::Stopped) => Ok(false),
            Ok(Made::Run { run, lost }) => {
                self.replace_runs(inputs, run, lost)?;
                if !matches!(work, Work::Merge(_)) {
                    keeper.too_little = 0;
                    self.archive.full.store(false, Ordering::Release);
                }
                Ok(true)
            }
            Err(error) if self.log.failed() => Err(error),
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                tracing::warn!(%error, "there is no room to tidy the archive");
                let fold = matches!(work, Work::Fold(_));
                if fold {
                    keeper.too_little = room.available;
                }
                Ok(fold)
            }
            Err(error) => {
                let found = self.set_aside(inputs)?;
                if !found {
                    tracing::warn!(%error, "the archive is tidied later");
                }
                Ok(found)
            }
        }
    }

    /// Looks for damage in runs, and notes it. Objects that are written from now on get a new base. False: there is
    /// no more than was known.
    fn set_aside(&self, runs: &[RunMeta]) -> Result<bool> {
        let known = self.manifest.lock().archive.damaged.clone();
        let mut damaged = BTreeSet::new();
        for run in runs.iter().filter(|run| !known.contains(&run.number)) {
            if let Err(error) = self.verify_run(run) {
                tracing::error!(%error, "a run of the archive is set aside");
                damaged.insert(run.number);
            }
        }
        if damaged.is_empty() {
            return Ok(false);
        }
        self.publish_archive(|state| {
            state.damaged.extend(&damaged);
            state.lose_history();
        })?;
        Ok(true)
    }

    /// Somebody may have put a damaged run back.
    fn look_at_damaged(&self) -> Result<()> {
        let state = self.manifest.lock().archive.clone();
        let set_aside = state
            .runs
            .iter()
            .filter(|run| state.damaged.contains(&run.number));
        let (mut whole, mut still) = (BTreeSet::new(), BTreeSet::new());
        for run in set_aside {
            match self.verify_run(run) {
                Ok(_) => whole.insert(run.number),
                Err(error) => {
                    tracing::error!(%error, "a run of the archive is set aside");
                    still.insert(run.number)
                }
            };
        }
        if still == state.damaged {
            return Ok(());
        }
        tracing::info!(runs = whole.len(), "runs of the archive can be read again");
        self.publish_archive(|state| state.damaged = still)
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

    fn merge(&self, inputs: &[RunMeta], floor: u64) -> Result<Made> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let readers = inputs.iter().map(|run| self.archive.reader(run));
        let streams = readers.map(|reader| Stream::run(reader?));
        let mut merged = Merged::new(streams.collect::<Result<_>>()?);
        let mut writer = self.output(inputs, level + 1, false)?;
        let mut spent = Spent::new(self, floor);
        while let Some(key) = merged.key() {
            let newest = merged.newest_index(key);
            while let Some(entry) = merged.current().filter(|entry| entry.head.key == key) {
                spent.count(entry.payload.len())?;
                let last = newest.map(|newest| newest.last_commit);
                if !(broken(Variant::MergeDropsNewest) && last == Some(entry.head.commit)) {
                    writer.add(&entry)?;
                }
                merged.advance()?;
                if self.archive_stopping() {
                    return Ok(Made::Stopped);
                }
            }
            if let Some(newest) = newest {
                writer.end_object(newest.last_commit, newest.since_base);
            }
        }
        finish(writer, false)
    }

    fn fold(&self, inputs: &[RunMeta], floor: u64) -> Result<Made> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let end = Lsn(inputs.last().map_or(0, |run| run.to));
        let (mut merged, mut lost) = self.salvaged(inputs)?;
        let mut writer = self.output(inputs, level, true)?;
        let mut spent = Spent::new(self, floor);
        let (disk, scratch) = (self.disk.clone(), self.archive.scratch());
        let mut image = Image::new(disk, scratch, RESTORE_PAGES_IN_MEMORY);
        while let Some(key) = merged.key() {
            let newest = merged.newest_index(key);
            self.last_state(&mut merged, key, end, &mut image)?;
            if self.archive_stopping() {
                return Ok(Made::Stopped);
            }
            if let (Some(head), Some(newest)) = (image.at().copied(), newest) {
                snapshot::add(&mut writer, head, |page_no| {
                    spent.count(PAGE_BYTES)?;
                    image.page(page_no)
                })?;
                // If its last commits could not be read its history has a hole here, and needs a new base behind it.
                if newest.last_commit.is_after(head.commit) {
                    lost = true;
                    writer.end_object(head.commit, NO_BASE);
                } else {
                    writer.end_object(newest.last_commit, 0);
                }
            } else {
                lost = true;
                // A run that held its base was damaged or is gone. Its history begins anew with its next commit.
                tracing::error!(object = %key, "the archive has no whole state of an object: its expired history is dropped");
            }
        }
        finish(writer, lost)
    }

    /// The runs of a fold: what cannot be read of them is left out. It has expired, and nothing can be made of it. True if
    /// a whole run was left out.
    fn salvaged(&self, inputs: &[RunMeta]) -> Result<(Merged, bool)> {
        let mut lost = false;
        let mut streams = Vec::new();
        for run in inputs {
            match self.archive.reader(run) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    tracing::error!(%error, "expired history is given up: a run cannot be read");
                    lost = true;
                }
                reader => streams.push(Stream::salvage(reader?)?),
            }
        }
        Ok((Merged::new(streams), lost))
    }
    /// Makes `image` the last state of an object in the runs that are merged, which end at `end`.
    fn last_state(
        &self,
        merged: &mut Merged,
        key: ObjectKey,
        end: Lsn,
        image: &mut Image,
    ) -> Result<()> {
        image.reset()?;
        while let Some(entry) = merged.current().filter(|entry| entry.head.key == key) {
            // A snapshot may be ahead of the commits archived with it. What is between is in later runs, and must stay
            // within reach, so such a snapshot counts only if there is no other state.
            if entry.head.lsn <= end || image.at().is_none() {
                image.apply(&entry)?;
            }
            merged.advance()?;
            if self.archive_stopping() {
                break;
            }
        }
        Ok(())
    }

    fn replace_runs(&self, inputs: &[RunMeta], made: Option<RunMeta>, lost: bool) -> Result<()> {
        let old = |run: &RunMeta| inputs.iter().any(|input| input.number == run.number);
        if broken(Variant::RunsRemovedEarly) {
            self.remove_runs(inputs);
        }
        self.publish_archive(|state| {
            let place = state.runs.iter().position(old).unwrap_or(0);
            if lost {
                state.lose_history();
            }
            state.runs.retain(|run| !old(run));
            state
                .damaged
                .retain(|number| inputs.iter().all(|run| run.number != *number));
            if let Some(made) = made {
                state.runs.insert(place, made);
            }
        })?;
        self.remove_runs(inputs);
        Ok(())
    }

    fn remove_runs(&self, runs: &[RunMeta]) {
        for run in runs {
            let path = self.archive.dir.join(RunMeta::file_name(run.number));
            if let Err(error) = self.disk.remove(&path) {
                // It is in nobody's way; the next start removes it.
                tracing::warn!(%error, path = %path.display(), "an old run of the archive was not removed");
            }
        }
    }
}

/// Watches that a merge or fold does not take the last room of the disk.
struct Spent<'a> {
    engine: &'a Engine,
    floor: u64,
    bytes: u64,
}

impl<'a> Spent<'a> {
    fn new(engine: &'a Engine, floor: u64) -> Self {
        Self {
            engine,
            floor,
            bytes: 0,
        }
    }

    fn count(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes as u64;
        if self.bytes < ARCHIVE_ROOM_CHECK_BYTES {
            return Ok(());
        }
        self.bytes = 0;
        if self.engine.archive.available() < self.floor {
            let why = "the disk has no room for a second copy of the history that is tidied";
            return Err(Error::new(ErrorKind::NoSpace, why));
        }
        Ok(())
    }
}

/// What became of a piece of work.
enum Made {
    /// The store is closed; nothing was changed.
    Stopped,
    /// The new run; `None` if nothing was worth keeping. `lost`: an object's history has a hole now.
    Run { run: Option<RunMeta>, lost: bool },
}

fn finish(writer: RunWriter, lost: bool) -> Result<Made> {
    let run = (!writer.is_empty()).then(|| writer.finish()).transpose()?;
    Ok(Made::Run { run, lost })
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
            ..ArchiveState::default()
        }
    }

    const ROOMY: Room = Room {
        available: u64::MAX,
        reserve: 0,
        too_little: 0,
        full: false,
    };

    fn plan(state: &ArchiveState, options: &ArchiveOptions, now: u64) -> Option<Work> {
        super::plan(state, options, now, &ROOMY)
    }

    #[test]
    fn eight_neighbours_of_a_level_are_merged_unless_they_span_too_much() {
        let mut runs = state(&[(1, 10); 3]);
        runs.runs.extend(state(&[(0, 10); 8]).runs);
        assert_eq!(plan(&runs, &options(), 0), Some(Work::Merge(3..11)));
        let seven = ArchiveState {
            archived: None,
            runs: runs.runs[..10].to_vec(),
            ..ArchiveState::default()
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

    #[test]
    fn runs_are_merged_around_a_damaged_one_and_expired_ones_whatever_they_span() {
        let around = |damaged| {
            let mut runs = state(&[(0, 10); 20]);
            runs.damaged.insert(damaged);
            plan(&runs, &options(), 0)
        };
        assert_eq!(around(3), Some(Work::Merge(4..12)));
        assert_eq!(around(9), Some(Work::Merge(0..8)));
        let mut long = state(&[(99, 10_000)]);
        long.runs.extend(state(&[(2, 10); 9]).runs);
        let hour = ArchiveOptions {
            retention: Duration::from_hours(8),
            max_bytes: u64::MAX,
            ..options()
        };
        assert_eq!(plan(&long, &hour, 10 * HOUR), None);
        assert_eq!(plan(&long, &hour, 16 * HOUR), Some(Work::Merge(1..9)));
    }

    #[test]
    fn with_little_room_history_is_folded_and_dropped_only_if_that_does_not_fit() {
        let runs = state(&[(99, 100), (1, 200), (1, 200), (0, 200)]);
        let with = |room: Room| super::plan(&runs, &options(), 0, &room);
        let short = Room {
            available: 500,
            reserve: 700,
            ..ROOMY
        };
        assert_eq!(with(ROOMY), None);
        assert_eq!(with(short), Some(Work::Fold(0..3)));
        let tight = Room {
            available: 300,
            ..short
        };
        assert_eq!(with(tight), Some(Work::Drop(1..3)));
        let failed = Room {
            too_little: 500,
            ..short
        };
        assert_eq!(with(failed), Some(Work::Drop(1..3)));
    }

    #[test]
    fn a_merge_that_would_take_the_last_room_waits() {
        let runs = state(&[(0, 10); 8]);
        let with = |available| {
            let room = Room { available, ..ROOMY };
            super::plan(&runs, &options(), 0, &room)
        };
        assert_eq!(with(159), None);
        assert_eq!(with(160), Some(Work::Merge(0..8)));
    }
}
