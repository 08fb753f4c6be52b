//! The object's alarm, or a background task, claims due occurrences and passes them to the object's handler.
//!
//! Contract: an attempt is on disk before its handler is called, so one that crashes the object or the process is
//! counted, and cannot do so for ever. At most one of the two claims at a time. Whatever it has claimed and did not
//! start is released by the next.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    rc::Rc,
    sync::Arc,
};

use abide::Result;
use abide::clock::{OwnWaits, own_waits};
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};

use super::{
    Failure, Firing,
    inner::Inner,
    limits, metrics,
    runs::{Claim, Taken},
};
use crate::broken::{Variant, broken};
use abide_component::numbers::millis;
use abide_component::texts::Panicked;
use abide_component::waits;

/// An attempt in the background.
type Flight = LocalBoxFuture<'static, (Claim, Result<(), Failure>)>;

impl Inner {
    /// Handles due occurrences, one at a time.
    pub(super) async fn see_to<E: Into<Failure>>(
        self: &Rc<Self>,
        handler: impl Fn(&Firing) -> Result<(), E>,
    ) -> Result<()> {
        let Some(turn) = Turn::begin(self) else {
            return Ok(());
        };
        let clock = Arc::clone(self.state.env().clock());
        let end = clock.now() + limits::TURN;
        // If the object is reset, this replaces a retry of the alarm: the other timers wait only this long, however often it
        // happens.
        let again = self.now().saturating_add(millis(limits::AFTER_RESET));
        self.alarm.set(Some(again))?;
        self.recover(self.now())?;
        while clock.now() < end && !self.state.env().is_stopping() {
            let claims = self.pass(Taken::Claimed, limits::MAX_CLAIMS, 0, self.now())?;
            if claims.is_empty() {
                break;
            }
            self.rows.storage.sync().await?;
            for (index, claim) in claims.iter().enumerate() {
                if self.attempt(claim, &handler)? == Attempted::Panicked {
                    // The object's memory may be in any state. What was written stays.
                    self.give_back_the_rest(&claims[index + 1..], self.now())?;
                    drop(turn);
                    self.arm_next()?;
                    self.state.restart();
                    return Ok(());
                }
                // One poll each: a handler that ends the process does not take the work of others with it.
                tokio::task::yield_now().await;
            }
        }
        drop(turn);
        self.arm_next()
    }

    /// Calls a handler, in one transaction with its result.
    fn attempt<E: Into<Failure>>(
        &self,
        claim: &Claim,
        handler: impl Fn(&Firing) -> Result<(), E>,
    ) -> Result<Attempted> {
        let now = self.now();
        let storage = &self.rows.storage;
        self.mind_clock(now)?;
        let Some(firing) = self.firing(claim, now)? else {
            return Ok(Attempted::Ended);
        };
        let mut attempted = Attempted::Ended;
        let mut goes_off = || {
            match catch_unwind(AssertUnwindSafe(|| handler(&firing))) {
                Ok(ended) => ended.map_err(Into::into)?,
                Err(panic) => {
                    attempted = Attempted::Panicked;
                    return Err(panicked(&*panic));
                }
            }
            self.done(claim, now)?;
            Ok::<(), Failure>(())
        };
        let done = if broken(Variant::FailureKept) {
            goes_off()
        } else {
            storage.transaction_sync(goes_off)
        };
        if let Err(failure) = done {
            storage.transaction_sync(|| self.failed(claim, &failure, now))?;
        }
        Ok(attempted)
    }

    /// Starts a background task for due occurrences, unless one runs, and sets the alarm in case it stops.
    pub(super) fn see_to_in_background<F, E>(
        self: &Rc<Self>,
        handler: impl Fn(Firing) -> F + 'static,
    ) -> Result<()>
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Into<Failure>,
    {
        if let Some(turn) = Turn::begin(self) {
            let task = Task {
                inner: Rc::clone(self),
                flights: FuturesUnordered::new(),
                _turn: turn,
            };
            let handler = Rc::new(handler);
            let handler = move |firing| {
                let handler = Rc::clone(&handler);
                caught(async move { handler(firing).await.map_err(Into::into) })
            };
            self.state.wait_until(task.run(handler))?;
        }
        self.arm()
    }
}

/// How an attempt in the alarm has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempted {
    Ended,
    Panicked,
}

/// The failure of an attempt that has panicked.
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let Panicked { text, shown } = Panicked::new("the handler", panic);
    tracing::error!(%text, error = shown, "the handler of a timer panicked");
    Failure::again(shown)
}

