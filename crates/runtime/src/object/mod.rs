//! One object in memory: from its first event to its eviction or reset.
//!
//! The contract, from which everything else follows:
//!
//! - **A turn is the unit of atomicity.** Code of the object runs only inside [`Object::turn`], one poll of one of its
//!   futures. The turn's writes are committed as one log record when the poll returns. If it panics, or the
//!   object aborts itself, they are rolled back and the object is reset.
//! - **Messages leave only through the output gate.** Replies, calls and body frames of a turn are collected and passed
//!   to the gate after the commit, with the LSN of the object's newest confirmed write. If the commit fails, they
//!   become errors.
//! - **Events start in the order in which they arrive**, and not while the input gate is closed.
//! - **A reset ends an incarnation.** Database and instance are dropped immediately; everything that runs or waits is
//!   answered with the reason; the next event creates a new incarnation from the stored state.
//! - **Destructors are the object's code too.** Outside a turn, user values are dropped only by [`Object::discard`]:
//!   messages that they then send are discarded, and their panics affect no other object.
//!
//! An object never leaves its thread. While its code runs, nothing is borrowed except the database and the instance,
//! both of them shared.

mod access;
mod alarm;
mod attempt;
mod behalf;
mod caller;
mod duties;
mod events;
mod idempotency;
mod known;
mod leaving;
mod operations;
mod rest;
mod restoring;
mod sockets;
pub(crate) mod streaming;
mod timeline;
mod turns;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    task::Waker,
    time::Duration,
};

use abide_storage::{Lsn, MemoryUse, ObjectDb, ObjectKey, TimelineRow};

use crate::{
    AlarmInfo, Error, ErrorKind, Event, Instance, ObjectId,
    alarms::Cause,
    binding::Binding,
    chain::Link,
    context,
    creator::Creator,
    envelope::{Envelope, Replier},
    gate::{Departure, InputGate, Token},
    limits::{BLOCK_CONCURRENCY_LIMIT, REHEARSAL_IDLE},
    task::Work,
    timers::Due,
    waits::Waits,
    worker::Worker,
};

use alarm::AlarmHandler;
pub use caller::CallerGone;
use caller::CallerWatch;
pub(crate) use duties::{DeleteHook, Duties};
use leaving::{EndHook, LeaveHook, Leaving};
use operations::Operations;
use timeline::{ActivationHook, TimelineHook};

/// Whether the output gate waits for a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Confirmed,
    Unconfirmed,
}

/// An event that has reached its object, and the return path.
pub(crate) struct Arrival {
    pub(crate) event: Event,
    pub(crate) replier: Replier,
    pub(crate) chain: Option<Arc<Link>>,
    pub(crate) creator: Option<Creator>,
}

/// How a turn ended.
pub(crate) enum Turn {
    Pending,
    Done,
    /// The object has been reset for this reason.
    Broken(Error),
}

/// A task that has been polled and is not done.
struct Running {
    waker: Waker,
    kind: Kind,
    /// When it times out, unless it already has.
    deadline: Option<Duration>,
    /// What it waits for, on a clock that a test moves.
    waits: Option<Arc<Waits>>,
}

/// The role of a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A caller waits for its answer. If it takes too long, the object is reset.
    Handler,
    /// Background work of `spawn`. If it takes too long, only the task is dropped.
    Background,
    /// The task that the input gate is closed for. If it takes too long, the object is reset.
    Block,
    /// Part of an operation with its own time limit.
    Inner,
}

pub(crate) struct Object {
    pub(crate) worker: Rc<Worker>,
    pub(crate) binding: Arc<Binding>,
    pub(crate) id: ObjectId,
    name: RefCell<Option<Arc<str>>>,
    db: RefCell<Option<ObjectDb>>,
    instance: RefCell<Option<Box<dyn Instance>>>,
    /// The components that operators can address, by name.
    components: RefCell<BTreeMap<String, Operations>>,
    /// Whether components have work, and what they do when everything is deleted.
    duties: RefCell<Vec<Duties>>,
    delete_hooks: RefCell<Vec<DeleteHook>>,
    /// The alarms that the object's class does not handle, by name.
    alarm_handlers: RefCell<BTreeMap<Box<str>, AlarmHandler>>,
    /// As in the database, once it is open.
    timeline: Cell<TimelineRow>,
    /// The current turn has changed it.
    timeline_changed: Cell<bool>,
    timeline_hooks: RefCell<Vec<TimelineHook>>,
    activation_hooks: RefCell<Vec<ActivationHook>>,
    leave_hooks: RefCell<Vec<LeaveHook>>,
    end_hooks: RefCell<Vec<EndHook>>,
    leaving: Cell<Leaving>,
    /// Why this incarnation has ended, once it has.
    fate: RefCell<Option<Error>>,
    /// Why it shall end with the current turn.
    reset_after_turn: RefCell<Option<Error>>,
    /// Why it shall end once the current turn has committed and its messages have been sent.
    restart_after_turn: Cell<Option<&'static str>>,

