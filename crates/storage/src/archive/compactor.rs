//! The compactor keeps the archive small: it merges runs, and reduces expired history to bases.
//!
//! - A **merge** combines [`crate::limits::ARCHIVE_FAN_IN`] adjacent runs of the same level into one. Nothing is lost.
//! - A **fold** replaces the oldest runs by one **base**, which keeps only the last state of each object in them, as a
//!   snapshot. It runs once the expired runs are a sizeable share of the base that must be rewritten with them. This
//!   bounds the cost of a byte of history: an object with many changes costs its size and its changes within the
//!   retention.
//! - If there is no space even for a fold, the oldest history is **dropped**: the base and the newest runs stay.
//!
//! The new run is durable before the manifest lists it in place of the old ones, which are removed afterwards. Merges
//! and folds stream their input and output. Memory is bounded by a block for each run, the index of the new run (136
//! bytes for each of its objects) and, in a fold, the pages of one object, up to a bound.
//!
//! A run that cannot be read is not merged; the others are merged around it, since an operator may restore it. Once it has
//! expired, a fold salvages the readable part of it. No error here stops the node; compaction is retried later.

use super::Archive;
use super::image::Image;
use super::index::{KnownAlarm, NO_BASE, Newest};
use super::merge::{COMPRESSION, RoomCheck};
use super::plan::retention_millis;
use super::plan::{Compaction, Room, plan};
use super::run::RunWriter;
use super::snapshot;
use super::stream::{Merged, Stream};
use crate::error::{ErrorKind, Result};
use crate::ident::{Life, Lsn, ObjectKey};
use crate::limits::{ARCHIVE_FULL_AFTER, ARCHIVE_SET_ASIDE_AFTER, PAGE_BYTES};
use crate::manifest::{ArchiveHole, ArchiveState, RunMeta};
use crate::shared::Shared;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// State that is kept between two passes.
#[derive(Default)]
struct State {
    /// The runs found damaged before this start have been checked again.
    looked: bool,
    /// A fold did not fit into this many bytes.
    too_little: u64,
    /// Consecutive folds that lacked space.
    folds_refused: u32,
    /// Failed reads of runs that are not known to be damaged.
    unread: BTreeMap<u64, u32>,
    /// The warning about folding history early was logged and still applies.
    over: bool,
}