/// A background handler that panics has failed its attempt. It does not reset the object, because that would interrupt
/// all others in flight.
fn caught(
    attempt: impl Future<Output = Result<(), Failure>> + 'static,
) -> LocalBoxFuture<'static, Result<(), Failure>> {
    let attempt = AssertUnwindSafe(attempt).catch_unwind();
    let attempt = attempt.map(|ended| ended.unwrap_or_else(|panic| Err(panicked(&*panic))));
    attempt.boxed_local()
}

/// The background task.
struct Task {
    inner: Rc<Inner>,
    flights: FuturesUnordered<OwnWaits<Flight>>,
    _turn: Turn,
}

impl Task {
    async fn run(
        mut self,
        handler: impl Fn(Firing) -> LocalBoxFuture<'static, Result<(), Failure>>,
    ) {
        if let Err(error) = self.work(handler).await {
            tracing::error!(%error, "the schedule pauses until its alarm");
        }
    }

    async fn work(
        &mut self,
        handler: impl Fn(Firing) -> LocalBoxFuture<'static, Result<(), Failure>>,
    ) -> Result<()> {
        let inner = Rc::clone(&self.inner);
        let env = inner.state.env();
        let clock = Arc::clone(env.clock());
        let end = clock.now() + limits::TURN;
        inner.recover(inner.now())?;
        loop {
            let now = inner.now();
            let open = clock.now() < end && !env.is_stopping();
            let free = inner.options.concurrency - self.flights.len();
            if open && free > 0 {
                let limit = free.min(limits::MAX_CLAIMS);
                let claims = inner.pass(Taken::Running, limit, self.flights.len(), now)?;
                if !claims.is_empty() {
                    self.synced().await?;
                    for claim in claims {
                        self.launch(claim, &handler)?;
                    }
                    continue;
                }
            }
            // While something that may end the process is in flight, or is to be, nothing else begins.
            let stopped = inner.suspects.get().stop_others() && !self.flights.is_empty();
            let next = inner
                .rows
                .next()?
                .0
                .filter(|_| open && free > 0 && !stopped);
            let next = next.map(|at| inner.look_at(at, now));
            let soon = next.filter(|at| *at <= now.saturating_add(millis(limits::SHORT_WAIT)));
            if self.flights.is_empty() && (!open || soon.is_none()) {
                return inner.arm_next();
            }
            // While something is in flight, only this task handles due occurrences.
            let wait = waits::until(&*clock, next, now);
            tokio::select! {
                biased;
                landed = self.flights.next(), if !self.flights.is_empty() => self.settle(landed)?,
                () = inner.news.notified(), if open => {}
                () = wait => {}
            }
        }
    }

    /// Waits until the claims are on disk.
    async fn synced(&mut self) -> Result<()> {
        let inner = Rc::clone(&self.inner);
        let mut synced = pin!(inner.rows.storage.sync());
        loop {
            tokio::select! {
                biased;
                durable = &mut synced => return durable,
                landed = self.flights.next(), if !self.flights.is_empty() => self.settle(landed)?,
            }
        }
    }

    fn launch(
        &self,
        claim: Claim,
        handler: impl Fn(Firing) -> LocalBoxFuture<'static, Result<(), Failure>>,
    ) -> Result<()> {
        let Some(firing) = self.inner.firing(&claim, self.inner.now())? else {
            return Ok(());
        };
        let limit = self.inner.options.timeout;
        let clock = self.inner.state.env().clock();
        let late = abide::clock::time_limit(&**clock, limit);
        let attempt = handler(firing);
        let running = metrics::Running::begin();
        let flight = async move {
            let _running = running;
            let ended = tokio::select! {
                biased;
                ended = attempt => ended,
                () = late => Err(Failure::again(format!("it did not finish within {} s", limit.as_secs_f64()))),
            };
            (claim, ended)
        };
        self.flights.push(own_waits(flight.boxed_local()));
        Ok(())
    }

    /// Writes the result of an attempt: in the poll in which its handler finished, and therefore in one transaction
    /// with its last writes.
    fn settle(&self, landed: Option<(Claim, Result<(), Failure>)>) -> Result<()> {
        let Some((claim, ended)) = landed else {
            return Ok(());
        };
        let inner = &self.inner;
        let now = inner.now();
        inner.mind_clock(now)?;
        if claim.alone {
            inner.suspects.set(inner.suspects.get().end(now));
        }
        inner.rows.storage.transaction_sync(|| match ended {
            Ok(()) => inner.done(&claim, now),
            Err(failure) => inner.failed(&claim, &failure, now),
        })
    }
}

/// The exclusive right to claim occurrences.
struct Turn(Rc<Inner>);

impl Turn {
    /// `None` if it is taken.
    fn begin(inner: &Rc<Inner>) -> Option<Self> {
        (!inner.running.replace(true)).then(|| Self(Rc::clone(inner)))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.running.set(false);
    }
}
