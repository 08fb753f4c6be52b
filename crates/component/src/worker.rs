//! The background task of a component: it claims due work, does it concurrently, and writes the results.
//!
//! A component has one [`Worker`]. When it writes work that is due, it calls [`Worker::guard`] in the same transaction
//! and then [`Worker::kick`]; it does the same when its alarm goes off. What is specific to the component is its
//! [`Work`].
//!
//! # Contract
//!
//! At most one task of a worker runs. It makes turns. A turn is one poll of the task: [`Work::turn`] writes results and
//! claims what is due. Claimed work begins when the claims are on disk. The next turn begins when an attempt has
//! finished, the next work is due, or the worker was kicked.
//!
//! The task ends when nothing is in flight and nothing is due [soon](Work::SOON). It then sets the alarm to the next
//! due time, so the object may leave memory. After [`TASK_LIFE`] another task continues with everything in flight: a
//! class's `background_timeout` must be longer, and attempts may take longer than that.
//!
//! Nothing is lost, because two things are on disk at any time: what there is to do, and an alarm that continues it.
//! While the task runs, the alarm is set a few seconds ahead (the guard), and each time it goes off it is set again.
//!
//! | Event | Effect on the work |
//! |---|---|
//! | A turn fails | While something is in flight, or results are unwritten, the task keeps both and makes another turn soon. Otherwise it ends, and the guard continues. |
//! | Claims cannot be made durable | [`Work::begin`] decides. |
//! | The task is dropped (timeout, panic, reset, crash) | Attempts in flight are dropped. The next task calls [`Work::recover`] before its first turn. |
//! | The task cannot start | The guard continues. |
//! | The node stops | Attempts in flight finish and their results are written. Nothing is claimed. The guard continues after the restart. |
//! | The object is restored | It starts anew, with the rows of the restored state and their alarm: as after a crash. |
//! | The object deletes everything | Attempts in flight, and results that are not written, are dropped. The task ends if the [tables](Work::has_tables) are gone. Otherwise it calls [`Work::recover`]: a deletion that is rolled back leaves claims. |
//! | The object is dormant | No task starts. The object starts anew when it is activated. |

use std::{cell::Cell, fmt, future::pending, pin::pin, rc::Rc, sync::Arc, time::Duration};

use abide::clock::{OwnWaits, own_waits};
use abide::{Ctx, LocalFuture, Result};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::sync::Notify;

use crate::{WakeUp, numbers::millis, waits};

/// Shorter waits are made in memory, longer ones by the object's alarm.
pub const SOON: Duration = Duration::from_secs(1);

/// How long one task works before another takes over. A class's `background_timeout` must be longer.
pub const TASK_LIFE: Duration = Duration::from_mins(1);

const _: () = assert!(SOON.as_secs() < TASK_LIFE.as_secs());

/// An attempt in flight. It must end in time without a call.
pub type Attempt<T> = LocalFuture<T>;

/// What a task does: the part that is specific to a component. It lives as long as the task and those that take over
/// from it.
#[allow(
    async_fn_in_trait,
    reason = "tasks are not sent to other threads, and their futures need no bounds"
)]
pub trait Work: Sized + 'static {
    /// What begins when it is on disk that it was claimed.
    type Claim: 'static;
    /// The result of an attempt.
    type Landed: 'static;

    /// A task waits this long for what is due; later work is left to the alarm.
    const SOON: Duration = SOON;

    /// False if the component's tables are gone: the task ends without a turn.
    fn has_tables(&self) -> Result<bool> {
        Ok(true)
    }

    /// Settles attempts that were dropped, with an earlier task, object or process, or because the object has deleted
    /// everything. Called before a turn.
    fn recover(&mut self, _now: i64) -> Result<()> {
        Ok(())
    }

    /// Attempts have finished in this poll. Writes their results now, removing them from `landed`, if they must be in
    /// one transaction with the last writes of the attempts; otherwise the next turn writes them.
    fn arrived(&mut self, _landed: &mut Vec<Self::Landed>, _now: i64) -> Result<()> {
        Ok(())
    }

    /// Makes a turn: writes all results and, if it may, claims what is due.
    ///
    /// If it fails it is called again; results that it has written must not be in `landed` any more.
    fn turn(
        &mut self,
        landed: &mut Vec<Self::Landed>,
        turn: Turn,
    ) -> Result<Next<Self::Claim, Self::Landed>>;

    /// Begins claimed work. `durable` says whether the claims are on disk; `landed` has finished since the turn. An
    /// error ends the task. Work that claims nothing does without.
    fn begin(
        &mut self,
        _claims: Vec<Self::Claim>,
        _durable: Result<()>,
        _landed: &mut Vec<Self::Landed>,
        _turn: Turn,
    ) -> Result<Vec<Attempt<Self::Landed>>> {
        Ok(Vec::new())
    }

    /// Completes when there is another reason for a turn: something the component waits for beside its attempts. It
    /// may be dropped at any `await`. An error ends the task.
    async fn news(&mut self) -> Result<()> {
        pending().await
    }

    /// The task is about to wait, or to end.
    async fn before(&mut self, _pause: Pause) -> Result<()> {
        Ok(())
    }
}