/// Merges, folds and drops runs, one step at a time.
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
                        tracing::warn!(%error, "the archive cannot be compacted now; compaction is retried");
                        break;
                    }
                }
            }
        }
    }

    /// Runs the next compaction. Returns false if there is none, or if it must wait. Only errors of the manifest are
    /// returned.
    pub(crate) fn compact(&self) -> Result<bool> {
        let mut known = self.state.lock();
        if self.archive.is_only_copy() {
            return Ok(false);
        }
        if !known.looked {
            known.looked = true;
            self.look_at_damaged()?;
        }
        let state = self.archive.state();
        if state.archived.is_none() {
            return Ok(false);
        }
        let Shared { log, .. } = &*self.archive.shared;
        let options = self.archive.options();
        let mut room = Room {
            available: self.archive.available(),
            reserve: self.archive.reserve(),
            too_little: known.too_little,
            refused: self.archive.refused.load(Ordering::Acquire),
        };
        if room.is_short() && self.archive.make_room(&room)? {
            return Ok(true);
        }
        let (keep_free, keep_free_in_fold) = (room.reserve, room.fold_reserve());
        if !state.remote.is_empty() {
            // To give up what is elsewhere frees nothing here.
            room = room.without_reserve();
        }
        let over = state.bytes() > options.max_bytes || room.is_short();
        if over && !known.over {
            tracing::warn!(
                bytes = state.bytes(),
                max_bytes = options.max_bytes,
                available = room.available,
                "the archive exceeds its size limit, or the disk is nearly full: removing history before it expires"
            );
        }
        known.over = over;
        let Some(work) = plan(&state, options, self.archive.shared.unix_millis(), &room) else {
            return Ok(false);
        };
        let (Compaction::Merge(range) | Compaction::Fold(range) | Compaction::Drop(range)) = &work;
        let inputs = &state.runs[range.clone()];
        let made = match &work {
            Compaction::Merge(_) => self.merge(inputs, keep_free),
            Compaction::Fold(_) => {
                // Where the next run begins: commits between the two exist in none.
                let next = state.runs.get(range.end).map(|next| next.from);
                let end = Lsn(next.or(state.archived).unwrap_or(0));
                self.fold(inputs, end, keep_free_in_fold)
            }
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
                tracing::warn!(%error, "no disk space to compact the archive");
                let fold = matches!(work, Compaction::Fold(_));
                if fold {
                    // A single failure may be transient, and the step after a fold loses history.
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
                    tracing::warn!(%error, "the archive cannot be compacted now; compaction is retried");
                }
                Ok(found)
            }
        }
    }

    /// Looks for damaged runs, and records them. Objects that are written from now on get a new base. Returns false if
    /// no new damage was found.
    fn set_aside(&self, runs: &[RunMeta], unread: &mut BTreeMap<u64, u32>) -> Result<bool> {
        let known = self.archive.state().damaged;
        let mut damaged = BTreeSet::new();
        for run in runs.iter().filter(|run| !known.contains(&run.number)) {
            let Err(error) = self.archive.verify_run(run) else {
                unread.remove(&run.number);
                continue;
            };
            // It could not be checked.
            if error.kind() == ErrorKind::Busy {
                continue;
            }
            // Any other error may be transient.
            let failures = unread.entry(run.number).or_default();
            *failures += 1;
            if error.kind() == ErrorKind::Damaged || *failures >= ARCHIVE_SET_ASIDE_AFTER {
                tracing::error!(%error, "ignoring an unreadable run of the archive");
                unread.remove(&run.number);
                damaged.insert(run.number);
            }
        }
        if damaged.is_empty() {
            return Ok(false);
        }
        self.archive.set_aside(&damaged)?;
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
                    tracing::error!(%error, "ignoring an unreadable run of the archive");
                    still.insert(run.number)
                }
            };
        }
        if still == state.damaged {
            return Ok(());
        }
        tracing::info!(runs = whole.len(), "archive runs are readable again");
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

    fn merge(&self, inputs: &[RunMeta], keep_free: u64) -> Result<Outcome> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let writer = self.output(inputs, level + 1, false)?;
        let merged = self.archive.merge(inputs, writer, keep_free)?;
        merged.map_or(Ok(Outcome::Stopped), |writer| finish(writer, false))
    }

    /// Folds runs, whose commits are before `end`.
    fn fold(&self, inputs: &[RunMeta], end: Lsn, keep_free: u64) -> Result<Outcome> {
        let level = inputs.iter().map(|run| run.level).max().unwrap_or(0);
        let (mut merged, mut lost) = self.salvaged(inputs)?;
        let mut writer = self.output(inputs, level, true)?;
        let mut room = RoomCheck::new(&self.archive, keep_free);
        let mut image = self.archive.new_image();
        while let Some(key) = merged.key() {
            if self.archive.was_deleted(key) {
                merged.skip(key)?;
                continue;
            }
            let newest = merged.newest_index(key).map(|index| index.newest);
            self.last_state(&mut merged, key, end, &mut image)?;
            if self.archive.is_stopping() {
                return Ok(Outcome::Stopped);
            }
            if let (Some(head), Some(newest)) = (image.at().copied(), newest) {
                if head.life == Life::Ends {
                    // Nothing is kept of it.
                    lost |= newest.commit != head.commit;
                    continue;
                }
                snapshot::add(&mut writer, head, |page_no| {
                    room.count(PAGE_BYTES)?;
                    image.page(page_no)
                })?;
                // If its last commits could not be read, its history has a hole here and needs a new base after it.
                let is_last = !newest.commit.is_after(head.commit);
                lost |= !is_last;
                writer.end_object(if is_last {
                    Newest {
                        since_base: 0,
                        ..newest
                    }
                } else {
                    Newest {
                        commit: head.commit,
                        pages: head.database_pages,
                        alarm: KnownAlarm::Unknown,
                        since_base: NO_BASE,
                    }
                });
                if writer.hot_pages_wanted(key).is_some() {
                    writer.complete_hot_pages(|page_no| image.page(page_no))?;
                }
            } else {
                lost = true;
                // The run that held its base was damaged or is missing. Its history starts over with its next commit.
                tracing::error!(object = %key, "the archive has no complete state of an object: dropping its expired history");
            }
        }
        finish(writer, lost || merged.has_skipped())
    }

    /// The input runs of a fold, without the parts that cannot be read: they have expired and cannot be recovered.
    /// Returns true if a whole run was left out.
    fn salvaged(&self, inputs: &[RunMeta]) -> Result<(Merged, bool)> {
        let mut lost = false;
        let mut streams = Vec::new();
        let set_aside = self.archive.state().damaged;
        for run in inputs {
            // A transient error must not cost history; see `set_aside`.
            let given_up = set_aside.contains(&run.number);
            match self.archive.reader(run) {
                Err(error) if given_up || error.kind() == ErrorKind::Damaged => {
                    tracing::error!(%error, "losing expired history: a run cannot be read");
                    lost = true;
                }
                reader => streams.push(Stream::salvage(reader?, given_up)?),
            }
        }
        Ok((Merged::new(streams), lost))
    }
    /// Sets `image` to the last state of an object in the merged runs, which end at `end`.
    fn last_state(
        &self,
        merged: &mut Merged,
        key: ObjectKey,
        end: Lsn,
        image: &mut Image,
    ) -> Result<()> {
        image.reset()?;
        while let Some(entry) = merged.current().filter(|entry| entry.head.key == key) {
            // A snapshot may be ahead of the commits archived with it. The commits in between are in later runs and
            // must stay reachable, so such a snapshot counts only if there is no other state.
            if entry.head.position.lsn <= end || image.at().is_none() {
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
            for run in inputs {
                state.remote.remove(&run.number);
            }
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
                reason: "the disk has no space even to fold it".to_owned(),
            };
            self.archive.give_up(hole, change)?;
        } else {
            self.archive.publish(change)?;
        }
        self.archive.remove_runs(inputs);
        Ok(())
    }
}

/// The outcome of a compaction.
enum Outcome {
    /// The store is closed; nothing was changed.
    Stopped,
    /// Not even a fold fits on the disk: the runs are dropped.
    Dropped,
    /// The new run; `None` if there was nothing to keep. `lost`: an object's history now has a hole.
    Run { run: Option<RunMeta>, lost: bool },
}

fn finish(writer: RunWriter, lost: bool) -> Result<Outcome> {
    let run = (!writer.is_empty()).then(|| writer.finish()).transpose()?;
    Ok(Outcome::Run { run, lost })
}
