//! A worker: one thread and its objects.
//!
//! Takes events from its channel in batches, finds or creates the object, and starts the handler. Waiting handlers are
//! tasks of the same thread. Between batches it runs the timers that are due.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use abide_storage::{ClockTime, MemoryUse, ObjectKey, Store};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    Error, ErrorKind, Event, Instance, ObjectId, Result,
    alarms::AlarmRequest,
    binding::Binding,
    census::{Census, YIELDS},
    clock::{Clock, Sleep},
    envelope::{AdminTask, Envelope, Eviction, Mailbox, Message, Purpose},
    gate::{Token, refuse},
    limits::{EVICTION_EIGHTHS, EVICTION_PAUSE, LEAVING_LIMIT, WEBSOCKET_RETRY, WORKER_BATCH},
    object::{Arrival, Object},
    router::{Phase, Router},
    socket::{Registry, Sent, WebSocketConnector},
    timers::{Due, Timers},
};

/// Creates the instance of an object, with its context and the environment for objects.
pub(crate) type Create = Box<dyn Fn(&Rc<Object>) -> Result<Box<dyn Instance>>>;

pub(crate) struct Worker {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) store: Store,
    pub(crate) router: Arc<Router>,
    /// Creates instances.
    pub(crate) create: Create,
    clock: Arc<dyn Clock>,
    pub(crate) bindings: Arc<[Arc<Binding>]>,
    /// Opens sockets to other servers.
    pub(crate) connector: Option<Arc<dyn WebSocketConnector>>,
    pub(crate) objects: RefCell<FxHashMap<ObjectKey, Rc<Object>>>,
    timers: RefCell<Timers>,
    /// A timer is due earlier than the loop knows.
    earlier: Notify,
    tokens: Cell<u64>,
    /// The sockets of its objects, including objects that are not in memory.
    pub(crate) sockets: Registry,
    /// Socket events that an incarnation had not begun before its reset, for the next one.
    put_off: RefCell<FxHashMap<ObjectKey, DeferredEvents>>,
    /// Until then the worker does not look for idle objects again: there were none.
    no_room_until: Cell<Duration>,
    /// The message last sent by an object, with its memory charge.
    pub(crate) last_sent: RefCell<Sent>,
    /// A test moves the clock, and may ask for the activity.
    observes: bool,
    /// How many turns objects have had, and which object had the last; counted if tests may ask.
    turns: Cell<u64>,
    last_turn: Cell<Option<ObjectKey>>,
}

impl Worker {
    pub(crate) fn new(
        mailbox: Arc<Mailbox>,
        store: Store,
        router: Arc<Router>,
        create: Create,
        bindings: Arc<[Arc<Binding>]>,
        connector: Option<Arc<dyn WebSocketConnector>>,
    ) -> Rc<Self> {
        let observes = router.clock.stands_still();
        Rc::new(Self {
            mailbox,
            store,
            clock: Arc::clone(&router.clock),
            router,
            create,
            bindings,
            connector,
            objects: RefCell::default(),
            timers: RefCell::default(),
            earlier: Notify::new(),
            tokens: Cell::new(0),
            sockets: Registry::default(),
            put_off: RefCell::default(),
            no_room_until: Cell::default(),
            last_sent: RefCell::default(),
            observes,
            turns: Cell::new(0),
            last_turn: Cell::new(None),
        })
    }

