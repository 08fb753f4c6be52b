//! The compactor keeps the archive small: runs are merged, and what is too old is folded into bases.
//!
//! - A **merge** makes one run of [`crate::limits::ARCHIVE_FAN_IN`] adjacent runs of the same level. Nothing is lost.
//! - A **fold** makes one **base** of the oldest runs: of each object only its last state in them remains, as a snapshot.
//!   It is done when the expired runs are a good share of the base that has to be written again with them, so the cost
//!   of a byte of history is bounded, and an object with a busy life costs its size and the changes of the retention.
//!
//! - If there is no room even for that, the oldest history is **dropped**: the base and the newest runs stay.
//!
//! The new run is durable before the manifest lists it in place of the old ones; these are removed afterwards. Both read
//! and write as streams: memory is bounded by a block for each run, the index of the new run (128 bytes for each of its
//! objects), and in a fold the pages of one object, up to a bound.
//!
//! A run that cannot be read is not merged, and the others are merged around it: somebody may put it back. Once it has
//! expired, a fold takes what can be read of it. No error here stops the node; compaction is retried later.

use super::hole::ArchiveHole;
use super::image::Image;
use super::index::NO_BASE;
use super::plan::retention_millis;
use super::plan::{Compaction, Room, plan};
use super::run::{RunMeta, RunWriter};
use super::snapshot;
use super::stream::{Merged, Stream};
use super::{Archive, ArchiveState};
use crate::broken::{Variant, broken};
use crate::error::{Error, ErrorKind, Result};
use crate::ident::{Lsn, ObjectKey};
use crate::limits::{
    ARCHIVE_FULL_AFTER, ARCHIVE_ROOM_CHECK_BYTES, ARCHIVE_SET_ASIDE_AFTER, LOG_TAIL_FACTOR,
    PAGE_BYTES,
};
use crate::shared::Shared;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Better than in a step: a merge has time, and its output lives longer.
const COMPRESSION: i32 = 3;

/// State that is kept between two passes.
#[derive(Default)]
struct State {
    /// The runs that were found damaged before this start were looked at again.
    looked: bool,
    /// A fold did not fit in so much room.
    too_little: u64,
    /// Folds in a row that had too little room.
    folds_refused: u32,
    /// Failed reads of runs that are not known to be damaged.
    unread: BTreeMap<u64, u32>,
    /// The warning that history is folded early was logged and still applies.
    over: bool,
}

/// Merges, folds and drops runs, one piece of work at a time.
pub(crate) struct Compactor {
    archive: Arc<Archive>,
    state: Mutex<State>,
}

impl Compactor {
    pub(crate) fn new(archive: Arc<Archive>) -> Self {
        Self {
            archive,
            state: Mutex::default(),
        }
    }

