//! The state that the clones of a schedule share.

use std::{cell::Cell, fmt, rc::Rc};

use abide::{Activation, Ctx, Result};
use sha2::{Digest, Sha256};

use super::{ScheduleOptions, limits::AGAIN, metrics, rows::Rows, runs::Claim, timers::Set};
use abide_component::WakeUp;
use abide_component::numbers::millis;
use abide_component::suspects::Suspects;
use abide_component::worker::{SOON, Worker};

/// The name of its alarm.
pub(super) const NAME: &str = "schedule";

/// One object's schedule.
pub(super) struct Inner {
    pub(super) ctx: Ctx,
    /// Claims due occurrences. A handler in the alarm takes its right.
    pub(super) worker: Worker,
    pub(super) options: ScheduleOptions,
    pub(super) rows: Rows,
    /// Whether other runs are stopped for one that may have ended the process.
    pub(super) suspects: Suspects,
    /// The number of claims so far, for the share of those that catch up.
    pub(super) claimed: Cell<usize>,
}

impl Inner {
    pub(super) fn open(ctx: &Ctx, options: ScheduleOptions) -> Result<Rc<Self>> {
        metrics::describe();
        Ok(Rc::new(Self {
            ctx: ctx.clone(),
            worker: Worker::new(ctx, WakeUp::new(ctx, NAME)),
            rows: Rows::open(ctx, options.history)?,
            options,
            suspects: Suspects::default(),
            claimed: Cell::default(),
        }))
    }

    /// Whether there is anything to do or to keep.
    pub(super) fn holds(&self) -> Result<bool> {
        Ok(self.rows.sql.are_there()? && self.rows.hold_work()?)
    }

    /// Milliseconds since 1970.
    pub(super) fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }

    /// Wakes the object in time. The current claimer is notified, and sets the alarm when it finishes; if it is
    /// interrupted, the alarm goes off soon all the same.
    pub(super) fn arm(&self) -> Result<()> {
        if !self.worker.is_running() {
            return self.arm_next();
        }
        self.worker.wake();
        self.worker.guard(AGAIN)
    }

    /// Wakes the object when the first timer or retry is due; at once if an occurrence is claimed and not being
    /// handled.
    pub(super) fn arm_next(&self) -> Result<()> {
        if !self.rows.sql.are_there()? {
            return self.worker.alarm().set(None);
        }
        let (next, taken) = self.rows.next()?;
        let now = self.now();
        let at = if taken { Some(now) } else { next };
        let at = at.map(|at| self.look_at(at, now));
        self.worker.alarm().set(at)
    }

    /// When to look at what is due at a time: a run that is to be attempted alone may have to wait for its turn.
    pub(super) fn look_at(&self, at: i64, now: i64) -> i64 {
        let turn = self.suspects.after();
        if at <= now && turn > now {
            return turn.min(now.saturating_add(millis(SOON)));
        }
        at
    }

    /// The object is activated, and starts anew afterwards. A copy drops the timers that go off in its original.
    pub(super) fn activated(&self, how: Activation) -> Result<()> {
        if how == Activation::Continue {
            return Ok(());
        }
        let sql = &self.rows.sql;
        let count = "SELECT timers FROM schedule_meta";
        let timers: i64 = sql.exec(count, ())?.one()?;
        sql.exec("DELETE FROM schedule_runs; DELETE FROM schedule_timers", ())?;
        if timers > 0 {
            tracing::warn!(
                class = self.ctx.class(), object = %self.ctx.id(), timers,
                "a copied schedule has dropped the timers of its original"
            );
        }
        Ok(())
    }

    /// What a timer that is set now has in the keys of its occurrences: a restored object sets it on another timeline, and
    /// a copy in another object.
    pub(super) fn source(&self) -> String {
        format!("{} {}", self.ctx.id(), self.ctx.timeline().id())
    }
}

/// The unique key of an occurrence: of a timer as it was set, and of a time. The same in a restored object and in a copy
/// that continues, whatever has gone off there in between.
pub(super) fn key(set: &Set, claim: &Claim) -> String {
    let mut hash = Sha256::new();
    hash.update(&set.source);
    for number in [set.id, set.generation, claim.due_at, claim.number] {
        hash.update(number.to_le_bytes());
    }
    let hash = hash.finalize();
    format!("run_{}", hex::encode(&hash[..16]))
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("ctx", &self.ctx)
            .finish_non_exhaustive()
    }
}