    /// Serves events until told to stop; then no object is left.
    pub(crate) async fn run(self: Rc<Self>, mut channel: mpsc::UnboundedReceiver<Message>) {
        let mut batch = Vec::with_capacity(WORKER_BATCH);
        let mut sleep: Option<(Duration, Sleep)> = None;
        let mut since_yield = 0;
        // Since when the worker has been busy: for waiting callers all of that time passes.
        let mut busy_since = self.now();
        loop {
            let idle = self.mailbox.backlog.is_empty();
            let next = self.timers.borrow().next();
            if sleep.as_ref().map(|(at, _)| *at) != next {
                sleep = next.map(|at| (at, self.clock.sleep_until(at)));
            }
            tokio::select! {
                biased;
                received = channel.recv_many(&mut batch, WORKER_BATCH) => {
                    if received == 0 {
                        break;
                    }
                    since_yield += received;
                }
                () = elapsed(&mut sleep) => self.run_due_timers(),
                () = self.earlier.notified() => {}
            }
            if idle {
                busy_since = self.now();
            }
            let mut messages = batch.drain(..);
            while let Some(message) = messages.next() {
                match message {
                    Message::Event(envelope) => self.deliver(envelope),
                    Message::AlarmRequest(request) => self.handle_alarm_request(request),
                    Message::AdminTask(task) => self.run_admin_task(task),
                    Message::Timeline(question) => self.tell_timeline(question),
                    Message::Eviction(eviction) => self.evict(eviction),
                    Message::Census(tell) => self.take_census(tell),
                    Message::Trim => self.make_room(),
                    Message::Stop => return self.end(messages, channel),
                }
                let now = self.now();
                self.mailbox.backlog.done(now.saturating_sub(busy_since));
                busy_since = now;
            }
            // Even under load, timers run when they are due, and suspended handlers get their turn.
            if self
                .timers
                .borrow()
                .next()
                .is_some_and(|at| at <= self.now())
            {
                self.run_due_timers();
            }
            if since_yield >= WORKER_BATCH {
                since_yield = 0;
                tokio::task::yield_now().await;
            }
        }
        self.end(std::iter::empty(), channel);
    }

    fn deliver(self: &Rc<Self>, mut envelope: Envelope) {
        if let Event::WebSocketClose { socket, .. } = &envelope.event {
            self.sockets.remove(socket);
            socket.link().closed();
        }
        if envelope.event.is_of_socket() {
            let key = self.bindings[envelope.binding].key(envelope.id);
            if let Some(put_off) = self.put_off.borrow_mut().get_mut(&key) {
                envelope.replier.put_off(self.now());
                put_off.waiting.push_back(envelope);
                return;
            }
        }
        self.hand_over(envelope);
    }

    fn hand_over(self: &Rc<Self>, envelope: Envelope) {
        let Envelope {
            binding,
            id,
            name,
            event,
            replier,
            chain,
            creator,
            from_outside,
        } = envelope;
        if from_outside && let Err(error) = self.may_begin(binding, id) {
            return refuse(replier, error);
        }
        if let Event::WebSocketMessage { socket, .. } = &event
            && socket.link().is_broken()
        {
            // An earlier message was lost, and the close notifies the peer.
            return self.mailbox.discard((event, replier));
        }
        self.object(binding, id, name).accept(Arrival {
            event,
            replier,
            chain,
            creator,
        });
    }

    /// Rejects an event from outside for which there is no memory.
    fn may_begin(self: &Rc<Self>, binding: usize, id: ObjectId) -> Result<()> {
        let (mailbox, budget) = (&self.mailbox, self.mailbox.memory.budget());
        if budget.is_tight() || self.too_many_objects() {
            self.make_room();
        }
        if budget.is_over() {
            return Err(mailbox.out_of_memory(MemoryUse::Events));
        }
        let is_new = || {
            let key = self.bindings[binding].key(id);
            !self.objects.borrow().contains_key(&key)
        };
        if self.too_many_objects() && is_new() {
            return Err(mailbox.out_of_memory(MemoryUse::Objects));
        }
        Ok(())
    }

    /// Returns whether the objects in memory exceed this worker's share. A single one never does.
    fn too_many_objects(&self) -> bool {
        let mailbox = &self.mailbox;
        mailbox.memory.used(MemoryUse::Objects) > mailbox.max_object_bytes
            && mailbox.counters.resident.get() > 1
    }

