//! Maintenance: the periodic work that makes space for commits.
//!
//! Checkpoints are taken when they are due, and segments are prepared ahead of the log. Each task has its own thread,
//! so that segments are available however long a checkpoint and its archiving take. In a store without threads, the
//! caller triggers both.

use crate::archive::HistoryCopy;
use crate::engine::Engine;
use crate::error::Result;
use crate::limits::{
    ARCHIVE_KEEPING_PAUSE, ARCHIVE_SWEEP_PAUSE, HYDRATION_RETRY, MAX_HYDRATION_RETRY,
    PREPARED_SEGMENTS,
};
use crate::sync::atomic::Ordering;
use crate::timing;
use std::time::Duration;

/// The longest interval between two checks for work.
const RETRY: Duration = Duration::from_secs(1);

impl Engine {
    /// Requests a checkpoint, if one is due, and segments.
    pub(crate) fn request_maintenance(&self) {
        self.maintenance.request();
        self.segments.wakeup.request();
    }

    /// Prepares segments, and takes a checkpoint if one is due. Without threads it also hydrates a batch of
    /// objects, compacts the archive, does a slice of a sweep, and takes the checkpoint that a copy waits for.
    pub(crate) fn run_maintenance(&self) -> Result<()> {
        self.prepare_segments()?;
        if !self.shared.threads {
            let _ = self.hydrate_or_warn();
            while self.compactor.compact()? {}
            while let Ok(true) = self.keep_or_warn() {}
            self.sweep_or_warn();
        }
        self.checkpoint_if_due()
    }

