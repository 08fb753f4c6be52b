//! The object: one scheduled request.
//!
//! Contract: a run is enqueued in the transaction that ends its timer, so no run is lost and none is made twice. The
//! outbox sends the run's key with every attempt. The object reports each change to the index until the index has
//! taken it. When nothing is left to do, the index forgets the request, and then its data is deleted.

mod runs;
mod stored;
mod view;

use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
    time::Duration,
};

use abide::{ErrorKind, prelude::*};
use abide::{
    component::WakeUp,
    outbox::{DeadLetterFilter, MessageFilter, Outbox, OutboxError, Record, Status},
    schedule::{self, Schedule, ScheduleError},
};
use serde::{Deserialize, Serialize};

use self::stored::{DEFINITION, ID, PROGRESS, Progress, Stored};
use crate::{Definition, Run, Runs, SchedulerError, Shown, limits, options::outbox_options};

/// The alarm of a request that runs once, and the timer of one that repeats.
const TRIGGER: &str = "trigger";

/// The alarm by which the object looks after itself.
const TEND: &str = "tend";

/// A scheduled request.
#[durable_object]
pub struct ScheduledRequest(Rc<Parts>);

/// Shared by the object's handlers. The components make their tables when they are first needed: a request that waits
/// for its only run is a few hundred bytes and an alarm.
struct Parts {
    ctx: Ctx,
    trigger: WakeUp,
    tend: WakeUp,
    schedule: OnceCell<Schedule>,
    outbox: OnceCell<Outbox>,
    /// Its data was deleted, together with the components' tables: the next instance opens them anew.
    forgotten: Cell<bool>,
}

/// What putting a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Put {
    /// There was none.
    Created,
    /// There was another.
    Replaced,
    /// It was there as it is: nothing changed.
    Unchanged,
}

impl DurableObject for ScheduledRequest {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let parts = Rc::new(Parts {
            trigger: WakeUp::new(&ctx, TRIGGER),
            tend: WakeUp::new(&ctx, TEND),
            schedule: OnceCell::new(),
            outbox: OnceCell::new(),
            forgotten: Cell::new(false),
            ctx,
        });
        let fired = Rc::clone(&parts);
        parts.ctx.on_alarm(TRIGGER, move |_| {
            let fired = Rc::clone(&fired);
            async move { fired.run_once() }
        })?;
        let tended = Rc::clone(&parts);
        parts.ctx.on_alarm(TEND, move |_| {
            let tended = Rc::clone(&tended);
            async move { tended.look_after().await }
        })?;
        if let Some(stored) = parts.stored()? {
            if Outbox::exists(&parts.ctx)? {
                parts.outbox(&stored.definition)?;
            }
            if stored.definition.repeats() {
                parts.schedule()?;
            }
        }
        Ok(Self(parts))
    }
}

#[rpc]
impl ScheduledRequest {
    /// Makes the request, if it may be made, or replaces it.
    pub async fn put(
        &self,
        id: String,
        definition: Definition,
        room: Room,
    ) -> Result<Put, SchedulerError> {
        self.0.put(&id, &definition, room)
    }

    /// All that is known of it, but for its runs.
    pub async fn show(&self) -> Result<Shown, SchedulerError> {
        let stored = self.0.live()?;
        Ok(self.0.shown(stored)?)
    }

    /// Its runs, newest first.
    pub async fn runs(&self, before: Option<i64>, limit: usize) -> Result<Runs, SchedulerError> {
        self.0.live()?;
        let Some(outbox) = self.0.outbox.get() else {
            return Ok(Runs::default());
        };
        let page = outbox.list(
            &MessageFilter::default()
                .status(None)
                .before(before)
                .limit(limit.clamp(1, limits::MAX_PAGE)),
        )?;
        let run = |record: Record| Ok(Run::new(record.clone(), outbox.history(record.id)?));
        Ok(Runs {
            runs: page.records.into_iter().map(run).collect::<Result<_>>()?,
            next: page.next,
        })
    }

    /// Holds back further runs. A run that has begun continues.
    pub async fn pause(&self) -> Result<Shown, SchedulerError> {
        let parts = &self.0;
        let stored = parts.live()?;
        if stored.progress.fired {
            return Err(SchedulerError::HasRun);
        }
        if stored.progress.paused {
            return Ok(parts.shown(stored)?);
        }
        parts.atomically(|| {
            parts.disarm()?;
            parts.change(stored, |progress| progress.paused = true)
        })
    }