    /// The body of the compactor's thread.
    pub(crate) fn run(&self) {
        while self.archive.await_compaction() {
            loop {
                match self.compact() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(%error, "the archive is tidied later");
                        break;
                    }
                }
            }
        }
    }

    /// Runs the next compaction. False if there is none, or if it must wait. An error is one of the manifest.
    pub(crate) fn compact(&self) -> Result<bool> {
        let mut known = self.state.lock();
        if !known.looked {
            known.looked = true;
            self.look_at_damaged()?;
        }
        let state = self.archive.state();
        if state.archived.is_none() {
            return Ok(false);
        }
        let Shared { options, log, .. } = &*self.archive.shared;
        let full_log = options.checkpoint_bytes.saturating_mul(LOG_TAIL_FACTOR);
        let options = self.archive.options();
        let room = Room {
            available: self.archive.available(),
            reserve: full_log.min(state.bytes()),
            too_little: known.too_little,
            refused: self.archive.refused.load(Ordering::Acquire),
        };
        let over = state.bytes() > options.max_bytes || room.is_short();
        if over && !known.over {
            tracing::warn!(
                bytes = state.bytes(),
                max_bytes = options.max_bytes,
                available = room.available,
                "the archive is over its size, or the disk is nearly full: history leaves before its time"
            );
        }
        known.over = over;
        let Some(work) = plan(&state, options, self.archive.shared.unix_millis(), &room) else {
            return Ok(false);
        };
        let (Compaction::Merge(range) | Compaction::Fold(range) | Compaction::Drop(range)) = &work;
        let inputs = &state.runs[range.clone()];
        let made = match &work {
            Compaction::Merge(_) => self.merge(inputs, room.reserve),
            Compaction::Fold(_) => self.fold(inputs, room.floor()),
            Compaction::Drop(_) => Ok(Outcome::Dropped),
        };
        match made {
            Ok(Outcome::Stopped) => Ok(false),
            Ok(outcome) => {
                self.replace_runs(inputs, outcome)?;
                if !matches!(work, Compaction::Merge(_)) {
                    (known.too_little, known.folds_refused) = (0, 0);
                    self.archive.refused.store(0, Ordering::Release);
                }
                Ok(true)
            }
            Err(error) if log.failed() => Err(error),
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                tracing::warn!(%error, "there is no room to tidy the archive");
                let fold = matches!(work, Compaction::Fold(_));
                if fold {
                    // One refusal may be transient, and the step after a fold loses history.
                    known.folds_refused += 1;
                    if known.folds_refused >= ARCHIVE_FULL_AFTER {
                        known.too_little = room.available;
                    }
                }
                Ok(fold)
            }
            Err(error) => {
                let found = self.set_aside(inputs, &mut known.unread)?;
                if !found {
                    tracing::warn!(%error, "the archive is tidied later");
                }
                Ok(found)
            }
        }
    }

    /// Looks for damage in runs, and notes it. Objects that are written from now on get a new base. False: there is
    /// no more than was known.
    fn set_aside(&self, runs: &[RunMeta], unread: &mut BTreeMap<u64, u32>) -> Result<bool> {
        let known = self.archive.state().damaged;
        let mut damaged = BTreeSet::new();
        for run in runs.iter().filter(|run| !known.contains(&run.number)) {
            let Err(error) = self.archive.verify_run(run) else {
                unread.remove(&run.number);
                continue;
            };
            // It could not be looked at.
            if error.kind() == ErrorKind::Busy {
                continue;
            }
            // Any other error may pass.
            let failures = unread.entry(run.number).or_default();
            *failures += 1;
            if error.kind() == ErrorKind::Damaged || *failures >= ARCHIVE_SET_ASIDE_AFTER {
                tracing::error!(%error, "a run of the archive is set aside");
                unread.remove(&run.number);
                damaged.insert(run.number);
            }
        }
        if damaged.is_empty() {
            return Ok(false);
        }
        self.archive.publish(|state| {
            state.damaged.extend(&damaged);
            state.lose_history();
        })?;
        Ok(true)
    }

    /// An operator may have put a damaged run back.
    fn look_at_damaged(&self) -> Result<()> {
        let state = self.archive.state();
        let set_aside = state
            .runs
            .iter()
            .filter(|run| state.damaged.contains(&run.number));
        let (mut whole, mut still) = (BTreeSet::new(), BTreeSet::new());
        for run in set_aside {
            match self.archive.verify_run(run) {
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
        self.archive.publish(|state| state.damaged = still)
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
        self.archive.create_run(meta, COMPRESSION)
    }

    fn merge(&self, inputs: &[RunMeta], floor: u64) -> Result<Outcome> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let readers = inputs.iter().map(|run| self.archive.reader(run));
        let streams = readers.map(|reader| Stream::run(reader?));
        let mut merged = Merged::new(streams.collect::<Result<_>>()?);
        let mut writer = self.output(inputs, level + 1, false)?;
        let mut room = RoomCheck::new(&self.archive, floor);
        while let Some(key) = merged.key() {
            let newest = merged.newest_index(key);
            while let Some(entry) = merged.current().filter(|entry| entry.head.key == key) {
                room.count(entry.payload.len())?;
                let last = newest.map(|newest| newest.last_commit);
                if !(broken(Variant::MergeDropsNewest) && last == Some(entry.head.commit)) {
                    writer.add(&entry)?;
                }
                merged.advance()?;
                if self.archive.is_stopping() {
                    return Ok(Outcome::Stopped);
                }
            }
            if let Some(newest) = newest {
                writer.end_object(newest.last_commit, newest.since_base);
            }
        }
        finish(writer, false)
    }

    fn fold(&self, inputs: &[RunMeta], floor: u64) -> Result<Outcome> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let end = Lsn(inputs.last().map_or(0, |run| run.to));
        let (mut merged, mut lost) = self.salvaged(inputs)?;
        let mut writer = self.output(inputs, level, true)?;
        let mut room = RoomCheck::new(&self.archive, floor);
        let mut image = self.archive.new_image();
        while let Some(key) = merged.key() {
            let newest = merged.newest_index(key);
            self.last_state(&mut merged, key, end, &mut image)?;
            if self.archive.is_stopping() {
                return Ok(Outcome::Stopped);
            }
            if let (Some(head), Some(newest)) = (image.at().copied(), newest) {
                snapshot::add(&mut writer, head, |page_no| {
                    room.count(PAGE_BYTES)?;
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
        let set_aside = self.archive.state().damaged;
        for run in inputs {
            // An error that may pass must not cost history; see `set_aside`.
            let given_up = set_aside.contains(&run.number);
            match self.archive.reader(run) {
                Err(error) if given_up || error.kind() == ErrorKind::Damaged => {
                    tracing::error!(%error, "expired history is given up: a run cannot be read");
                    lost = true;
                }
                reader => streams.push(Stream::salvage(reader?, given_up)?),
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
            if self.archive.is_stopping() {
                break;
            }
        }
        Ok(())
    }

    fn replace_runs(&self, inputs: &[RunMeta], outcome: Outcome) -> Result<()> {
        let is_dropped = matches!(outcome, Outcome::Dropped);
        let (made, lost) = match outcome {
            Outcome::Run { run, lost } => (run, lost),
            Outcome::Dropped | Outcome::Stopped => (None, true),
        };
        let old = |run: &RunMeta| inputs.iter().any(|input| input.number == run.number);
        if broken(Variant::RunsRemovedEarly) {
            self.remove_runs(inputs);
        }
        let now = self.archive.shared.unix_millis();
        let horizon = now.saturating_sub(retention_millis(self.archive.options()));
        let change = |state: &mut ArchiveState| {
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
            state.forget_holes(horizon);
        };
        if is_dropped {
            let hole = ArchiveHole {
                from: inputs.first().map_or(0, |run| run.from),
                to: inputs.last().map_or(0, |run| run.to),
                after_millis: inputs.iter().map(|run| run.first_millis).min().unwrap_or(0),
                until_millis: inputs.iter().map(|run| run.last_millis).max().unwrap_or(0),
                given_up_millis: now,
                reason: "the disk has no room even to fold it".to_owned(),
            };
            self.archive.give_up(hole, change)?;
        } else {
            self.archive.publish(change)?;
        }
        self.remove_runs(inputs);
        Ok(())
    }

    fn remove_runs(&self, runs: &[RunMeta]) {
        for run in runs {
            let path = self.archive.dir.join(RunMeta::file_name(run.number));
            if let Err(error) = self.archive.shared.disk.remove(&path) {
                // It does no harm; the next start removes it.
                tracing::warn!(%error, path = %path.display(), "an old run of the archive was not removed");
            }
        }
    }
}

/// Keeps a merge or fold from taking the last room of the disk.
struct RoomCheck<'a> {
    archive: &'a Archive,
    floor: u64,
    bytes: u64,
}

impl<'a> RoomCheck<'a> {
    fn new(archive: &'a Archive, floor: u64) -> Self {
        Self {
            archive,
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
        if self.archive.available() < self.floor {
            let why = "the disk has no room for a second copy of the history that is tidied";
            return Err(Error::new(ErrorKind::NoSpace, why));
        }
        Ok(())
    }
}

/// The outcome of a compaction.
enum Outcome {
    /// The store is closed; nothing was changed.
    Stopped,
    /// There is no room even for a fold: the runs are given up.
    Dropped,
    /// The new run; `None` if nothing was worth keeping. `lost`: an object's history has a hole now.
    Run { run: Option<RunMeta>, lost: bool },
}

fn finish(writer: RunWriter, lost: bool) -> Result<Outcome> {
    let run = (!writer.is_empty()).then(|| writer.finish()).transpose()?;
    Ok(Outcome::Run { run, lost })
}
