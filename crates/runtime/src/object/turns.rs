//! Turns, and the tasks that run in them.
//!
//! A turn is one poll of one future of the object, and one transaction. Its messages leave after its commit; if it
//! panics, fails or is aborted, none of its writes are kept and none of its messages are sent.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    task::{Poll, Waker},
};

use super::{Kind, Object, Running, Turn};
use crate::{
    Error, ErrorKind, LocalFuture, Result, context,
    envelope::Ticket,
    gate::{Departure, Token},
    limits::{EVENT_BYTES, MAX_BACKGROUND_PER_OBJECT},
    task::{Task, Work},
    unwind,
};

impl Object {
    /// Runs code of the object: `f` polls one of its futures once. `Err` from `f` resets the object.
    pub(crate) fn turn(
        self: &Rc<Self>,
        token: Token,
        f: impl FnOnce() -> Result<Poll<()>>,
    ) -> Turn {
        let now = self.worker.now();
        self.worker.note_turn(self);
        self.last_active.set(now);
        self.stays();
        self.turn_of.set(token);
        self.set_reserve(self.uses_reserve.get());
        let watch = self
            .worker
            .mailbox
            .watch
            .begin(now, self.binding.index, self.id);
        let entered = context::enter(self);
        let outcome = match self.end_construction() {
            Ok(()) => catch_unwind(AssertUnwindSafe(f)),
            Err(error) => Ok(Err(error)),
        };
        drop(entered);
        drop(watch);

        let ended = match outcome {
            Ok(ended) => ended,
            Err(panic) => {
                let error = self.panicked(&*panic);
                self.discard(panic);
                Err(error)
            }
        };
        let ended = match self.reset_after_turn.take() {
            Some(reason) => {
                self.keep_restore_request();
                Err(reason)
            }
            None => ended,
        };
        match ended.and_then(|poll| self.commit().map(|()| poll)) {
            Ok(poll) => {
                self.leave_attempt();
                self.flush();
                self.spawn_all();
                if let Some(why) = self.restart_after_turn.take() {
                    return Turn::Broken(self.restart(why));
                }
                if poll.is_ready() {
                    Turn::Done
                } else {
                    Turn::Pending
                }
            }
            Err(error) => Turn::Broken(self.break_off(error)),
        }
    }

    pub(super) fn commit(&self) -> Result<()> {
        if let Some(db) = &*self.db.borrow() {
            // The handler has run.
            let failed = |error| Error::from(error).into_maybe_ran();
            let is_deferred = db.defer().map_err(failed)?;
            let committed = if is_deferred {
                None
            } else {
                self.may_create(db)?;
                db.commit().map_err(failed)?
            };
            if let Some(lsn) = committed {
                self.commit_lsn.set(lsn);
                if self.confirmed.get() {
                    self.gate_lsn.set(lsn);
                }
            }
            if self.timeline_changed.take() {
                self.read_timeline(db)?;
            }
        }
        self.measure_memory();
        self.confirmed.set(false);
        Ok(())
    }

    /// Sends the messages collected in the turn.
    pub(super) fn flush(&self) {
        // Taken out while sending: releasing a call may run code that accesses the object.
        let mut outbox = self.outbox.take();
        outbox
            .drain(..)
            .for_each(|departure| self.depart(departure));
        if self.outbox.borrow().is_empty() {
            *self.outbox.borrow_mut() = outbox;
        }
    }

    pub(super) fn depart(&self, departure: Departure) {
        let lsn = match departure {
            Departure::Synced(_) => self.commit_lsn.get(),
            _ => self.gate_lsn.get(),
        };
        self.worker
            .mailbox
            .lane
            .depart(&self.worker.store, lsn, &self.last_held, departure);
    }

    /// Sends an error in place of a departure's content.
    fn depart_failed(self: &Rc<Self>, departure: Departure, error: Error) {
        let (failed, discarded) = departure.into_failed(error);
        self.depart(failed);
        self.discard(discarded);
    }

    /// Adds a departure to the current turn. Outside a turn, which happens only in a destructor, it fails: no commit
    /// follows that it could wait for.
    pub(crate) fn push(self: &Rc<Self>, departure: Departure) {
        let refusal = match self.fate() {
            None if self.discarding.get() => Some(Error::with_kind(
                ErrorKind::Reset,
                "a destructor that runs outside the object's handlers cannot make calls",
            )),
            fate => fate,
        };
        match refusal {
            Some(error) => self.depart_failed(departure, error),
            None => self.outbox.borrow_mut().push(departure),
        }
    }

