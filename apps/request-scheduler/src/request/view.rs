//! The public view of a request: from its stored data, its timer and its outbox.

use abide::Result;
use abide::{
    outbox::{Counts, MessageFilter, Outbox, Status},
    schedule,
};

use super::{Parts, TRIGGER, stored::Stored};
use crate::{Definition, Entry, Outcome, Phase, Shown};

impl Parts {
    /// True if nothing will happen any more, and no operator has to decide.
    pub(super) fn is_over(&self, stored: &Stored) -> Result<bool> {
        let counts = self.counts()?;
        let progress = &stored.progress;
        if counts.open() > 0 {
            return Ok(false);
        }
        if progress.canceled {
            return Ok(true);
        }
        let waits = counts.failed > 0 || progress.paused || self.next_at(stored)?.is_some();
        Ok(!waits && !self.is_firing(&stored.definition)?)
    }

    /// True if the last time of a cron expression has come, and its run is not enqueued yet.
    pub(super) fn is_firing(&self, definition: &Definition) -> Result<bool> {
        let Some(schedule) = self.schedule.get().filter(|_| definition.repeats()) else {
            return Ok(false);
        };
        let timer = schedule.get(TRIGGER)?;
        Ok(timer.is_some_and(|timer| timer.phase != schedule::Phase::Ended))
    }

    pub(super) fn entry(&self, stored: &Stored) -> Result<Entry> {
        let Stored {
            id,
            definition,
            progress,
        } = stored;
        let next_at = self.next_at(stored)?;
        let counts = self.counts()?;
        let state = match next_at {
            _ if progress.paused => Phase::Paused,
            Some(_) => Phase::Scheduled,
            None if counts.open() == 0 && counts.failed > 0 => Phase::Failed,
            None => Phase::Running,
        };
        let url = definition.url.split(['?', '#']).next();
        Ok(Entry {
            id: id.clone(),
            state,
            method: definition.request_init.method.to_ascii_uppercase(),
            url: url.unwrap_or_default().to_owned(),
            rhythm: definition.rhythm(),
            next_at,
            last: self.last()?,
            created_at: progress.created_at,
        })
    }

    pub(super) fn shown(&self, stored: Stored) -> Result<Shown> {
        let counts = self.counts()?;
        Ok(Shown {
            entry: self.entry(&stored)?,
            definition: stored.definition.redacted(),
            updated_at: stored.progress.updated_at,
            open_runs: counts.open(),
            failed_runs: counts.failed,
            skipped_runs: stored.progress.skipped,
        })
    }

    /// When it runs next.
    pub(super) fn next_at(&self, stored: &Stored) -> Result<Option<i64>> {
        let progress = &stored.progress;
        if progress.paused || progress.fired || progress.canceled {
            return Ok(None);
        }
        if !stored.definition.repeats() {
            return Ok(Some(progress.anchor));
        }
        match self.schedule.get() {
            Some(schedule) => Ok(schedule.get(TRIGGER)?.and_then(|timer| timer.due_at)),
            None => Ok(None),
        }
    }

    /// How the newest run went of those that were tried.
    pub(super) fn last(&self) -> Result<Option<Outcome>> {
        let Some(outbox) = self.outbox.get() else {
            return Ok(None);
        };
        let newest = outbox.list(&MessageFilter::default().limit(8))?;
        let tried = newest
            .records
            .into_iter()
            .find(|record| record.attempts > 0);
        Ok(tried.map(|record| Outcome {
            status: record.status,
            at: record.updated_at,
            error: record.last_error.filter(|_| record.status != Status::Sent),
        }))
    }

    pub(super) fn counts(&self) -> Result<Counts> {
        self.outbox
            .get()
            .map_or_else(|| Ok(Counts::default()), Outbox::counts)
    }
}

/// Runs that have not ended.
pub(super) trait Open {
    fn open(&self) -> i64;
}

impl Open for Counts {
    fn open(&self) -> i64 {
        self.queued + self.sending
    }
}
