//! Runs: how they begin, and what follows when they have ended.

use abide::Result;
use abide::outbox::{DeadLetterFilter, Outbox, OutboxError};

use super::{
    Parts, of_scheduler,
    stored::{PROGRESS, Progress, Stored},
    view::Open,
};
use crate::{Definition, Index, limits};

impl Parts {
    /// The time of a request that runs once has come.
    pub(super) fn run_once(&self) -> Result<()> {
        let Some(stored) = self.stored()? else {
            return Ok(());
        };
        let Stored {
            definition,
            progress,
            ..
        } = stored;
        if progress.fired || progress.canceled || progress.paused {
            return Ok(());
        }
        self.outbox(&definition)?;
        self.ctx.storage().transaction(|| {
            let due_at = progress.anchor;
            self.begin_run(&definition, due_at)?;
            let progress = Progress {
                fired: true,
                ..progress
            };
            self.ctx.storage().put(PROGRESS, &progress)
        })
    }

    /// A time of a request that repeats has come.
    pub(super) fn run_again(&self, due_at: i64) -> Result<()> {
        match self.stored()? {
            Some(stored) if !stored.progress.canceled => self.begin_run(&stored.definition, due_at),
            _ => Ok(()),
        }
    }

    /// Enqueues a run, in the transaction of the caller.
    pub(super) fn begin_run(&self, definition: &Definition, due_at: i64) -> Result<()> {
        let outbox = self.outbox(definition)?;
        match outbox.enqueue(&definition.message(due_at)?) {
            Ok(_) => drop_old_failures(outbox)?,
            Err(OutboxError::Full { .. }) => {
                let storage = self.ctx.storage();
                let progress: Option<Progress> = storage.get(PROGRESS)?;
                let mut progress = progress.unwrap_or_default();
                progress.skipped += 1;
                storage.put(PROGRESS, &progress)?;
            }
            Err(error) => return Err(error.into()),
        }
        self.tend
            .not_later_than(self.now().saturating_add(limits::TEND_AFTER))
    }

    /// Reports to the index, and deletes a request that has nothing left to do.
    pub(super) async fn look_after(&self) -> Result<()> {
        let Some(stored) = self.stored()? else {
            return Ok(());
        };
        let taken_back = if stored.progress.canceled {
            i64::MAX
        } else {
            stored.progress.taken_back
        };
        if taken_back > 0 {
            self.take_back(taken_back).map_err(of_scheduler)?;
        }
        let index = Index::new(self.ctx.env());
        if self.is_over(&stored)? {
            index.remove(&stored.id).await?;
            // It may have been made anew meanwhile.
            if let Some(stored) = self.stored()?
                && self.is_over(&stored)?
            {
                self.ctx.storage().delete_all()?;
                self.forgotten.set(true);
            }
            return Ok(());
        }
        if !stored.progress.canceled {
            index.put(&self.entry(&stored)?).await?;
        }
        if self.counts()?.open() > 0 {
            self.tend
                .not_later_than(self.now().saturating_add(limits::TEND_AFTER))?;
        }
        Ok(())
    }
}

/// Keeps the newest of the runs that have failed.
fn drop_old_failures(outbox: &Outbox) -> Result<()> {
    let kept = DeadLetterFilter::default().limit(limits::MAX_FAILED_RUNS);
    let Some(oldest) = outbox.dead_letters(&kept)?.next else {
        return Ok(());
    };
    let older = DeadLetterFilter::default().before(oldest);
    outbox.discard_all(&older).map(drop).map_err(Into::into)
}
