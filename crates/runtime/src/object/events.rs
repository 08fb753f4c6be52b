//! How an object takes events: in order, when the gate allows it, each polled once immediately.

use std::{
    collections::VecDeque,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use abide_storage::{MemoryUse, ObjectDb};

use super::{Arrival, Object, Turn, streaming};
use crate::{
    Error, ErrorKind, Event, Reply, Result,
    creator::Creator,
    envelope::Replier,
    gate::{Departure, refuse},
    limits::{EVENT_BYTES, INSTANCE_BYTES},
    task::Work,
};

impl Object {
    /// Takes an event: starts it, queues it, or rejects it.
    pub(crate) fn accept(self: &Rc<Self>, arrival: Arrival) {
        let is_alarm = arrival.event.is_own();
        if !is_alarm {
            self.alarm_only.set(false);
        }
        if self.may_start() && self.queue.borrow().is_empty() {
            return self.start(arrival);
        }
        if let Some(error) = self.cycle(&arrival) {
            return self.refuse(arrival, error);
        }
        // A socket's events have their own limit, and would not be resent. An object has one alarm attempt at a time,
        // which has already been counted.
        let bounded = !is_alarm && !arrival.event.is_of_socket();
        if bounded && self.is_full() {
            self.drop_late();
        }
        if bounded && self.is_full() {
            self.worker.mailbox.counters.overloaded.add();
            return self.refuse(arrival, Error::overloaded_object());
        }
        self.queue.borrow_mut().push_back(arrival);
    }

    fn is_full(&self) -> bool {
        self.queue.borrow().len() >= self.binding.options.max_queued
    }

    /// Refuses waiting events whose callers no longer wait.
    fn drop_late(self: &Rc<Self>) {
        let now = self.worker.now();
        let waiting = self.queue.take();
        let (late, rest): (VecDeque<_>, _) = waiting
            .into_iter()
            .partition(|arrival| arrival.replier.is_late(now));
        *self.queue.borrow_mut() = rest;
        for arrival in late {
            self.refuse_late(arrival);
        }
    }

    fn refuse_late(self: &Rc<Self>, arrival: Arrival) {
        self.refuse(arrival, Error::out_of_time().into_retryable());
    }

    fn refuse(self: &Rc<Self>, arrival: Arrival, error: Error) {
        self.discard(arrival.event);
        refuse(arrival.replier, error);
    }

    /// Why an event can never start: the gate stays closed until the event has been answered.
    fn cycle(&self, arrival: &Arrival) -> Option<Error> {
        let own = self.binding.key(self.id);
        let gate = self.gate.borrow();
        let calls = arrival
            .chain
            .as_ref()?
            .calls_since(|link| link.object == own && gate.is_held_by(link.task))?;
        Some(Error::with_kind(
            ErrorKind::Deadlock,
            format!(
                "the call would wait for itself: {} {} is inside block_concurrency_while, which waits for this call \
                 ({calls} calls in a circle); make the call before or after the block, or do not wait for it inside",
                self.binding.class_name.as_str(),
                self.name().unwrap_or_else(|| self.id.to_string()),
            ),
        ))
    }

    /// Starts waiting events, in order, as far as the gate allows.
    pub(crate) fn pump(self: &Rc<Self>) {
        self.pump_scheduled.set(false);
        while self.is_alive() && self.may_start() {
            let Some(arrival) = self.queue.borrow_mut().pop_front() else {
                break;
            };
            self.start(arrival);
        }
    }

    pub(super) fn may_start(&self) -> bool {
        self.gate.borrow().is_open()
            && !self.held.get()
            && self.handlers.get() < self.binding.options.max_running
    }

    /// Starts a handler and polls it once, right here: most handlers never wait, and then need no task.
    pub(super) fn start(self: &Rc<Self>, arrival: Arrival) {
        if arrival.replier.is_late(self.worker.now()) {
            self.refuse_late(arrival);
            // It may have been the only event of an object that was not in memory.
            if self.db.borrow().is_none() && self.is_idle() {
                self.leave_memory();
            }
            return;
        }
        if self.prepare() {
            return self.queue.borrow_mut().push_front(arrival);
        }
        let Some(arrival) = self.tell_timeline(arrival) else {
            return;
        };
        self.worker.mailbox.counters.events.add();
        let token = self.worker.next_token();
        self.note_task(token, &arrival);
        let creator = arrival.creator;
        let Arrival {
            event,
            replier,
            chain,
            ..
        } = arrival;
        let mut replier = Some(replier);
        let alarm = match &event {
            Event::Alarm(info) => Some(info.clone()),
            _ => None,
        };
        let mut event = Some(event);
        let mut suspended = None;
        self.act_for(creator, alarm.is_some());
        let turn = self.turn(token, || {
            if let Some(alarm) = &alarm
                && !self.enter_attempt(alarm)?
            {
                if let Some(replier) = replier.take() {
                    self.push(Departure::Reply(replier, Ok(Reply::Done)));
                }
                return Ok(Poll::Ready(()));
            }
            if self.instance.borrow().is_none() {
                self.construct()?;
                self.end_construction()?;
                if !self.gate.borrow().is_open()
                    && let (Some(event), Some(replier)) = (event.take(), replier.take())
                {
                    self.queue.borrow_mut().push_front(Arrival {
                        event,
                        replier,
                        chain,
                        creator,
                    });
                    return Ok(Poll::Ready(()));
                }
            }
            let delivered = match (&*self.instance.borrow(), event.take()) {
                (Some(instance), Some(event)) => self.deliver(&**instance, event),
                _ => return Ok(Poll::Ready(())),
            };
            let mut future = match alarm {
                Some(_) => self.attempt(delivered),
                None => delivered,
            };
            // If it is pending, its task polls it again with its own waker.
            match future
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
            {
                Poll::Pending => {
                    suspended = Some(future);
                    Ok(Poll::Pending)
                }
                Poll::Ready(result) => {
                    drop(future);
                    if let Some(replier) = replier.take() {
                        self.answer(replier, result);
                    }
                    Ok(Poll::Ready(()))
                }
            }
        });
        if !matches!(turn, Turn::Pending) {
            self.forget_task(token);
        }
        match (turn, replier, suspended) {
            (Turn::Pending, Some(replier), Some(future)) => {
                self.spawn(token, Work::Event { future, replier });
            }
            (Turn::Broken(error), replier, suspended) => {
                self.discard(suspended);
                self.end_broken(event, replier, creator, error);
            }
            _ => {}
        }
    }

    /// Ends an event whose turn was broken off. Its handler has begun if the event is gone.
    fn end_broken(
        self: &Rc<Self>,
        event: Option<Event>,
        replier: Option<Replier>,
        creator: Option<Creator>,
        error: Error,
    ) {
        match (event, replier) {
            (Some(event), Some(replier)) => {
                let arrival = Arrival {
                    event,
                    replier,
                    chain: None,
                    creator,
                };
                self.fail(arrival, &error);
            }
            (event, replier) => {
                self.discard(event);
                if let Some(replier) = replier {
                    self.answer_broken(replier, error);
                }
            }
        }
    }

    /// Ends an event whose handler has not begun, because its object was reset for this reason.
    pub(super) fn fail(self: &Rc<Self>, arrival: Arrival, error: &Error) {
        if arrival.event.is_of_socket() {
            self.put_off(vec![arrival], error);
        } else {
            self.discard(arrival.event);
            self.answer_broken(arrival.replier, error.clone());
        }
    }

    /// Creates the instance. An error resets the object.
    pub(super) fn construct(self: &Rc<Self>) -> Result<()> {
        self.open_db()?;
        if let Some(db) = &*self.db.borrow() {
            db.begin_construction();
        }
        self.worker.mailbox.counters.started.add();
        let made = (self.worker.create)(self);
        *self.instance.borrow_mut() = Some(made.map_err(Error::into_remote)?);
        Ok(())
    }

    /// Called before the object's code runs, except its constructor and what the constructor's
    /// `block_concurrency_while` runs.
    pub(super) fn end_construction(&self) -> Result<()> {
        if let Some(db) = &*self.db.borrow()
            && self.instance.borrow().is_some()
            && self.gate.borrow().is_open()
        {
            db.end_construction()?;
        }
        Ok(())
    }

    /// Opens the database, if it is not open yet. From here on the object is in memory.
    pub(super) fn open_db(self: &Rc<Self>) -> Result<()> {
        if self.db.borrow().is_some() {
            return Ok(());
        }
        let db = self.worker.store.open_object(self.binding.key(self.id))?;
        let (stored, timeline) = db.identity().map_err(Error::from)?;
        {
            let mut name = self.name.borrow_mut();
            match (&*name, stored) {
                (Some(name), None) => db.set_name(name),
                (None, Some(stored)) => *name = Some(stored.into()),
                _ => {}
            }
        }
        // Its newest commit may come from an earlier incarnation or another node on the store, and not be durable yet.
        {
            let newest = db.newest();
            self.has_seen(newest);
            // Departures of an earlier incarnation leave first.
            self.last_held.set(self.last_held.get().max(newest));
        }
        self.timeline.set(timeline);
        db.use_reserve(self.uses_reserve.get());
        *self.db.borrow_mut() = Some(db);
        self.measure_memory();
        self.worker.mailbox.counters.resident.add();
        self.check_by(self.worker.now() + self.idle_timeout());
        Ok(())
    }

    /// Updates the object's memory charge, if it may have changed.
    pub(super) fn measure_memory(&self) {
        let measured = self.db.borrow().as_ref().and_then(ObjectDb::memory);
        if let Some(bytes) = measured {
            let (memory, weight) = (&self.worker.mailbox.memory, INSTANCE_BYTES + bytes);
            memory.take(MemoryUse::Objects, weight);
            memory.give(MemoryUse::Objects, self.weight.replace(weight));
        }
    }

    /// Called when a handler has finished: its answer leaves with the turn.
    pub(crate) fn answer(self: &Rc<Self>, mut replier: Replier, result: Result<Reply>) {
        let result = result.map_err(Error::into_remote);
        if let Err(error) = &result {
            self.worker.mailbox.counters.errors.add();
            if !replier.has_caller() {
                tracing::warn!(
                    class = self.binding.class_name.as_str(), id = %self.id, %error,
                    "a WebSocket handler returned an error"
                );
            }
        }
        match result {
            Ok(Reply::Fetch(response)) => streaming::answer(self, replier, response),
            // The handler has run: the event is done.
            Err(_) if !replier.has_caller() => {
                self.push(Departure::Reply(replier, Ok(Reply::Done)));
            }
            other => {
                if let Ok(Reply::Rpc(result)) = &other {
                    replier.carries(EVENT_BYTES + result.capacity());
                }
                self.push(Departure::Reply(replier, other));
            }
        }
    }

    /// Answers for a handler whose object has been reset. Even the reason may reveal unconfirmed writes.
    pub(crate) fn answer_broken(&self, replier: Replier, error: Error) {
        replier.interrupted();
        let whereabouts = self.worker.router.whereabouts.as_ref();
        let owner = whereabouts.filter(|_| error.is_elsewhere());
        let error = match owner.and_then(|of| of.url_of(&self.id)) {
            Some(url) => error.with_owner(url),
            None => error,
        };
        self.depart(Departure::Reply(replier, Err(error)));
    }
}
