//! The state that a shard's handlers and its background task share.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use abide::{Ctx, Result};

use super::{Counts, QueueError, Queues, limits, metrics::Metrics, queues::Declared, rows::Rows};
use abide_component::WakeUp;
use abide_component::numbers::{millis, rows};
use abide_component::{
    steps_back,
    suspects::Suspects,
    worker::{self, Worker},
};

/// The component of a shard, for operators.
pub(super) const NAME: &str = "queue";

/// One shard.
pub(super) struct Inner {
    pub(super) ctx: Ctx,
    pub(super) rows: Rows,
    pub(super) queues: Arc<Queues>,
    pub(super) metrics: Metrics,
    /// Passes batches to the consumer.
    pub(super) worker: Worker,
    /// Whether other messages are stopped for one that may have ended the process.
    pub(super) suspects: Suspects,
    /// Until when dead letters wait that the other queue refused.
    pub(super) forward_after: Cell<i64>,
    /// Why the queue cannot be consumed, as last logged.
    told: RefCell<Option<String>>,
}

impl Inner {
    pub(super) fn new(ctx: Ctx, rows: Rows, queues: Arc<Queues>) -> Rc<Self> {
        Rc::new(Self {
            metrics: Metrics::new(&rows.queue, rows.shard),
            worker: Worker::new(&ctx, WakeUp::own(&ctx)),
            ctx,
            rows,
            queues,
            suspects: Suspects::default(),
            forward_after: Cell::new(0),
            told: RefCell::default(),
        })
    }

    /// The queue, if the program has it.
    pub(super) fn declared(&self) -> Result<&Arc<Declared>, QueueError> {
        self.queues.get(&self.rows.queue)
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }

    /// Continues the pending work: now, and by the alarm in case the task stops.
    pub(super) fn go_on(self: &Rc<Self>) -> Result<()> {
        let Some(at) = self.next_step()? else {
            return Ok(());
        };
        let now = self.now();
        let declared = match self.declared() {
            Ok(declared) => declared,
            Err(error) => {
                let error = error.to_string();
                if self.told.borrow().as_ref() != Some(&error) {
                    tracing::warn!(queue = self.rows.queue, error, "messages wait");
                    *self.told.borrow_mut() = Some(error);
                }
                let again = now.saturating_add(millis(limits::UNKNOWN_PAUSE));
                return self.worker.alarm().not_later_than(again);
            }
        };
        if at > now.saturating_add(millis(worker::SOON)) {
            return self.worker.alarm().not_later_than(at);
        }
        self.worker.guard(declared.options.recovery)?;
        self.kick(declared);
        Ok(())
    }

    /// When the shard next has work, if it has.
    pub(super) fn next_step(&self) -> Result<Option<i64>> {
        let Ok(declared) = self.declared() else {
            return self.rows.first_due();
        };
        let (meta, now) = (self.rows.meta()?, self.now());
        let batch = match self.rows.first_due()? {
            // A pass corrects the times.
            Some(_) if steps_back::since(&self.rows.storage, meta.set_back, now).is_some() => {
                Some(now)
            }
            Some(due) if declared.consumer.is_some() && !meta.paused => {
                let waited = due.saturating_add(millis(declared.options.max_wait));
                // Due messages may fill a batch.
                let at = if due <= now { due } else { waited };
                Some(at.max(meta.rest_until))
            }
            _ => None,
        };
        let forward =
            (declared.forwards_to().is_some() && meta.dead > 0).then(|| self.forward_after.get());
        Ok(match (batch, forward) {
            (Some(batch), Some(forward)) => Some(batch.min(forward)),
            (batch, forward) => batch.or(forward),
        })
    }

    pub(super) fn counts(&self) -> Result<Counts> {
        let meta = self.rows.meta()?;
        Ok(Counts {
            messages: meta.messages,
            bytes: meta.bytes,
            dead: meta.dead,
            consumed: meta.consumed,
            oldest: self.rows.oldest()?,
            failing: u32::from(meta.failures > 0),
            last_error: match meta.failures {
                0 => None,
                _ => self.rows.last_error()?,
            },
        })
    }

    /// Redrives dead letters; returns how many there were.
    pub(super) fn redrive(self: &Rc<Self>, numbers: &[i64]) -> Result<u64> {
        let now = self.now();
        let rows = &self.rows;
        let moved = rows.storage.transaction(|| {
            let mut moved = 0;
            for number in numbers {
                moved += i64::from(rows.redrive(*number, now)?);
            }
            rows.change_meta(|meta| {
                meta.dead -= moved;
                meta.messages += moved;
            })?;
            Ok::<_, abide::Error>(moved)
        })?;
        self.go_on()?;
        Ok(moved.unsigned_abs())
    }

    /// Removes dead letters; returns how many there were.
    pub(super) fn discard(&self, numbers: &[i64]) -> Result<u64> {
        let kept = &self.rows;
        let gone = kept.storage.transaction(|| {
            let mut gone = Vec::new();
            for number in numbers {
                gone.extend(kept.discard(*number)?);
            }
            kept.change_meta(|meta| {
                meta.dead -= rows(gone.len());
                meta.bytes -= gone.iter().sum::<i64>();
            })?;
            Ok::<_, abide::Error>(gone)
        })?;
        Ok(gone.len() as u64)
    }
}