/// The circumstances of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Milliseconds since 1970.
    pub now: i64,
    /// How many attempts are in flight.
    pub in_flight: usize,
    /// What it may do.
    pub may: May,
}

/// What a turn may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Write results, and claim what is due.
    Claim,
    /// Write results. The node stops.
    Finish,
    /// Write results. Another task claims.
    HandOver,
}

/// Why the task makes a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It waits for its attempts or the clock.
    Wait,
    /// It ends.
    Rest,
}

/// What a turn leads to.
pub struct Next<C, L> {
    /// What begins when this turn is durable.
    pub claims: Vec<C>,
    /// What begins at once.
    pub attempts: Vec<Attempt<L>>,
    /// True if the work has something else in flight, which ends with [`Work::news`].
    pub is_busy: bool,
    /// When to make a turn if nothing happens earlier. If the node stops, `None` leaves the alarm as it is.
    pub wake: Option<i64>,
}

impl<C, L> Next<C, L> {
    /// Nothing begins.
    pub fn at(wake: Option<i64>) -> Self {
        Self {
            claims: Vec::new(),
            attempts: Vec::new(),
            is_busy: false,
            wake,
        }
    }
}

impl<C, L> fmt::Debug for Next<C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field("claims", &self.claims.len())
            .field("attempts", &self.attempts.len())
            .field("is_busy", &self.is_busy)
            .field("wake", &self.wake)
            .finish()
    }
}

/// Writes results one by one, and removes those that were written. Stops at the first error.
pub fn write_each<T>(landed: &mut Vec<T>, mut write: impl FnMut(&T) -> Result<()>) -> Result<()> {
    let mut written = 0;
    let result = landed.iter().try_for_each(|result| {
        write(result)?;
        written += 1;
        Ok(())
    });
    landed.drain(..written);
    result
}

/// The worker of an object's component. Clones refer to the same worker.
#[derive(Clone)]
pub struct Worker(Rc<Shared>);

struct Shared {
    ctx: Ctx,
    alarm: WakeUp,
    /// True while the worker's right is taken.
    running: Cell<bool>,
    /// True if attempts are to be dropped, or may have been, and are not settled.
    cut_off: Cell<bool>,
    /// Wakes the task.
    news: Notify,
}

impl Worker {
    /// The worker of a component with this alarm, whose handler kicks it.
    pub fn new(ctx: &Ctx, alarm: WakeUp) -> Self {
        let worker = Self(Rc::new(Shared {
            ctx: ctx.clone(),
            alarm,
            running: Cell::new(false),
            cut_off: Cell::new(true),
            news: Notify::new(),
        }));
        let told = worker.clone();
        ctx.on_delete_all(move || told.deleted());
        worker
    }

    /// The object has deleted everything, in a transaction that may be rolled back.
    fn deleted(&self) {
        self.0.cut_off.set(true);
        self.wake();
    }