    gate: RefCell<InputGate>,
    queue: RefCell<VecDeque<Arrival>>,
    running: RefCell<BTreeMap<Token, Running>>,
    /// Number of running tasks that are handlers.
    handlers: Cell<usize>,
    /// The waiters behind a closed gate of running tasks; usually empty.
    chains: RefCell<BTreeMap<Token, Arc<Link>>>,
    /// Of the running handlers that have asked for their callers; usually empty.
    callers: RefCell<BTreeMap<Token, Rc<CallerWatch>>>,
    /// The creators of running tasks, where known.
    creators: RefCell<BTreeMap<Token, Creator>>,
    /// The creator of the current turn.
    creator: Cell<Option<Creator>>,
    /// Whether the current turn's writes may use the reserve beyond the storage limits.
    uses_reserve: Cell<bool>,
    /// The task that handles the alarm.
    alarm_task: Cell<Option<Token>>,
    /// Its database is being restored: events wait.
    held: Cell<bool>,
    /// It was held to be hydrated.
    hydrated: Cell<bool>,
    /// Requests about its alarms that wait while it is held.
    alarm_requests: RefCell<Vec<Cause>>,
    /// Running calls with an idempotency key, with their fingerprints.
    keyed: RefCell<HashMap<String, [u8; 32]>>,
    /// The call being polled; set to true to prevent it from being remembered.
    keyed_poll: RefCell<Option<Rc<Cell<bool>>>>,
    /// A task that starts waiting events has been scheduled.
    pump_scheduled: Cell<bool>,

    /// The task of the current or the last turn.
    turn_of: Cell<Token>,
    /// Messages sent by the current turn.
    outbox: RefCell<Vec<Departure>>,
    /// User values are being dropped outside a turn.
    discarding: Cell<bool>,
    /// Tasks created by the current turn.
    spawned: RefCell<Vec<(Token, Work)>>,
    /// The current turn has a write that the output gate waits for.
    confirmed: Cell<bool>,
    /// The newest write, and the newest one that the output gate waits for.
    commit_lsn: Cell<Lsn>,
    gate_lsn: Cell<Lsn>,
    last_held: Cell<Lsn>,

    /// The running attempt to handle an alarm.
    attempt: RefCell<Option<AlarmInfo>>,
    /// The attempt's handler has begun: until then, and for a constructor, the alarm is still set.
    handling: Cell<bool>,
    /// The attempt has ended in the current turn.
    attempt_ended: Cell<bool>,
    /// So far only its alarm has used it.
    alarm_only: Cell<bool>,

    last_active: Cell<Duration>,
    /// Its charge to the memory budget.
    weight: Cell<u64>,
    /// When the object will be checked next.
    check_at: Cell<Duration>,
}

