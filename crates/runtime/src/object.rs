//! One object in memory: from its first event to its eviction or reset.
//!
//! The contract, which everything else follows from:
//!
//! - **A turn is the unit of atomicity.** Code of the object runs only inside [`Object::turn`], one poll of one of its
//!   futures. The turn's writes are committed as one log record when the poll returns. If it panics, or the
//!   object aborts itself, they are rolled back and the object is reset.
//! - **What leaves, leaves through the output gate.** Replies, calls and body frames of a turn are gathered
//!   and handed to the gate after the commit, under the LSN of the object's newest confirmed write. If the
//!   commit fails they turn into errors.
//! - **Events start in the order in which they arrive**, and not while the input gate is closed.
//! - **A reset ends an incarnation.** Database and instance are dropped at once; whatever runs or waits
//!   answers with the reason; the next event makes a new incarnation from what is stored.
//!
//! An object never leaves its thread. Nothing is borrowed while user code runs except the database handle, shared.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use abide_storage::{Lsn, ObjectDb};
use tokio::sync::oneshot;

use crate::{
    Error, ErrorKind, Event, Instance, LocalFuture, ObjectId, Reply, Result, State,
    body, context,
    envelope::{Replier, Ticket},
    gate::{Departure, InputGate, Released, Token, refuse},
    limits::BLOCK_CONCURRENCY_LIMIT,
    namespace::Binding,
    task::{Task, Work},
    timers::Due,
    worker::Worker,
};

/// Whether the output gate waits for a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Confirmed,
    Unconfirmed,
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
    /// When it is to be given up.
    deadline: Option<Duration>,
}

pub(crate) struct Object {
    pub(crate) worker: Rc<Worker>,
    pub(crate) binding: Arc<Binding>,
    pub(crate) id: ObjectId,
    name: RefCell<Option<Arc<str>>>,
    db: RefCell<Option<ObjectDb>>,
    instance: RefCell<Option<Box<dyn Instance>>>,
    /// Why this incarnation has ended, once it has.
    fate: RefCell<Option<Error>>,
    /// Why it is to end when the current turn does.
    doom: RefCell<Option<Error>>,

    gate: RefCell<InputGate>,
    queue: RefCell<VecDeque<(Event, Replier)>>,
    running: RefCell<BTreeMap<Token, Running>>,
    /// A task that starts waiting events is on its way.
    pump_scheduled: Cell<bool>,

    /// The task whose turn it is, or was last.
    turn_of: Cell<Token>,
    turns: Cell<u64>,
    /// What the current turn sends.
    outbox: RefCell<Vec<Departure>>,
    /// Tasks that the current turn made.
    spawned: RefCell<Vec<(Token, Work)>>,
    /// The current turn wrote something that the output gate waits for.
    confirmed: Cell<bool>,
    /// The newest write, and the newest one that the output gate waits for.
    commit_lsn: Cell<Lsn>,
    gate_lsn: Cell<Lsn>,
    last_held: Cell<Lsn>,

    last_active: Cell<Duration>,
    /// When the object will be checked next.
    check_at: Cell<Duration>,
}

impl Object {
    /// An object that has not begun; `floor` is where its output gate starts.
    pub(crate) fn new(
        worker: Rc<Worker>,
        binding: Arc<Binding>,
        id: ObjectId,
        name: Option<Arc<str>>,
        floor: Lsn,
    ) -> Rc<Self> {
        Rc::new(Self {
            binding,
            id,
            name: RefCell::new(name),
            db: RefCell::default(),
            instance: RefCell::default(),
            fate: RefCell::default(),
            doom: RefCell::default(),
            gate: RefCell::default(),
            queue: RefCell::default(),
            running: RefCell::default(),
            pump_scheduled: Cell::new(false),
            turn_of: Cell::new(Token(0)),
            turns: Cell::new(0),
            outbox: RefCell::default(),
            spawned: RefCell::default(),
            confirmed: Cell::new(false),
            commit_lsn: Cell::new(floor),
            gate_lsn: Cell::new(floor),
            last_held: Cell::new(floor),
            last_active: Cell::new(worker.now()),
            check_at: Cell::new(Duration::MAX),
            worker,
        })
    }