    /// The alarm.
    pub fn alarm(&self) -> &WakeUp {
        &self.0.alarm
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> i64 {
        self.0.ctx.now().unix_millis()
    }

    /// Sets the alarm that continues the work if the task does not, this far ahead unless it is set earlier.
    pub fn guard(&self, recovery: Duration) -> Result<()> {
        let at = self.now().saturating_add(millis(recovery));
        self.0.alarm.not_later_than(at)
    }

    /// True while a task runs.
    pub fn is_running(&self) -> bool {
        self.0.running.get()
    }

    /// Wakes the task, if one runs.
    pub fn wake(&self) {
        if self.is_running() {
            self.0.news.notify_one();
        }
    }

    /// Wakes the task; starts one with this work if none runs. It begins when the current poll has committed.
    pub fn kick<W: Work>(&self, work: impl FnOnce() -> W) {
        if self.is_dormant() {
            return;
        }
        let Some(right) = self.claim() else {
            self.wake();
            return;
        };
        let task = Task {
            right,
            work: work(),
            flights: FuturesUnordered::new(),
            landed: Vec::new(),
        };
        if let Err(error) = task.spawn() {
            let (class, object) = (self.0.ctx.class(), self.0.ctx.id());
            tracing::warn!(%error, class, %object, "background work cannot start and waits for the alarm");
        }
    }

    /// It starts anew when it is activated.
    fn is_dormant(&self) -> bool {
        self.0.ctx.is_dormant()
    }

    /// Takes the exclusive right to do the worker's work outside a task; `None` if it is taken. When it is dropped,
    /// the next task recovers.
    pub fn claim(&self) -> Option<Right> {
        let is_taken = self.0.running.replace(true);
        (!is_taken).then(|| Right {
            worker: self.clone(),
            is_at_rest: false,
        })
    }

    /// True if claims are void: attempts were dropped, or the object has deleted everything, and [`Work::recover`] was not
    /// called since. A turn that finds this after it has called the program's code writes nothing more.
    pub fn is_cut_off(&self) -> bool {
        self.0.cut_off.get()
    }

    /// True if the worker was kicked since the last turn.
    fn has_news(&self) -> bool {
        self.0.news.notified().now_or_never().is_some()
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("ctx", &self.0.ctx)
            .field("running", &self.0.running)
            .finish_non_exhaustive()
    }
}

/// The exclusive right to do a worker's work.
#[derive(Debug)]
pub struct Right {
    worker: Worker,
    /// True if nothing is in flight.
    is_at_rest: bool,
}

impl Right {
    /// True if what was claimed is now to be settled: see [`Worker::is_cut_off`].
    pub fn recovers(&self) -> bool {
        self.worker.0.cut_off.take()
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        let shared = &self.worker.0;
        if !self.is_at_rest {
            shared.cut_off.set(true);
        }
        shared.running.set(false);
    }
}

/// Why a task ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskEnd {
    /// Nothing is in flight or due soon.
    Rest,
    /// Something is, and another task continues with it.
    HandOver,
    /// The component has no tables any more.
    Gone,
}

struct Task<W: Work> {
    right: Right,
    work: W,
    flights: FuturesUnordered<OwnWaits<Attempt<W::Landed>>>,
    /// Results that are not written yet.
    landed: Vec<W::Landed>,
}

impl<W: Work> Task<W> {
    fn spawn(self) -> Result<()> {
        let ctx = self.right.worker.0.ctx.clone();
        ctx.spawn(self.run())
    }

    async fn run(mut self) {
        let end = self.make_turns().await;
        let (class, object) = {
            let ctx = &self.right.worker.0.ctx;
            (ctx.class().to_owned(), ctx.id())
        };
        match end {
            Ok(TaskEnd::Rest) => self.right.is_at_rest = true,
            Ok(TaskEnd::Gone) => {}
            Ok(TaskEnd::HandOver) => {
                if let Err(error) = self.spawn() {
                    tracing::warn!(%error, class, %object, "background work cannot continue and waits for the alarm");
                }
            }
            Err(error) => {
                tracing::error!(%error, class, %object, "background work pauses until the alarm");
            }
        }
    }

