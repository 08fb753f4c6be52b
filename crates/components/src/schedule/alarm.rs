//! The object's alarm, or a [worker](abide_component::worker) in the background, claims due occurrences and passes them
//! to the object's handler.
//!
//! Contract: an attempt is on disk before its handler is called, so one that crashes the object or the process is
//! counted, and cannot do so forever. At most one of the two claims at a time. Claimed occurrences that did not start
//! are released by the next.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
};

use abide::Result;
use futures_util::{FutureExt, future::LocalBoxFuture};

use super::{
    Failure, Firing,
    inner::Inner,
    limits, metrics,
    runs::{Claim, Taken},
};
use abide_component::numbers::millis;
use abide_component::texts::Panicked;
use abide_component::worker::{self, Attempt, May, Next, Turn, Work};

/// An attempt in the background that has ended.
type Ended = (Claim, Result<(), Failure>);

/// The object's handler.
type Handler = Rc<dyn Fn(Firing) -> LocalBoxFuture<'static, Result<(), Failure>>>;

impl Inner {
    /// Handles due occurrences, one at a time.
    pub(super) async fn see_to<E: Into<Failure>>(
        self: &Rc<Self>,
        handler: impl Fn(&Firing) -> Result<(), E>,
    ) -> Result<()> {
        let Some(right) = self.worker.claim() else {
            return Ok(());
        };
        let clock = Arc::clone(self.ctx.env().clock());
        let end = clock.now() + limits::TURN;
        // If the object is reset, this replaces a retry of the alarm: the other timers wait only this long, however often it
        // happens.
        let again = self.now().saturating_add(millis(limits::AFTER_RESET));
        self.worker.alarm().set(Some(again))?;
        while clock.now() < end && !self.ctx.env().is_stopping() && self.rows.sql.are_there()? {
            if right.recovers() {
                self.recover(self.now())?;
            }
            let claims = self.pass(Taken::Claimed, limits::MAX_CLAIMS, 0, self.now())?;
            if claims.is_empty() {
                break;
            }
            self.rows.storage.sync().await?;
            for (index, claim) in claims.iter().enumerate() {
                if self.worker.is_cut_off() {
                    break;
                }
                if self.attempt(claim, &handler)? == Attempted::Panicked {
                    // The object's memory may be in any state. What was written stays.
                    self.give_back_the_rest(&claims[index + 1..], self.now())?;
                    drop(right);
                    self.arm_next()?;
                    self.ctx.restart();
                    return Ok(());
                }
                // One poll each: a handler that ends the process does not take the work of others with it.
                tokio::task::yield_now().await;
            }
        }
        drop(right);
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
        let goes_off = || {
            match catch_unwind(AssertUnwindSafe(|| handler(&firing))) {
                Ok(ended) => ended.map_err(Into::into)?,
                Err(panic) => {
                    attempted = Attempted::Panicked;
                    return Err(panicked(&*panic));
                }
            }
            if !self.worker.is_cut_off() {
                self.done(claim, now)?;
            }
            Ok::<(), Failure>(())
        };
        if let Err(failure) = storage.transaction(goes_off) {
            storage.transaction(|| self.failed(claim, &failure, now))?;
        }
        Ok(attempted)
    }

    /// Passes due occurrences to a handler in the background.
    pub(super) fn see_to_in_background<F, E>(
        self: &Rc<Self>,
        handler: impl Fn(Firing) -> F + 'static,
    ) -> Result<()>
    where
        F: Future<Output = Result<(), E>> + 'static,
        E: Into<Failure>,
    {
        self.worker.guard(limits::AGAIN)?;
        let handler = Rc::new(handler);
        self.worker.kick(|| Background {
            inner: Rc::clone(self),
            handler: Rc::new(move |firing| {
                let handler = Rc::clone(&handler);
                caught(async move { handler(firing).await.map_err(Into::into) })
            }),
        });
        Ok(())
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
    Failure::temporary(shown)
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

/// What a task of a schedule does.
struct Background {
    inner: Rc<Inner>,
    handler: Handler,
}

impl Work for Background {
    type Claim = Claim;
    type Landed = Ended;

    fn has_tables(&self) -> Result<bool> {
        self.inner.rows.sql.are_there()
    }

    fn recover(&mut self, now: i64) -> Result<()> {
        self.inner.recover(now)
    }

    /// Writes the results of attempts: in the poll in which their handlers finished, and therefore in one transaction
    /// with their last writes.
    fn arrived(&mut self, landed: &mut Vec<Ended>, now: i64) -> Result<()> {
        worker::write_each(landed, |(claim, ended)| {
            self.inner.settle(claim, ended, now)
        })
    }

    fn turn(&mut self, landed: &mut Vec<Ended>, turn: Turn) -> Result<Next<Claim, Ended>> {
        self.arrived(landed, turn.now)?;
        let (inner, now) = (&self.inner, turn.now);
        let free = inner.options.concurrency.saturating_sub(turn.in_flight);
        if turn.may == May::Claim && free > 0 {
            let limit = free.min(limits::MAX_CLAIMS);
            let claims = inner.pass(Taken::Running, limit, turn.in_flight, now)?;
            if !claims.is_empty() {
                // There may be more.
                let mut next = Next::at(Some(now));
                next.claims = claims;
                return Ok(next);
            }
        }
        let looks = match turn.may {
            // While something that may end the process is in flight, or is to be, nothing else begins.
            May::Claim if turn.in_flight > 0 => free > 0 && !inner.suspects.stop_others(),
            May::Claim => true,
            May::Finish => turn.in_flight == 0,
            May::HandOver => false,
        };
        let at = inner.rows.next()?.0.filter(|_| looks);
        Ok(Next::at(at.map(|at| inner.look_at(at, now))))
    }

    fn begin(
        &mut self,
        claims: Vec<Claim>,
        durable: Result<()>,
        _landed: &mut Vec<Ended>,
        _turn: Turn,
    ) -> Result<Vec<Attempt<Ended>>> {
        durable?;
        let mut attempts = Vec::with_capacity(claims.len());
        for claim in claims {
            attempts.extend(self.attempt(claim)?);
        }
        Ok(attempts)
    }
}

impl Background {
    fn attempt(&self, claim: Claim) -> Result<Option<Attempt<Ended>>> {
        let Some(firing) = self.inner.firing(&claim, self.inner.now())? else {
            return Ok(None);
        };
        let limit = self.inner.options.timeout;
        let clock = self.inner.ctx.env().clock();
        let late = abide::clock::time_limit(&**clock, limit);
        let attempt = (self.handler)(firing);
        let running = metrics::Running::begin();
        Ok(Some(Box::pin(async move {
            let _running = running;
            let ended = tokio::select! {
                biased;
                ended = attempt => ended,
                () = late => Err(Failure::temporary(format!("it did not finish within {} s", limit.as_secs_f64()))),
            };
            (claim, ended)
        })))
    }
}

impl Inner {
    fn settle(&self, claim: &Claim, ended: &Result<(), Failure>, now: i64) -> Result<()> {
        self.mind_clock(now)?;
        self.rows.storage.transaction(|| match ended {
            Ok(()) => self.done(claim, now),
            Err(failure) => self.failed(claim, failure, now),
        })?;
        if claim.alone {
            self.suspects.end(now);
        }
        Ok(())
    }
}