    // ---- events ------------------------------------------------------------------------------------------

    /// Takes an event: starts it, queues it, or says that there are too many.
    pub(crate) fn accept(self: &Rc<Self>, event: Event, replier: Replier) {
        if self.may_start() && self.queue.borrow().is_empty() {
            return self.start(event, replier);
        }
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= self.binding.options.max_queued {
            self.worker.mailbox.counters.overloaded.add();
            drop(queue);
            return refuse(replier, Error::overloaded_object());
        }
        queue.push_back((event, replier));
    }

    /// Starts waiting events, in order, as far as the gate allows.
    pub(crate) fn pump(self: &Rc<Self>) {
        self.pump_scheduled.set(false);
        while self.is_alive() && self.may_start() {
            let Some((event, replier)) = self.queue.borrow_mut().pop_front() else { break };
            self.start(event, replier);
        }
    }

    fn may_start(&self) -> bool {
        self.gate.borrow().is_open() && self.running.borrow().len() < self.binding.options.max_running
    }

    /// Begins a handler and polls it once, right here: most handlers never wait, and need no task then.
    fn start(self: &Rc<Self>, event: Event, replier: Replier) {
        self.worker.mailbox.counters.events.add();
        let token = self.worker.next_token();
        let mut replier = Some(replier);
        let mut event = Some(event);
        let mut suspended = None;
        let turn = self.turn(token, || {
            if self.instance.borrow().is_none() {
                self.construct()?;
                if !self.gate.borrow().is_open()
                    && let (Some(event), Some(replier)) = (event.take(), replier.take())
                {
                    self.queue.borrow_mut().push_front((event, replier));
                    return Ok(Poll::Ready(()));
                }
            }
            let delivered = match (&*self.instance.borrow(), event.take()) {
                (Some(instance), Some(event)) => instance.deliver(event),
                _ => return Ok(Poll::Ready(())),
            };
            let mut future = delivered;
            // If it is pending, its task polls it again with a waker of its own.
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
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
        match (turn, replier, suspended) {
            (Turn::Pending, Some(replier), Some(future)) => {
                self.spawn(token, Work::Event { future, replier });
            }
            (Turn::Broken(error), Some(replier), _) => self.answer_broken(replier, error),
            _ => {}
        }
    }

    /// Opens the database and makes the instance. An error resets the object.
    fn construct(self: &Rc<Self>) -> Result<()> {
        let db = self.worker.store.open_object(self.binding.key(self.id))?;
        {
            let mut name = self.name.borrow_mut();
            let stored = db.name()?;
            match (&*name, stored) {
                (Some(name), None) => db.set_name(name)?,
                (None, Some(stored)) => *name = Some(stored.into()),
                _ => {}
            }
        }
        *self.db.borrow_mut() = Some(db);
        self.worker.mailbox.counters.started.add();
        self.worker.mailbox.counters.resident.add();
        let made = self.binding.class.instantiate(State::new(Rc::clone(self)), self.worker.env.clone());
        *self.instance.borrow_mut() = Some(made.map_err(Error::into_remote)?);
        self.check_by(self.worker.now() + self.binding.options.idle_timeout);
        Ok(())
    }

    /// A handler has finished: its answer leaves with the turn.
    pub(crate) fn answer(self: &Rc<Self>, replier: Replier, result: Result<Reply>) {
        let result = result.map_err(Error::into_remote);
        if result.is_err() {
            self.worker.mailbox.counters.errors.add();
        }
        match result {
            Ok(Reply::Fetch(response)) => body::answer(self, replier, response),
            other => self.push(Departure::Reply(replier, other)),
        }
    }

    /// The answer of a handler whose object has been reset. Even the reason may tell of unconfirmed writes.
    pub(crate) fn answer_broken(&self, replier: Replier, error: Error) {
        self.depart(Departure::Reply(replier, Err(error)));
    }

    // ---- turns -------------------------------------------------------------------------------------------

    /// Runs code of the object: `f` polls one of its futures once. `Err` from `f` resets the object.
    pub(crate) fn turn(self: &Rc<Self>, token: Token, f: impl FnOnce() -> Result<Poll<()>>) -> Turn {
        let now = self.worker.now();
        self.last_active.set(now);
        self.turn_of.set(token);
        self.turns.set(self.turns.get() + 1);
        let watch = self.worker.mailbox.watch.begin(now, self.binding.index, self.id);
        let entered = context::enter(self);
        let outcome = catch_unwind(AssertUnwindSafe(f));
        drop(entered);
        drop(watch);

        let ended = match outcome {
            Ok(ended) => ended,
            Err(panic) => Err(self.panicked(&*panic)),
        };
        let ended = match self.doom.take() {
            Some(reason) => Err(reason),
            None => ended,
        };
        match ended.and_then(|poll| self.commit().map(|()| poll)) {
            Ok(poll) => {
                self.flush();
                self.spawn_all();
                if poll.is_ready() { Turn::Done } else { Turn::Pending }
            }
            Err(error) => Turn::Broken(self.break_off(error)),
        }
    }

    /// The number of the current turn: tells a future whether the poll it was made in has ended.
    fn turn_number(&self) -> u64 {
        self.turns.get()
    }

    fn commit(&self) -> Result<()> {
        if let Some(db) = &*self.db.borrow()
            && let Some(lsn) = db.commit()?
        {
            self.commit_lsn.set(lsn);
            if self.confirmed.get() {
                self.gate_lsn.set(lsn);
            }
        }
        self.confirmed.set(false);
        Ok(())
    }

    /// Sends what the turn has gathered.
    fn flush(&self) {
        // Taken out for the time of sending: releasing a call may run code that looks at the object.
        let mut outbox = self.outbox.take();
        outbox.drain(..).for_each(|departure| self.depart(departure));
        if self.outbox.borrow().is_empty() {
            *self.outbox.borrow_mut() = outbox;
        }
    }

    fn depart(&self, departure: Departure) {
        let lsn = match departure {
            Departure::Synced(_) => self.commit_lsn.get(),
            _ => self.gate_lsn.get(),
        };
        self.worker.mailbox.lane.depart(&self.worker.store, lsn, &self.last_held, departure);
    }

    /// Adds to what the current turn sends.
    pub(crate) fn push(&self, departure: Departure) {
        self.outbox.borrow_mut().push(departure);
    }

    /// The turn must not take effect: nothing of it is kept or sent, and the object is reset.
    fn break_off(self: &Rc<Self>, error: Error) -> Error {
        let error = error.into_reset();
        for departure in self.outbox.take() {
            self.depart(departure.into_failed(error.clone()));
        }
        self.kill(error.clone());
        error
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        self.worker.mailbox.counters.panics.add();
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        tracing::error!(class = self.binding.class.name(), id = %self.id, panic = text, "an object panicked and is reset");
        Error::with_kind(ErrorKind::Reset, format!("the object panicked and was reset: {text}"))
    }

    // ---- tasks -------------------------------------------------------------------------------------------

    fn spawn(self: &Rc<Self>, token: Token, work: Work) {
        let deadline = match work {
            Work::Event { .. } => Some(self.last_active.get() + self.binding.options.event_timeout),
            Work::Inner { .. } => None,
        };
        if let Some(deadline) = deadline {
            self.check_by(deadline);
        }
        self.running.borrow_mut().insert(token, Running { waker: Waker::noop().clone(), deadline });
        tokio::task::spawn_local(Task::new(Rc::clone(self), token, work));
    }

    fn spawn_all(self: &Rc<Self>) {
        for (token, work) in self.spawned.take() {
            self.spawn(token, work);
        }
    }

    /// The task waits; a reset wakes it by this waker.
    pub(crate) fn suspended(&self, token: Token, waker: &Waker) {
        if let Some(running) = self.running.borrow_mut().get_mut(&token) {
            running.waker.clone_from(waker);
        }
    }

    /// The task is done.
    pub(crate) fn finished(self: &Rc<Self>, token: Token) {
        self.running.borrow_mut().remove(&token);
        if !self.queue.borrow().is_empty() && self.may_start() && !self.pump_scheduled.replace(true) {
            // A task of its own: it comes after the parked tasks that the gate has just woken.
            let object = Rc::clone(self);
            tokio::task::spawn_local(async move { object.pump() });
        }
    }

    /// Makes a task in the current turn; it starts when the turn has committed.
    pub(crate) fn spawn_later(&self, token: Token, future: LocalFuture<Result<()>>) {
        let ticket = Ticket::new(&self.worker.mailbox);
        self.spawned.borrow_mut().push((token, Work::Inner { future, _ticket: ticket }));
    }

    pub(crate) fn wait_until(self: &Rc<Self>, future: LocalFuture<Result<()>>) -> Result<()> {
        self.must_be_current()?;
        self.spawn_later(self.worker.next_token(), future);
        Ok(())
    }

    // ---- input gate --------------------------------------------------------------------------------------

    /// Closes the gate for everybody but a new task that runs `future`.
    pub(crate) fn block(self: &Rc<Self>, future: LocalFuture<Result<()>>) -> Result<()> {
        self.must_be_current()?;
        let token = self.worker.next_token();
        self.gate.borrow_mut().close(token, self.turn_of.get());
        self.worker.arm(self.worker.now() + BLOCK_CONCURRENCY_LIMIT, self, Due::Gate(token));
        self.spawn_later(token, future);
        Ok(())
    }

    pub(crate) fn may_run(&self, token: Token) -> bool {
        self.gate.borrow().may_run(token)
    }

    pub(crate) fn park(&self, token: Token, waker: &Waker) {
        self.gate.borrow_mut().park(token, waker);
    }

    /// The task needs the gate no more, if it ever did.
    pub(crate) fn open_gate(&self, token: Token) {
        if !self.gate.borrow().is_open() {
            let woken = self.gate.borrow_mut().open(token);
            woken.into_iter().for_each(Waker::wake);
        }
    }

    // ---- storage -----------------------------------------------------------------------------------------

    pub(crate) fn read<R>(&self, f: impl FnOnce(&ObjectDb) -> abide_storage::Result<R>) -> Result<R> {
        self.with_db(Confirmation::Unconfirmed, f)?.map_err(Error::from)
    }

    pub(crate) fn write<R>(
        &self,
        confirmation: Confirmation,
        f: impl FnOnce(&ObjectDb) -> abide_storage::Result<R>,
    ) -> Result<R> {
        self.with_db(confirmation, f)?.map_err(Error::from)
    }

    /// Uses the database. A confirmed use that leaves a transaction open makes the output gate wait for it.
    pub(crate) fn with_db<R>(&self, confirmation: Confirmation, f: impl FnOnce(&ObjectDb) -> R) -> Result<R> {
        self.must_be_current()?;
        let db = self.db.borrow();
        let Some(db) = &*db else { return Err(self.absent()) };
        let result = f(db);
        if confirmation == Confirmation::Confirmed && db.in_transaction() {
            self.confirmed.set(true);
        }
        Ok(result)
    }

    /// Resolves when everything committed up to now, and in the current turn, is durable.
    pub(crate) async fn synced(self: &Rc<Self>) -> Result<()> {
        self.must_be_current()?;
        let asked_in = self.turn_number();
        std::future::poll_fn(|cx| {
            if self.turn_number() > asked_in {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        let (durable, wait) = oneshot::channel();
        self.push(Departure::Synced(durable));
        wait.await.map(Released::into_inner).map_err(|_| Error::log_failed())
    }

    fn must_be_current(&self) -> Result<()> {
        if context::is_current(self) { Ok(()) } else { Err(self.absent()) }
    }

    fn absent(&self) -> Error {
        self.fate.borrow().clone().unwrap_or_else(|| {
            Error::with_kind(
                ErrorKind::Input,
                "an object's state works only inside its own handlers: start background work with \
                 `state.wait_until(…)`, not with a task or thread of your own",
            )
        })
    }

    // ---- life --------------------------------------------------------------------------------------------

    pub(crate) fn name(&self) -> Option<String> {
        self.name.borrow().as_deref().map(str::to_owned)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.fate.borrow().is_none()
    }

    /// Why the object is gone, if it is.
    pub(crate) fn fate(&self) -> Option<Error> {
        self.fate.borrow().clone()
    }

    /// Resets the object when the current turn ends.
    pub(crate) fn doom(self: &Rc<Self>, reason: Error) {
        if context::is_current(self) {
            self.doom.borrow_mut().get_or_insert(reason);
        } else if self.is_alive() {
            self.kill(reason);
        }
    }

    /// Ends this incarnation for a reason that everybody learns who runs or waits.
    pub(crate) fn kill(self: &Rc<Self>, reason: Error) {
        self.worker.mailbox.counters.resets.add();
        let wakers: Vec<_> = self.running.borrow().values().map(|running| running.waker.clone()).collect();
        let waiting = self.queue.take();
        self.end(reason.clone());
        let not_begun = reason.into_retryable();
        waiting.into_iter().for_each(|(_, replier)| self.answer_broken(replier, not_begun.clone()));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Looks after an object from time to time.
    pub(crate) fn check(self: &Rc<Self>, now: Duration) {
        if !self.is_alive() || now < self.check_at.get() {
            return;
        }
        self.check_at.set(Duration::MAX);
        let options = &self.binding.options;
        let deadline = self.running.borrow().values().filter_map(|running| running.deadline).min();
        if deadline.is_some_and(|deadline| deadline <= now) {
            tracing::error!(
                class = self.binding.class.name(), id = %self.id, seconds = options.event_timeout.as_secs_f64(),
                "a handler did not finish in time; its object is reset"
            );
            return self.kill(Error::with_kind(
                ErrorKind::Timeout,
                format!(
                    "a handler of {} did not finish within {} s, so the object was reset",
                    self.binding.class.name(),
                    options.event_timeout.as_secs_f64()
                ),
            ));
        }
        let idle = self.running.borrow().is_empty() && self.queue.borrow().is_empty() && self.gate.borrow().is_open();
        let idle_until = self.last_active.get() + options.idle_timeout;
        if idle && idle_until <= now && self.commit_lsn.get() <= self.worker.store.durable() {
            self.worker.mailbox.counters.evicted.add();
            return self.end(Error::with_kind(ErrorKind::Reset, "the object has left memory"));
        }
        let next = if idle && idle_until > now { idle_until } else { now + options.idle_timeout };
        self.check_by(deadline.map_or(next, |deadline| deadline.min(next)));
    }

    /// The gate's time limit has come for a task that closed it.
    pub(crate) fn check_gate(self: &Rc<Self>, token: Token) {
        if self.is_alive() && self.gate.borrow().involves(token) {
            self.kill(Error::with_kind(
                ErrorKind::Timeout,
                "A call to blockConcurrencyWhile() in a Durable Object waited for too long. \
                 The call was canceled and the Durable Object was reset.",
            ));
        }
    }

    fn check_by(self: &Rc<Self>, at: Duration) {
        if at < self.check_at.get() {
            self.check_at.set(at);
            self.worker.arm(at, self, Due::Check);
        }
    }

    /// Drops database and instance. From here on this is a shell that tells its fate.
    fn end(self: &Rc<Self>, fate: Error) {
        *self.fate.borrow_mut() = Some(fate);
        self.worker.forget(self, self.commit_lsn.get());
        self.gate.borrow_mut().clear();
        self.outbox.take();
        let spawned = self.spawned.take();
        let db = self.db.take();
        if let Some(db) = &db {
            db.rollback();
            self.worker.mailbox.counters.resident.subtract();
        }
        drop(db);
        let instance = self.instance.take();
        // Destructors are the user's code too.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop((instance, spawned)))) {
            self.panicked(&*panic);
        }
    }
}