    /// Lets it run again. Runs that were missed meanwhile are skipped, except the run of a request that has only one.
    pub async fn resume(&self) -> Result<Shown, SchedulerError> {
        let parts = &self.0;
        let stored = parts.live()?;
        if !stored.progress.paused {
            return Ok(parts.shown(stored)?);
        }
        parts.atomically(|| {
            parts.arm(&stored.definition, stored.progress.anchor, parts.now())?;
            parts.change(stored, |progress| progress.paused = false)
        })
    }

    /// Cancels the request, and every run that has not been delivered.
    pub async fn cancel(&self) -> Result<(), SchedulerError> {
        let parts = &self.0;
        let stored = parts.live()?;
        parts.atomically(|| {
            parts.disarm()?;
            let progress = Progress {
                canceled: true,
                taken_back: parts.take_back(i64::MAX)?,
                ..stored.progress
            };
            parts.ctx.storage().put(PROGRESS, &progress)?;
            Ok(parts.tend_soon()?)
        })
    }

    /// Retries the failed runs, with a full set of attempts.
    pub async fn retry(&self) -> Result<Shown, SchedulerError> {
        let parts = &self.0;
        let stored = parts.live()?;
        let outbox = parts.outbox.get().ok_or(SchedulerError::NothingFailed)?;
        if outbox.counts()?.failed == 0 {
            return Err(SchedulerError::NothingFailed);
        }
        let shown = parts.atomically(|| {
            outbox
                .redrive_all(&DeadLetterFilter::default())
                .map_err(of_outbox)?;
            parts.tend_soon()?;
            Ok(parts.shown(stored)?)
        })?;
        Ok(shown)
    }
}

/// Whether a request may be made, or only replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Room {
    /// There is room for another.
    Free,
    /// There are this many, and no more may be made.
    Full(i64),
}

impl Parts {
    fn put(
        self: &Rc<Self>,
        id: &str,
        definition: &Definition,
        room: Room,
    ) -> Result<Put, SchedulerError> {
        if self.forgotten.get() {
            self.ctx.abort("its data was deleted: it begins anew");
            return Err(Error::with_kind(ErrorKind::Reset, "it begins anew").into());
        }
        let now = self.now();
        definition.check(now)?;
        let known = self.stored()?.filter(|stored| !stored.progress.canceled);
        if known
            .as_ref()
            .is_some_and(|known| known.definition == *definition)
        {
            return Ok(Put::Unchanged);
        }
        if let (None, Room::Full(max)) = (&known, room) {
            return Err(SchedulerError::full(max));
        }
        let put = match known {
            Some(_) => Put::Replaced,
            None => Put::Created,
        };
        let created_at = known.map_or(now, |known| known.progress.created_at);
        let progress = Progress {
            anchor: definition.trigger_at.unwrap_or(now),
            created_at,
            updated_at: now,
            ..Progress::default()
        };
        if definition.repeats() {
            self.outbox(definition)?;
            self.schedule()?;
        }
        self.atomically(|| {
            self.disarm()?;
            let progress = Progress {
                taken_back: self.take_back(i64::MAX)?,
                ..progress
            };
            let storage = self.ctx.storage();
            storage.put(ID, id)?;
            storage.put(DEFINITION, definition)?;
            storage.put(PROGRESS, &progress)?;
            self.arm(definition, progress.anchor, now)?;
            // An interval begins at once if its first time is not ahead.
            if definition.trigger_every_seconds.is_some() && progress.anchor <= now {
                self.schedule()?.run_now(TRIGGER).map_err(of_schedule)?;
            }
            self.tend_soon()?;
            Ok(put)
        })
    }

    /// Sets the time of the next run.
    fn arm(
        self: &Rc<Self>,
        definition: &Definition,
        anchor: i64,
        now: i64,
    ) -> Result<(), SchedulerError> {
        match definition.spec(anchor, now) {
            Some(spec) => {
                self.schedule()?
                    .upsert(TRIGGER, &spec)
                    .map_err(of_schedule)?;
                Ok(())
            }
            None => Ok(self.trigger.set(Some(anchor))?),
        }
    }

