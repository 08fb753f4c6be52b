//! The state that a shard's handlers and its background task share.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use abide::{AlarmTime, Result, ScheduledTime, State};
use tokio::sync::Notify;

use super::{Counts, QueueError, Queues, limits, metrics::Metrics, queues::Declared, rows::Rows};
use crate::broken::{Variant, broken};
use abide_component::numbers::{millis, rows};
use abide_component::{steps_back, suspects::Suspects};

/// One shard.
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) rows: Rows,
    pub(super) queues: Arc<Queues>,
    pub(super) metrics: Metrics,
    /// True while a background task runs.
    pub(super) running: Cell<bool>,
    /// Evidence of a clock change from the alarm that went off.
    /// Whether other messages are stopped for one that may have ended the process.
    pub(super) suspects: Cell<Suspects>,
    /// Wakes the task.
    pub(super) news: Notify,
    /// Until when dead letters wait that the other queue refused.
    pub(super) forward_after: Cell<i64>,
    /// Why the queue cannot be consumed, as last logged.
    told: RefCell<Option<String>>,
}

impl Inner {
    pub(super) fn new(state: State, rows: Rows, queues: Arc<Queues>) -> Rc<Self> {
        Rc::new(Self {
            metrics: Metrics::new(&rows.queue, rows.shard),
            state,
            rows,
            queues,
            running: Cell::new(false),
            suspects: Cell::default(),
            news: Notify::new(),
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
        i64::try_from(self.state.env().clock().unix_millis()).unwrap_or(i64::MAX)
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
                return self.arm(now.saturating_add(millis(limits::UNKNOWN_PAUSE)));
            }
        };
        if at > now.saturating_add(millis(limits::SHORT_WAIT)) {
            return self.arm(at);
        }
        if !broken(Variant::RecoveryUnset) {
            self.arm(now.saturating_add(millis(declared.options.recovery)))?;
        }
        self.kick();
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
            Some(due)
                if declared.consumer.is_some()
                    && (!meta.paused || broken(Variant::PauseIgnored)) =>
            {
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

    /// Wakes the object not later than at this time.
    fn arm(&self, at: i64) -> Result<()> {
        let storage = self.state.storage();
        match storage.get_alarm()? {
            Some(set) if set.unix_millis() <= at => Ok(()),
            _ => storage.set_alarm(ScheduledTime::wait_until(at)),
        }
    }

    /// Wakes the object at this time, and not before.
    pub(super) fn arm_at(&self, at: Option<i64>) -> Result<()> {
        let storage = self.state.storage();
        let set = storage.get_alarm()?.map(AlarmTime::unix_millis);
        match at {
            _ if set == at => Ok(()),
            Some(at) => storage.set_alarm(ScheduledTime::wait_until(at)),
            None => storage.delete_alarm(),
        }
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
        let moved = rows.storage.transaction_sync(|| {
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
        let gone = kept.storage.transaction_sync(|| {
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