    async fn make_turns(&mut self) -> Result<TaskEnd> {
        let worker = self.right.worker.clone();
        let env = worker.0.ctx.env();
        let clock = Arc::clone(env.clock());
        let end = clock.now() + TASK_LIFE;
        loop {
            // A turn looks at everything.
            worker.has_news();
            if !self.work.has_tables()? {
                worker.alarm().set(None)?;
                return Ok(TaskEnd::Gone);
            }
            let now = worker.now();
            if self.right.recovers() {
                self.flights.clear();
                self.landed.clear();
                self.work.recover(now)?;
            }
            let may = match (env.is_stopping(), clock.now() >= end) {
                (true, _) => May::Finish,
                (false, true) => May::HandOver,
                (false, false) => May::Claim,
            };
            let (next, has_failed) = match self.turn(now, may) {
                Ok(next) => (next, false),
                Err(error) if self.can_try_again(may) => {
                    let (class, object) = (worker.0.ctx.class(), worker.0.ctx.id());
                    tracing::error!(%error, class, %object, "background work could not be recorded: it is tried again");
                    let again = now.saturating_add(millis(SOON));
                    (Next::at(Some(again)), true)
                }
                Err(error) => return Err(error),
            };
            if worker.is_cut_off() {
                // The turn itself has deleted everything. The next one is another transaction.
                tokio::task::yield_now().await;
                continue;
            }
            if may == May::HandOver {
                return Ok(TaskEnd::HandOver);
            }
            self.flights
                .extend(next.attempts.into_iter().map(own_waits));
            if !next.claims.is_empty() && self.launch(next.claims, now, may).await? {
                continue;
            }
            let latest = now.saturating_add(millis(W::SOON));
            let soon = next.wake.filter(|at| has_failed || *at <= latest);
            if self.flights.is_empty() && !next.is_busy {
                if may == May::Finish {
                    if next.wake.is_some() {
                        worker.alarm().set(next.wake)?;
                    }
                    return Ok(TaskEnd::Rest);
                }
                if soon.is_none() {
                    if self.rest(next.wake).await? {
                        return Ok(TaskEnd::Rest);
                    }
                    continue;
                }
            }
            self.work.before(Pause::Wait).await?;
            if soon.is_some_and(|at| at <= now) {
                tokio::task::yield_now().await;
            } else {
                let late = waits::until(&*clock, next.wake);
                tokio::select! {
                    biased;
                    first = self.flights.next(), if !self.flights.is_empty() => self.landed.extend(first),
                    news = self.work.news() => news?,
                    () = worker.0.news.notified() => {}
                    () = late => {}
                }
            }
            self.landed.extend(waits::landed(&mut self.flights));
            self.arrived();
        }
    }

    /// Makes a turn. An error leaves the results that are not written.
    fn turn(&mut self, now: i64, may: May) -> Result<Next<W::Claim, W::Landed>> {
        let turn = Turn {
            now,
            in_flight: self.flights.len(),
            may,
        };
        self.work.turn(&mut self.landed, turn)
    }

    /// A task without anything to keep leaves the next attempt to the alarm, as does a stopping node.
    fn can_try_again(&self, may: May) -> bool {
        !self.flights.is_empty() || !self.landed.is_empty() && may != May::Finish
    }

    /// Sets the alarm. True if the task may end; false if there is news.
    async fn rest(&mut self, wake: Option<i64>) -> Result<bool> {
        let worker = self.right.worker.clone();
        // In one commit with the turn's writes.
        worker.alarm().set(wake)?;
        self.work.before(Pause::Rest).await?;
        Ok(!worker.has_news())
    }

    /// Begins what a turn claimed, when the claims are durable. True if attempts have finished meanwhile, or everything was
    /// deleted.
    async fn launch(&mut self, claims: Vec<W::Claim>, now: i64, may: May) -> Result<bool> {
        let worker = self.right.worker.clone();
        let mut synced = pin!(worker.0.ctx.storage().sync());
        let mut have_arrived = false;
        let durable = loop {
            tokio::select! {
                biased;
                durable = &mut synced => break durable,
                first = self.flights.next(), if !self.flights.is_empty() => {
                    self.landed.extend(first);
                    self.arrived();
                    have_arrived = true;
                }
            }
        };
        if worker.is_cut_off() {
            return Ok(true);
        }
        let turn = Turn {
            now,
            in_flight: self.flights.len(),
            may,
        };
        let begun = self.work.begin(claims, durable, &mut self.landed, turn)?;
        self.flights.extend(begun.into_iter().map(own_waits));
        Ok(have_arrived)
    }

    /// Gives the work the results that have arrived in this poll. Those that it cannot write are kept for the next turn.
    fn arrived(&mut self) {
        let worker = &self.right.worker;
        if worker.is_cut_off() {
            self.landed.clear();
        }
        if self.landed.is_empty() {
            return;
        }
        if let Err(error) = self.work.arrived(&mut self.landed, worker.now()) {
            let (class, object) = (worker.0.ctx.class(), worker.0.ctx.id());
            tracing::error!(%error, class, %object, "the result of background work could not be recorded: it is tried again");
        }
    }
}