    /// Forgets the time of the next run.
    fn disarm(&self) -> Result<()> {
        self.trigger.set(None)?;
        if let Some(schedule) = self.schedule.get() {
            schedule.cancel(TRIGGER)?;
        }
        Ok(())
    }

    /// Cancels the runs up to one that wait for an attempt, and drops those that have failed. Returns the newest run:
    /// a run that is being sent is canceled when that attempt has failed.
    fn take_back(&self, up_to: i64) -> Result<i64, SchedulerError> {
        let Some(outbox) = self.outbox.get() else {
            return Ok(0);
        };
        let before = up_to.checked_add(1);
        let queued = MessageFilter::default()
            .status(Status::Queued)
            .before(before);
        for record in outbox.list(&queued)?.records {
            outbox.cancel(record.id).map_err(of_outbox)?;
        }
        let failed = DeadLetterFilter::default().before(before);
        outbox.discard_all(&failed).map_err(of_outbox)?;
        let newest = outbox.list(&MessageFilter::default().limit(1))?;
        Ok(newest.records.first().map_or(0, |newest| newest.id))
    }

    /// The outbox; a change in it makes the object check itself.
    fn outbox(&self, definition: &Definition) -> Result<&Outbox> {
        if let Some(outbox) = self.outbox.get() {
            return Ok(outbox);
        }
        let options = outbox_options(definition, self.now());
        let outbox = Outbox::open(&self.ctx, options)?;
        let (tend, env) = (self.tend.clone(), self.ctx.env().clone());
        outbox.on_change(move |changed| {
            let news = |run: &Record| run.finished_at.is_some() || run.last_error.is_some();
            if !changed.iter().any(news) {
                return;
            }
            let now = env.now().unix_millis();
            if let Err(error) = tend.not_later_than(now) {
                tracing::warn!(%error, "a scheduled request could not report to the index; it tries again");
            }
        });
        Ok(self.outbox.get_or_init(|| outbox))
    }

    /// The timers of a request that repeats.
    fn schedule(self: &Rc<Self>) -> Result<&Schedule> {
        if let Some(schedule) = self.schedule.get() {
            return Ok(schedule);
        }
        let options = schedule::ScheduleOptions::default()
            .history(0)
            .keep_ended(Duration::from_secs(1));
        let schedule = Schedule::open(&self.ctx, options)?;
        let parts = Rc::clone(self);
        schedule.on_firing(move |firing| parts.run_again(firing.due_at))?;
        Ok(self.schedule.get_or_init(|| schedule))
    }

    /// The request, unless it was taken back.
    fn live(&self) -> Result<Stored, SchedulerError> {
        let stored = self.stored()?.filter(|stored| !stored.progress.canceled);
        stored.ok_or(SchedulerError::NotFound)
    }

    fn stored(&self) -> Result<Option<Stored>> {
        let storage = self.ctx.storage();
        let (Some(id), Some(definition), Some(progress)) = (
            storage.get(ID)?,
            storage.get(DEFINITION)?,
            storage.get(PROGRESS)?,
        ) else {
            return Ok(None);
        };
        Ok(Some(Stored {
            id,
            definition,
            progress,
        }))
    }

    fn change(
        &self,
        mut stored: Stored,
        change: impl FnOnce(&mut Progress),
    ) -> Result<Shown, SchedulerError> {
        change(&mut stored.progress);
        stored.progress.updated_at = self.now();
        self.ctx.storage().put(PROGRESS, &stored.progress)?;
        self.tend_soon()?;
        Ok(self.shown(stored)?)
    }

    fn atomically<T>(
        &self,
        change: impl FnOnce() -> Result<T, SchedulerError>,
    ) -> Result<T, SchedulerError> {
        self.ctx.storage().transaction(change)
    }

    fn tend_soon(&self) -> Result<()> {
        self.tend.not_later_than(self.now())
    }

    fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }
}

fn of_outbox(error: OutboxError) -> SchedulerError {
    SchedulerError::Object(error.into())
}

fn of_schedule(error: ScheduleError) -> SchedulerError {
    SchedulerError::Object(error.into())
}

fn of_scheduler(error: SchedulerError) -> Error {
    match error {
        SchedulerError::Object(error) => error,
        other => Error::from_std(other),
    }
}