impl Object {
    /// An object that has not been opened yet. Its output gate starts at its newest commit, once its database is open.
    pub(crate) fn new(
        worker: Rc<Worker>,
        binding: Arc<Binding>,
        id: ObjectId,
        name: Option<Arc<str>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            timeline: Cell::new(TimelineRow::unread(binding.key(id))),
            binding,
            id,
            name: RefCell::new(name),
            db: RefCell::default(),
            instance: RefCell::default(),
            components: RefCell::default(),
            duties: RefCell::default(),
            delete_hooks: RefCell::default(),
            alarm_handlers: RefCell::default(),
            timeline_changed: Cell::new(false),
            timeline_hooks: RefCell::default(),
            activation_hooks: RefCell::default(),
            leave_hooks: RefCell::default(),
            end_hooks: RefCell::default(),
            leaving: Cell::default(),
            fate: RefCell::default(),
            reset_after_turn: RefCell::default(),
            restart_after_turn: Cell::default(),
            gate: RefCell::default(),
            queue: RefCell::default(),
            running: RefCell::default(),
            handlers: Cell::new(0),
            chains: RefCell::default(),
            callers: RefCell::default(),
            creators: RefCell::default(),
            creator: Cell::new(None),
            uses_reserve: Cell::new(false),
            alarm_task: Cell::new(None),
            held: Cell::new(false),
            hydrated: Cell::new(false),
            alarm_requests: RefCell::default(),
            keyed: RefCell::default(),
            keyed_poll: RefCell::default(),
            pump_scheduled: Cell::new(false),
            turn_of: Cell::new(Token(0)),
            outbox: RefCell::default(),
            discarding: Cell::new(false),
            spawned: RefCell::default(),
            confirmed: Cell::new(false),
            commit_lsn: Cell::default(),
            gate_lsn: Cell::default(),
            last_held: Cell::default(),
            attempt: RefCell::default(),
            handling: Cell::new(false),
            attempt_ended: Cell::new(false),
            alarm_only: Cell::new(true),
            last_active: Cell::new(worker.now()),
            weight: Cell::new(0),
            check_at: Cell::new(Duration::MAX),
            worker,
        })
    }

    /// The object's key in the store.
    pub(crate) fn key(&self) -> ObjectKey {
        self.binding.key(self.id)
    }

    pub(crate) fn name(&self) -> Option<String> {
        self.name.borrow().as_deref().map(str::to_owned)
    }

    /// Called when an object that was so far called by its id is called by its name.
    pub(crate) fn learn_name(&self, name: &Arc<str>) {
        if self.name.borrow().is_some() {
            return;
        }
        *self.name.borrow_mut() = Some(Arc::clone(name));
        if let Some(db) = &*self.db.borrow() {
            db.set_name(name);
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.fate.borrow().is_none()
    }

    /// Why the object is gone, if it is.
    pub(crate) fn fate(&self) -> Option<Error> {
        self.fate.borrow().clone()
    }

    /// Resets the object when the current turn ends.
    pub(crate) fn reset_after_turn(self: &Rc<Self>, reason: Error) {
        if context::is_current(self) {
            self.reset_after_turn.borrow_mut().get_or_insert(reason);
        } else if self.is_alive() {
            self.kill(reason);
        }
    }

    /// Ends this incarnation. Everything that runs or waits gets the reason.
    pub(crate) fn kill(self: &Rc<Self>, reason: Error) {
        self.worker.mailbox.counters.resets.add();
        let wakers: Vec<_> = self
            .running
            .borrow()
            .values()
            .map(|running| running.waker.clone())
            .collect();
        let waiting = self.queue.take();
        let why = reason.clone();
        self.end(reason);
        self.break_attempt(&why);
        let not_begun = why.clone().into_retryable();
        let (of_sockets, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|arrival| arrival.event.is_of_socket());
        for arrival in waiting {
            self.discard(arrival.event);
            self.answer_broken(arrival.replier, not_begun.clone());
        }
        // First notify those that are interrupted; then others may begin.
        wakers.into_iter().for_each(Waker::wake);
        self.put_off(of_sockets, &why);
    }

    /// Events of sockets that this incarnation has not begun, which would not be resent, go to the next one.
    pub(super) fn put_off(&self, events: Vec<Arrival>, reason: &Error) {
        if events.is_empty() {
            return;
        }
        let envelopes = events.into_iter().map(|arrival| Envelope {
            binding: self.binding.index,
            id: self.id,
            name: self.name.borrow().clone(),
            event: arrival.event,
            replier: arrival.replier,
            chain: arrival.chain,
            creator: arrival.creator,
            from_outside: false,
        });
        self.worker.put_off(self.key(), envelopes, reason);
    }

    /// The periodic check of an object.
    pub(crate) fn check(self: &Rc<Self>, now: Duration) {
        if !self.is_alive() || now < self.check_at.get() {
            return;
        }
        self.check_at.set(Duration::MAX);
        let options = &self.binding.options;
        let overdue = |running: &Running| running.deadline.is_some_and(|deadline| deadline <= now);
        let is_overdue = |kind| {
            let running = self.running.borrow();
            let mut of_kind = running.values().filter(|running| running.kind == kind);
            of_kind.any(overdue)
        };
        if is_overdue(Kind::Block) {
            return self.kill(
                Error::with_kind(
                    ErrorKind::Timeout,
                    format!(
                        "the future of `block_concurrency_while` did not end within {} s: it was dropped, and the object \
                         was reset",
                        BLOCK_CONCURRENCY_LIMIT.as_secs()
                    ),
                )
                .into_reset(),
            );
        }
        if is_overdue(Kind::Handler) {
            tracing::error!(
                class = self.binding.class_name.as_str(), id = %self.id, seconds = options.event_timeout.as_secs_f64(),
                "a handler did not finish in time; resetting its object"
            );
            return self.kill(
                Error::with_kind(
                    ErrorKind::Timeout,
                    format!(
                        "a handler of {} did not finish within {} s, so the object was reset",
                        self.binding.class_name.as_str(),
                        options.event_timeout.as_secs_f64()
                    ),
                )
                .into_reset(),
            );
        }
        self.drop_overdue(now);
        let deadline = self
            .running
            .borrow()
            .values()
            .filter_map(|running| running.deadline)
            .min();
        let idle = self.is_idle();
        let idle_until = self.last_active.get() + self.idle_timeout();
        if idle && (idle_until <= now || self.is_leaving()) {
            self.leave();
            return;
        }
        let next = if idle {
            idle_until
        } else {
            now + self.idle_timeout()
        };
        self.check_by(deadline.map_or(next, |deadline| deadline.min(next)));
    }

    /// Returns whether nothing of it runs or waits.
    fn is_idle(&self) -> bool {
        self.running.borrow().is_empty()
            && self.queue.borrow().is_empty()
            && self.gate.borrow().is_open()
            && !self.held.get()
    }

    fn is_durable(&self) -> bool {
        self.commit_lsn.get() <= self.worker.store.durable()
    }

    /// When it was last used, if it may be evicted before its idle time is over.
    pub(crate) fn idle_since(self: &Rc<Self>) -> Option<Duration> {
        let may_leave = self.is_alive()
            && self.db.borrow().is_some()
            && self.is_idle()
            && self.is_durable()
            && !context::is_current(self);
        may_leave.then(|| self.last_active.get())
    }

    /// Evicts the object from memory; the next event brings it back.
    fn leave_memory(self: &Rc<Self>) {
        self.worker.mailbox.counters.evicted.add();
        self.end(Error::with_kind(
            ErrorKind::Reset,
            "the object was evicted from memory",
        ));
    }

    /// Drops background work that took too long: its task does so, in a turn, when the gate allows it.
    fn drop_overdue(&self, now: Duration) {
        let mut woken = Vec::new();
        for running in self.running.borrow_mut().values_mut() {
            if running.deadline.is_some_and(|deadline| deadline <= now) {
                running.deadline = None;
                woken.push(running.waker.clone());
            }
        }
        for waker in woken {
            self.worker.mailbox.counters.background_timeouts.add();
            tracing::warn!(
                class = self.binding.class_name.as_str(), id = %self.id,
                seconds = self.binding.options.background_timeout.as_secs_f64(),
                "dropping background work that did not finish in time; its object continues to run"
            );
            waker.wake();
        }
    }

    /// Returns whether the task is background work that has timed out.
    pub(crate) fn is_overdue(&self, token: Token) -> bool {
        self.running
            .borrow()
            .get(&token)
            .is_some_and(|running| running.kind == Kind::Background && running.deadline.is_none())
    }

    /// How long the object may be idle.
    fn idle_timeout(&self) -> Duration {
        let usual = self.binding.options.idle_timeout;
        if self.worker.router.rehearsal {
            return usual.min(REHEARSAL_IDLE);
        }
        if self.alarm_only.get() {
            usual.min(self.binding.options.alarm_idle_timeout)
        } else {
            usual
        }
    }

    fn check_by(self: &Rc<Self>, at: Duration) {
        if at < self.check_at.get() {
            self.check_at.set(at);
            self.worker.arm(Due::Check(self.key()), at);
        }
    }

    /// Drops database and instance. From here on this is an empty shell that holds the reason.
    fn end(self: &Rc<Self>, fate: Error) {
        *self.fate.borrow_mut() = Some(fate);
        self.worker.forget(self);
        self.gate.borrow_mut().clear();
        let db = self.db.take();
        if let Some(db) = &db {
            db.rollback();
            self.worker.mailbox.counters.resident.subtract();
        }
        drop(db);
        let memory = &self.worker.mailbox.memory;
        memory.give(MemoryUse::Objects, self.weight.take());
        // Taken out first: a destructor may access the object.
        let (outbox, spawned) = (self.outbox.take(), self.spawned.take());
        let (instance, components) = (self.instance.take(), self.components.take());
        // One by one: a second panic during unwinding would abort the process.
        for sent in outbox {
            self.discard(sent);
        }
        for task in spawned {
            self.discard(task);
        }
        self.discard(instance);
        for component in components {
            self.discard(component);
        }
        for duties in self.duties.take() {
            self.discard(duties);
        }
        for hook in self.delete_hooks.take() {
            self.discard(hook);
        }
        for handler in self.alarm_handlers.take() {
            self.discard(handler);
        }
        for hook in self.timeline_hooks.take() {
            self.discard(hook);
        }
        for hook in self.activation_hooks.take() {
            self.discard(hook);
        }
        for hook in self.leave_hooks.take() {
            self.discard(hook);
        }
        for hook in self.end_hooks.take() {
            self.discard(hook);
        }
    }

    /// Drops a user value outside a turn. Its destructor runs as code of the object, whose calls fail because no commit
    /// follows, and its panic is caught here.
    pub(crate) fn discard<T>(self: &Rc<Self>, value: T) {
        let nested = self.discarding.replace(true);
        let entered = context::enter(self);
        let outcome = catch_unwind(AssertUnwindSafe(|| drop(value)));
        drop(entered);
        self.discarding.set(nested);
        if let Err(panic) = outcome {
            self.panicked(&*panic);
            // Its own destructor might panic again; a leak is the lesser evil.
            std::mem::forget(panic);
        }
    }
}