    /// Evicts idle objects, the least recently used first: down to the worker's share, and further if memory is short
    /// elsewhere.
    fn make_room(self: &Rc<Self>) {
        let (now, memory) = (self.now(), &self.mailbox.memory);
        if now < self.no_room_until.get() {
            return;
        }
        let part = |bytes: u64| bytes / 8 * EVICTION_EIGHTHS;
        let mut down_to = part(self.mailbox.max_object_bytes);
        if memory.budget().is_tight() {
            down_to = down_to.min(part(memory.used(MemoryUse::Objects)));
        }
        let mut idle: Vec<_> = self
            .objects
            .borrow()
            .iter()
            .filter_map(|(key, object)| Some((object.idle_since()?, *key, Rc::clone(object))))
            .collect();
        idle.sort_unstable_by_key(|(since, key, _)| (*since, *key));
        // Objects that leave as soon as their last writes are durable.
        let mut leaving = 0;
        for (_, _, object) in idle {
            if memory.used(MemoryUse::Objects).saturating_sub(leaving) <= down_to {
                return;
            }
            leaving += object.leave();
        }
        self.no_room_until.set(now + EVICTION_PAUSE);
    }

    /// Holds an object while work on its database runs.
    fn run_admin_task(self: &Rc<Self>, task: AdminTask) {
        let key = self.bindings[task.binding].key(task.id);
        let known = self.objects.borrow().get(&key).map(Rc::clone);
        if let Err(error) = self.may_hold(key, known.as_deref(), task.purpose) {
            let mailbox = &self.mailbox;
            return mailbox.guard("the waker of a restore", || {
                let _ = task.refused.send(error);
                drop(task.work);
            });
        }
        let (mut waiting, mut name) = (Vec::new(), None);
        if let Some(object) = known {
            waiting = object.take_waiting();
            name = object.name().map(Arc::from);
            object.kill(Object::was_held(task.purpose));
        }
        let object = self.object(task.binding, task.id, name);
        object.give_waiting(waiting);
        let work = task.work;
        let mailbox = self.mailbox.clone();
        object.hold(
            move |store| Ok(work(store)),
            move |tell| mailbox.guard("the waker of a restore", tell),
        );
    }