    /// Aborts the turn: none of its writes are kept, none of its messages are sent, and the object is reset.
    pub(super) fn break_off(self: &Rc<Self>, error: Error) -> Error {
        let error = error.into_reset();
        for departure in self.outbox.take() {
            self.depart_failed(departure, error.clone());
        }
        self.kill(error.clone());
        error
    }

    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        self.worker.mailbox.counters.panics.add();
        let text = unwind::message(panic);
        tracing::error!(class = self.binding.class_name.as_str(), id = %self.id, panic = text, "an object panicked; resetting it");
        Error::panicked(text)
    }

    pub(super) fn spawn(self: &Rc<Self>, token: Token, work: Work) {
        let kind = work.kind();
        let options = &self.binding.options;
        let deadline = match work {
            Work::Event { .. } => Some(self.last_active.get() + options.event_timeout),
            Work::Background { .. } => Some(self.last_active.get() + options.background_timeout),
            Work::Block { until, .. } => Some(until),
            Work::Inner { .. } => None,
        };
        if let Some(deadline) = deadline {
            self.check_by(deadline);
        }
        if kind == Kind::Handler {
            self.handlers.set(self.handlers.get() + 1);
        }
        let waits = self.worker.observes().then(Arc::default);
        self.running.borrow_mut().insert(
            token,
            Running {
                waker: Waker::noop().clone(),
                kind,
                deadline,
                waits: waits.clone(),
            },
        );
        tokio::task::spawn_local(Task::new(Rc::clone(self), token, work, waits));
    }

    pub(super) fn spawn_all(self: &Rc<Self>) {
        for (token, work) in self.spawned.take() {
            self.spawn(token, work);
        }
    }

    /// Suspends the task; a reset wakes it with this waker.
    pub(crate) fn suspended(&self, token: Token, waker: &Waker) {
        if let Some(running) = self.running.borrow_mut().get_mut(&token) {
            running.waker.clone_from(waker);
        }
    }

    /// The task is done.
    pub(crate) fn finished(self: &Rc<Self>, token: Token) {
        let done = self.running.borrow_mut().remove(&token);
        self.forget_task(token);
        if done.is_some_and(|done| done.kind == Kind::Handler) {
            self.handlers.set(self.handlers.get() - 1);
        }
        if !self.queue.borrow().is_empty() && self.may_start() && !self.pump_scheduled.replace(true)
        {
            // In its own task: it comes after the parked tasks that the gate has just woken.
            let object = Rc::clone(self);
            tokio::task::spawn_local(async move { object.pump() });
        }
    }

    /// Creates a task in the current turn; it starts after the turn has committed.
    pub(crate) fn spawn_later(&self, token: Token, future: LocalFuture<Result<()>>) {
        let ticket = Ticket::new(&self.worker.mailbox, EVENT_BYTES);
        let work = Work::Inner {
            future,
            _ticket: ticket,
        };
        self.spawned.borrow_mut().push((token, work));
    }

    /// Rejects a task if the object has reached its limit.
    pub(crate) fn may_spawn(&self) -> Result<()> {
        self.must_be_current()?;
        self.must_stay()?;
        let running = self.running.borrow().len() - self.handlers.get();
        if running + self.spawned.borrow().len() < MAX_BACKGROUND_PER_OBJECT {
            return Ok(());
        }
        Err(Error::with_kind(
            ErrorKind::Limit,
            format!(
                "an object may have at most {MAX_BACKGROUND_PER_OBJECT} background tasks and streamed bodies at a time: \
                 let some finish before starting more"
            ),
        ))
    }

    /// Creates a background task in the current turn; it starts after the turn has committed.
    pub(crate) fn spawn_background(&self, future: LocalFuture<()>) -> Result<()> {
        self.may_spawn()?;
        if self.worker.router.rehearsal {
            return Ok(());
        }
        let ticket = Ticket::new(&self.worker.mailbox, EVENT_BYTES);
        let work = Work::Background {
            future,
            _ticket: ticket,
        };
        let token = self.worker.next_token();
        self.inherit_creator(token);
        self.spawned.borrow_mut().push((token, work));
        Ok(())
    }
}