    /// Does the next slice of a sweep. Returns whether another can follow soon.
    fn sweep_or_warn(&self) -> bool {
        self.sweep().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot archive the states of objects that the archive lacks: trying again later");
            false
        })
    }

    /// Brings every object file up to date with what is durable now.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let taken = self.checkpointer.checkpoint();
        self.recount_quarantined();
        taken
    }

    fn checkpoint_if_due(&self) -> Result<()> {
        let shared = &self.shared;
        let no_segments = shared.log.wants_segment(1) && !self.may_prepare_segment();
        // With threads, at most one in an interval: see `run_checkpoints`.
        let for_copy = !shared.threads && self.take_wanted_copy();
        if for_copy
            || self.checkpointer.is_due()
            || no_segments
            || shared.log_is_full()
            || shared.no_space()
        {
            match self.checkpoint() {
                // The log is kept for that object; others are not affected.
                Err(error) if error.object().is_some() => {}
                taken => taken?,
            }
        }
        Ok(())
    }

    fn prepare_segments(&self) -> Result<()> {
        let shared = &self.shared;
        let _one = self.segments.preparing.lock();
        // Before segments: without it, a full disk cannot be started from.
        shared.reserve.fill();
        while shared.log.wants_segment(PREPARED_SEGMENTS) && self.may_prepare_segment() {
            match self.segments.prepare(shared.needed_segment_bytes()) {
                Ok(capacity) => {
                    shared.log.add_segment(capacity);
                    shared.set_no_space(false);
                    shared.set_obstacle(None);
                }
                Err(error) => {
                    shared.note_failure(&error);
                    shared.set_obstacle(Some(error.clone()));
                    // One segment is enough to continue, and a checkpoint may free others.
                    if shared.log.segments_ready() > 0 || shared.log_tail() > 0 {
                        shared.log.notify_progress();
                        break;
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// What to copy of the history. If a part of the log before the last checkpoint is not archived, there is none, and the
    /// next checkpoint, which archives it, is taken soon.
    pub(crate) fn history_copy(&self) -> Result<Option<HistoryCopy>> {
        let copy = self.archive.copy()?;
        if copy.is_none() && self.archive_lags() {
            self.copy_is_wanted.store(true, Ordering::Release);
            self.maintenance.request();
        }
        Ok(copy)
    }

    /// Returns whether a part of the log before the last checkpoint is not archived.
    fn archive_lags(&self) -> bool {
        let manifest = self.shared.catalog.current();
        let archived = manifest.archive.archived;
        archived.is_some_and(|archived| archived != manifest.redo)
    }

    /// Returns whether someone waits for a checkpoint that archives the log.
    fn take_wanted_copy(&self) -> bool {
        let lags = self.archive_lags() || self.gate.is_held_by_opening();
        self.copy_is_wanted.swap(false, Ordering::AcqRel) && lags
    }

    /// The thread that takes checkpoints.
    pub(crate) fn run_checkpoints(&self) {
        let shared = &self.shared;
        let interval = shared.options.checkpoint_interval;
        let mut last = timing::now();
        let (mut swept, mut is_sweeping) = (last, true);
        // At most one in an interval is for a copy: it may fail again.
        let mut may_be_for_copy = true;
        loop {
            let pause = if is_sweeping {
                ARCHIVE_SWEEP_PAUSE
            } else {
                RETRY
            };
            if !self.maintenance.wait(pause.min(interval)) || shared.log.failed() {
                break;
            }
            if let Err(error) = self.checkpoint_if_due() {
                tracing::warn!(%error, "maintenance failed; it will be retried");
            }
            let is_time = last.elapsed() >= interval;
            if may_be_for_copy && !is_time && self.take_wanted_copy() {
                may_be_for_copy = false;
                if let Err(error) = self.checkpoint() {
                    tracing::warn!(%error, "the checkpoint failed; it will be retried");
                }
            }
            if is_time {
                // Retry what could not be archived, even if nothing has been written since.
                if (shared.log_tail() > 0 || self.archive.failing())
                    && let Err(error) = self.checkpoint()
                {
                    tracing::warn!(%error, "the checkpoint failed; it will be retried");
                }
                last = timing::now();
                may_be_for_copy = true;
            }
            if swept.elapsed() >= ARCHIVE_SWEEP_PAUSE {
                is_sweeping = self.sweep_or_warn();
                swept = timing::now();
            }
            // A checkpoint frees segments, and space for more.
            self.segments.wakeup.request();
        }
    }

    /// The thread that hydrates objects in the background.
    pub(crate) fn run_hydration(&self) {
        let mut pause = HYDRATION_RETRY;
        loop {
            let begun = timing::now();
            match self.hydrate_or_warn() {
                Ok(Some(bytes)) => {
                    pause = HYDRATION_RETRY;
                    let time = self.shared.options.archive.time_for(bytes);
                    self.archive.pause(time.saturating_sub(begun.elapsed()));
                }
                Ok(None) => break,
                Err(_) => {
                    self.archive.pause(pause);
                    pause = (pause * 2).min(MAX_HYDRATION_RETRY);
                }
            }
        }
    }

    /// The thread that keeps the right part of the history on the disk.
    pub(crate) fn run_keeping(&self) {
        let mut pause = HYDRATION_RETRY;
        while self.keeping.wait(pause) && !self.shared.log.failed() {
            pause = match self.keep_or_warn() {
                Ok(true) => Duration::ZERO,
                Ok(false) => ARCHIVE_KEEPING_PAUSE,
                Err(_) => (pause * 2).clamp(HYDRATION_RETRY, ARCHIVE_KEEPING_PAUSE),
            };
        }
    }

    /// Moves runs away from the disk or back. Returns whether it did.
    fn keep_or_warn(&self) -> Result<bool> {
        let left = self.archive.keep_within_bound();
        let moved = left.and_then(|left| Ok(left || self.archive.bring_back()?));
        moved.inspect_err(|error| {
            if !self.archive.is_stopping() {
                tracing::warn!(%error, "cannot bring history back that is in the store alone; it will be retried");
            }
        })
    }

    /// As [`Engine::hydrate_batch`].
    fn hydrate_or_warn(&self) -> Result<Option<u64>> {
        self.hydrate_batch().inspect_err(|error| {
            tracing::warn!(%error, "cannot write the files of all restored objects; it will be retried");
        })
    }

    /// The thread that prepares segments.
    pub(crate) fn run_preparation(&self) {
        while self.segments.wakeup.wait(RETRY) && !self.shared.log.failed() {
            if let Err(error) = self.prepare_segments() {
                tracing::warn!(%error, "cannot prepare segments; it will be retried");
            }
        }
    }
}