    /// Rejects a task on an object that is held already, or a fork to one that is not empty or may not be created.
    fn may_hold(&self, key: ObjectKey, known: Option<&Object>, purpose: Purpose) -> Result<()> {
        if known.is_some_and(Object::is_held) {
            return Err(Error::with_kind(
                ErrorKind::Overloaded,
                "the object is already being restored, forked to or imported: retry when that is complete",
            ));
        }
        let creator = match purpose {
            Purpose::Import if known.is_some_and(Object::is_stored) => {
                return Err(Error::with_kind(
                    ErrorKind::Input,
                    "the object exists: an import replaces nothing; import to a name that was never used",
                ));
            }
            Purpose::Restore | Purpose::Import => return Ok(()),
            Purpose::Fork(creator) => creator,
        };
        if !known.map_or(Ok(true), Object::is_vacant)? {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the object is not empty: fork to a name that was never used, or delete everything that the object has stored first",
            ));
        }
        if creator.is_some() && !self.store.has_object(key)? {
            self.may_create(creator)?;
        }
        Ok(())
    }

    /// Defers socket events, in order, that an object has not begun because of `reason`. They go to its next
    /// incarnation, before all later events of its sockets: immediately the first time, then after increasing waits. An
    /// event that has waited for the node's delivery patience is dropped.
    pub(crate) fn put_off(
        self: &Rc<Self>,
        key: ObjectKey,
        events: impl DoubleEndedIterator<Item = Envelope>,
        reason: &Error,
    ) {
        let router = &self.router;
        let (now, patience) = (self.now(), router.websockets.delivery_patience);
        let phase = router.phase();
        let mut all = self.put_off.borrow_mut();
        let put_off = all.entry(key).or_default();
        for mut event in events.rev() {
            put_off.again |= event.replier.is_put_off();
            event.replier.put_off(now);
            put_off.waiting.push_front(event);
        }
        // Early if the node is stopping: whatever could be handled immediately has been.
        let hopeless = |event: &mut Envelope, again| match phase {
            Phase::Running if self.store.failed() => true,
            Phase::Running => again && event.replier.put_off(now) + patience <= now,
            Phase::Draining => again,
            Phase::Stopped => true,
        };
        let mut given_up = Vec::new();
        while let Some(first) = put_off.waiting.front_mut()
            && hopeless(first, put_off.again)
        {
            given_up.extend(put_off.waiting.pop_front());
        }
        let Some(first) = put_off.waiting.front_mut() else {
            all.remove(&key);
            drop(all);
            return self.give_up(given_up, reason);
        };
        if !put_off.scheduled {
            put_off.scheduled = true;
            let since = first.replier.put_off(now);
            if put_off.again {
                let wait = now.saturating_sub(since).max(WEBSOCKET_RETRY);
                let at = (now + wait).min((since + patience).max(now + WEBSOCKET_RETRY));
                self.arm(Due::Retry(key), at);
            } else {
                let worker = Rc::clone(self);
                tokio::task::spawn_local(async move { worker.retry(key) });
            }
        }
        drop(all);
        self.give_up(given_up, reason);
    }

    fn give_up(&self, events: Vec<Envelope>, reason: &Error) {
        for event in events {
            self.mailbox.discard(event.event);
            refuse(event.replier, reason.clone());
        }
    }

    /// Delivers deferred socket events to their object, until one is deferred again.
    fn retry(self: &Rc<Self>, key: ObjectKey) {
        if let Some(put_off) = self.put_off.borrow_mut().get_mut(&key) {
            put_off.scheduled = false;
            put_off.again = true;
        }
        loop {
            let next = match self.put_off.borrow_mut().get_mut(&key) {
                Some(put_off) if !put_off.scheduled => put_off.waiting.pop_front(),
                _ => return,
            };
            match next {
                Some(envelope) => self.hand_over(envelope),
                None => break,
            }
        }
        self.put_off.borrow_mut().remove(&key);
    }

    fn handle_alarm_request(self: &Rc<Self>, request: AlarmRequest) {
        self.object(request.binding, request.id, None)
            .handle_alarm_request(request.cause);
    }

    /// Returns the object, creating it if necessary.
    fn object(self: &Rc<Self>, binding: usize, id: ObjectId, name: Option<Arc<str>>) -> Rc<Object> {
        let binding = &self.bindings[binding];
        let key = binding.key(id);
        let known = self.objects.borrow().get(&key).map(Rc::clone);
        if let (Some(object), Some(name)) = (&known, &name) {
            object.learn_name(name);
        }
        known.unwrap_or_else(|| {
            if self.too_many_objects() {
                self.make_room();
            }
            let object = Object::new(Rc::clone(self), Arc::clone(binding), id, name);
            self.objects.borrow_mut().insert(key, Rc::clone(&object));
            object
        })
    }

    /// True if tests may ask what tasks wait for.
    pub(crate) fn observes(&self) -> bool {
        self.observes
    }

    pub(crate) fn note_turn(&self, object: &Rc<Object>) {
        if self.observes {
            self.turns.set(self.turns.get() + 1);
            let key = Some(object.key());
            if self.last_turn.get() != key {
                self.last_turn.set(key);
            }
        }
    }

    /// Evicts an object if it is idle.
    fn evict(&self, eviction: Eviction) {
        let key = self.bindings[eviction.binding].key(eviction.id);
        let object = self.objects.borrow().get(&key).map(Rc::clone);
        let stays = object.and_then(|object| object.evict());
        // The caller may be gone.
        let _ = eviction.tell.send(stays);
    }

    /// Reports the activity after all that is ready now has run.
    fn take_census(self: &Rc<Self>, tell: oneshot::Sender<Census>) {
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            // The caller may be gone.
            let _ = tell.send(worker.census());
        });
    }

    fn census(&self) -> Census {
        let objects: Vec<_> = self.objects.borrow().values().map(Rc::clone).collect();
        let busy = objects.iter().filter_map(|object| {
            let why = object.unrest()?;
            Some(format!("{}: {why}", object.label()))
        });
        let mut busy: Vec<_> = busy.collect();
        busy.sort_unstable();
        let next = self.timers.borrow().next();
        let last = self.last_turn.get().and_then(|key| {
            let objects = self.objects.borrow();
            objects.get(&key).map(|object| object.label())
        });
        Census {
            turns: self.turns.get(),
            busy,
            is_moving: !self.mailbox.backlog.is_empty()
                || self.mailbox.lane.len() > 0
                || next.is_some_and(|at| at <= self.now()),
            last,
        }
    }

    fn run_due_timers(self: &Rc<Self>) {
        let now = self.now();
        while let Some(due) = self.change_timers(|timers| timers.pop_due(now)) {
            match due {
                Due::Check(key) => {
                    let object = self.objects.borrow().get(&key).map(Rc::clone);
                    if let Some(object) = object {
                        object.check(now);
                    }
                }
                Due::Retry(key) => self.retry(key),
            }
        }
    }

    /// Drops every object and all waiting events, which notifies their callers.
    fn end(
        &self,
        messages: impl Iterator<Item = Message>,
        mut channel: mpsc::UnboundedReceiver<Message>,
    ) {
        let objects: Vec<_> = self.objects.borrow().values().map(Rc::clone).collect();
        let patience = self.now() + LEAVING_LIMIT;
        for object in objects {
            if self.now() < patience {
                object.tell_leaving();
            }
            object.interrupt_attempt();
            if object.is_alive() {
                object.kill(Error::stopping().into_maybe_ran());
            }
        }
        channel.close();
        let rest = std::iter::from_fn(|| channel.try_recv().ok());
        for message in messages.chain(rest) {
            match message {
                Message::Event(envelope) => self.drop_event(envelope),
                other => self.mailbox.discard(other),
            }
        }
        // Their sockets end with the node.
        for put_off in self.put_off.take().into_values() {
            for envelope in put_off.waiting {
                self.drop_event(envelope);
            }
        }
    }

    fn drop_event(&self, envelope: Envelope) {
        self.mailbox.discard(envelope.event);
        self.mailbox.discard(envelope.replier);
    }

    /// Arms a timer, replacing its earlier time.
    pub(crate) fn arm(&self, due: Due, at: Duration) {
        if self.change_timers(|timers| timers.arm(due, at)) {
            self.earlier.notify_one();
        }
    }

    fn change_timers<R>(&self, change: impl FnOnce(&mut Timers) -> R) -> R {
        let mut timers = self.timers.borrow_mut();
        let result = change(&mut timers);
        self.mailbox.counters.timers.set(timers.len() as u64);
        result
    }

    /// Called when an object has ended; the next event for it creates another.
    pub(crate) fn forget(&self, object: &Rc<Object>) {
        let key = object.binding.key(object.id);
        let mut objects = self.objects.borrow_mut();
        if objects
            .get(&key)
            .is_some_and(|known| Rc::ptr_eq(known, object))
        {
            objects.remove(&key);
            self.change_timers(|timers| timers.disarm(Due::Check(key)));
        }
        self.sockets.object_left(key);
    }

    pub(crate) fn next_token(&self) -> Token {
        self.tokens.set(self.tokens.get() + 1);
        Token(self.tokens.get())
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// The wall clock, as used by alarms, with the sum of its steps back at that time.
    pub(crate) fn clock_time(&self) -> ClockTime {
        let alarms = self.store.alarms();
        loop {
            let set_back = alarms.set_back();
            let unix_millis = self.clock.unix_millis().cast_signed();
            if alarms.set_back() == set_back {
                return ClockTime {
                    unix_millis,
                    set_back,
                };
            }
        }
    }
}

/// Deferred socket events of an object that could not be opened.
#[derive(Default)]
struct DeferredEvents {
    waiting: VecDeque<Envelope>,
    /// The first of them has already been retried.
    again: bool,
    /// A retry is scheduled.
    scheduled: bool,
}

/// Completes with the sleep; never, if there is none.
async fn elapsed(sleep: &mut Option<(Duration, Sleep)>) {
    poll_fn(|cx| match sleep {
        Some((_, future)) => future.as_mut().poll(cx),
        None => Poll::Pending,
    })
    .await;
    *sleep = None;
}
