//! The work of an outbox: it makes passes, runs attempts, and writes their results. A [worker](abide_component::worker)
//! does it in the background.
//!
//! A handler is called when its attempt is durable. Whatever it does (panic, hang), it ends within its timeout with a
//! result.
//!
//! One turn is one transaction: it writes the results and claims what is due. The next turn begins when that is
//! durable, with all results that have arrived meanwhile: the faster the receivers and the slower the disk, the more is
//! written at a time, and what is sent need not wait for anything written after it.
//!
//! # Crashes
//!
//! | The process crashes | On disk | The message |
//! |---|---|---|
//! | before a turn is durable | the message waits | is attempted normally: its handler was not called |
//! | between that and the end of its attempt | it is `sending`, with one attempt more | is `unknown`, and retried |
//! | after its end, before the next turn is durable | the same | the same: an effect may be repeated, under the same
//! key |
//! | after that | its result | is done, or retried when due |
//!
//! The counts of a turn, and what it learns about destinations, are written in its transaction or, where `destinations`
//! says so, may be older than memory; they are then still valid after a crash.

use std::{future::pending, rc::Rc, sync::Arc, time::Duration};

use abide::Result;
use futures_util::{FutureExt, future::Abortable};

use super::{
    Delivery, Failure,
    claim::Claim,
    flights::Flights,
    inner::Inner,
    limits,
    outcome::Outcome,
    overload::Overload,
    passes::Taken,
    registry::{Attempt, Handler},
};
use abide_component::numbers::millis;
use abide_component::waits;
use abide_component::worker::{self, May, Next, Pause, Turn, Work};

/// An attempt or a poll in flight.
type Flight = worker::Attempt<Landed>;

/// One that has finished.
type Landed = (Claim, Outcome);

impl Inner {
    /// Wakes the worker.
    pub(super) fn kick(self: &Rc<Self>) {
        self.worker.kick(|| Pump {
            inner: Rc::clone(self),
            unreported: 0,
        });
    }

    /// Reports changed rows to the listeners. True if there are more.
    fn tell_changes(&self) -> Result<bool> {
        let changes = &self.rows.changes;
        if !changes.are_there() {
            return Ok(false);
        }
        let (mut records, mut gone) = (Vec::new(), Vec::new());
        for id in changes.take(limits::MAX_PAGE) {
            match self.rows.record(id)? {
                Some(record) => records.push(record),
                // It was removed, or rolled back with its transaction.
                None => gone.push(id),
            }
        }
        changes.tell(&records, &gone);
        Ok(changes.are_there())
    }

    /// Makes a turn: writes results and, if requested, claims what is due.
    ///
    /// All of it is one transaction. If it fails, it is repeated with each result in its own transaction, so an error
    /// of one does not affect the others; results that cannot be written are kept for the next turn. An error means
    /// that nothing could be written.
    fn turn(&self, mut landed: Vec<Landed>, passes: bool, now: i64) -> Result<Taken> {
        let freed = self.arrive(&landed, now);
        landed.append(&mut self.unwritten.borrow_mut());
        let mut taken = Taken::default();
        let turn = |how: How, taken: &mut Taken| {
            self.unless_undone(taken, |taken| {
                self.rows.turn(|| {
                    self.rows.unpark(&freed, now)?;
                    let unwritten = self.write(&landed, how, now)?;
                    // A callback may have deleted everything: what has come since waits for the next turn.
                    let passes = passes && !self.worker.is_cut_off();
                    if passes && let Err(error) = self.try_pass(taken, how, now) {
                        if how == How::Together {
                            return Err(error);
                        }
                        tracing::error!(%error, "the outbox could not claim what is due: it tries again");
                        taken.wake = Some(now.saturating_add(millis(worker::SOON)));
                    }
                    Ok(unwritten)
                })
            })
        };
        let unwritten =
            turn(How::Together, &mut taken).or_else(|_| turn(How::EachByItself, &mut taken));
        match unwritten {
            Ok(unwritten) => {
                let kept = unwritten.into_iter().map(|place| landed[place].clone());
                self.unwritten.borrow_mut().extend(kept);
                Ok(taken)
            }
            Err(error) => {
                *self.unwritten.borrow_mut() = landed;
                Err(error)
            }
        }
    }

    fn try_pass(&self, taken: &mut Taken, how: How, now: i64) -> Result<()> {
        match how {
            How::Together => self.pass(taken, now),
            How::EachByItself => self.unless_undone(taken, |taken| {
                self.rows.transaction(|| self.pass(taken, now))
            }),
        }
    }

    /// Runs a function that claims messages. If it fails, nothing was claimed.
    fn unless_undone<T>(
        &self,
        taken: &mut Taken,
        f: impl FnOnce(&mut Taken) -> Result<T>,
    ) -> Result<T> {
        let result = f(taken);
        if result.is_err() {
            let undone = std::mem::take(taken);
            let mut flights = self.flights.borrow_mut();
            flights.retract(&undone.sends, &undone.polls);
        }
        result
    }

    /// Removes finished attempts from those in flight. Returns the destinations for which there may be room now.
    fn arrive(&self, landed: &[Landed], now: i64) -> Vec<String> {
        let mut freed = Vec::new();
        let mut flights = self.flights.borrow_mut();
        for (claim, outcome) in landed {
            freed.append(&mut flights.end(claim, outcome));
            if claim.alone {
                self.suspects.end(now);
            }
            if outcome.could_not_leave() {
                self.overload.set(self.overload.get().refused(now));
            } else if self.overload.get().is_probed() && !outcome.was_cut_off() {
                self.overload.set(Overload::default());
            }
            if let Some(answered) = outcome.is_answer() {
                flights.heard(claim.origin(), answered);
            }
        }
        freed
    }

    /// Writes results, each completely or not at all. Returns the positions of those that could not be written.
    fn write(&self, ended: &[Landed], how: How, now: i64) -> Result<Vec<usize>> {
        self.mind_clock(now)?;
        let mut unwritten = Vec::new();
        match how {
            How::Together => {
                let simple = ended.iter().filter(|(_, outcome)| outcome.is_delivery());
                let delivered: Vec<&Claim> = simple.map(|(claim, _)| claim).collect();
                if !delivered.is_empty() {
                    self.delivered(&delivered, now)?;
                }
                for (claim, outcome) in ended.iter().filter(|(_, outcome)| !outcome.is_delivery()) {
                    self.settle(claim, outcome.clone(), now)?;
                }
            }
            How::EachByItself => {
                for (place, (claim, outcome)) in ended.iter().enumerate() {
                    let settle = || self.settle(claim, outcome.clone(), now);
                    if let Err(error) = self.rows.transaction(settle) {
                        tracing::error!(message = claim.id, %error, "the result of an attempt could not be written: the write is retried");
                        unwritten.push(place);
                    }
                }
            }
        }
        Ok(unwritten)
    }

    /// Interrupts the attempts of messages that were ended meanwhile, and discards their results.
    fn interrupt_ended(&self, landed: &mut [Landed]) -> Result<()> {
        let ended = std::mem::take(&mut *self.ended.borrow_mut());
        for id in ended {
            if self.rows.is_in_flight(id)? {
                // The transaction that ended it was rolled back.
                continue;
            }
            self.flights.borrow_mut().interrupt(id);
            self.unwritten
                .borrow_mut()
                .retain(|(claim, _)| claim.id != id);
            for (_, outcome) in landed.iter_mut().filter(|(claim, _)| claim.id == id) {
                *outcome = Outcome::Interrupted;
            }
        }
        Ok(())
    }

    /// Nothing is in flight.
    fn forget_flights(&self) {
        *self.flights.borrow_mut() = Flights::default();
        self.unwritten.borrow_mut().clear();
        self.ended.borrow_mut().clear();
    }

    /// Settles attempts in flight without a task as unknown: their task, object or process has stopped.
    pub(super) fn recover(&self, now: i64) -> Result<()> {
        self.forget_flights();
        let claims = self.rows.on_their_way()?;
        if !claims.is_empty() {
            self.rows.unpark_all(now)?;
        }
        let landed = claims.into_iter().map(|claim| {
            let outcome = Outcome::failed(&claim, Failure::cut_off());
            (claim, outcome)
        });
        self.turn(landed.collect(), false, now).map(drop)
    }

    /// Starts what was claimed; `durable` says when the claim is on disk.
    fn fly(self: &Rc<Self>, mut claim: Claim, durable: &Result<()>, now: i64) -> Flight {
        let payload = match (durable, claim.payload.take()) {
            (Err(error), _) => Err(error.clone()),
            (Ok(()), Some(payload)) => Ok(Some(payload)),
            (Ok(()), None) => self.rows.payload(claim.id),
        };
        let handler = match self.registry.handler(&claim.kind) {
            Ok(handler) => Arc::clone(handler),
            Err(error) => {
                let failure = Failure::permanent(error.message().to_owned());
                let outcome = Outcome::failed(&claim, failure);
                return std::future::ready((claim, outcome)).boxed_local();
            }
        };
        let delivery = Delivery {
            env: self.ctx.env().clone(),
            object: self.ctx.id(),
            id: claim.id,
            kind: claim.kind.clone(),
            // All attempts of a message have its key.
            idempotency_key: claim.idempotency_key.clone(),
            attempt: claim.attempts,
            unknown: claim.unknown,
            created_at: claim.created_at,
            first_attempt_at: claim.first_attempt_at.unwrap_or(now),
            now,
        };
        let limit = self.time_limit(&*handler, &claim, now);
        let interrupt = self.flights.borrow_mut().start(claim.id);
        let inner = Rc::clone(self);
        async move {
            let attempt = async {
                match payload {
                    Ok(Some(payload)) => {
                        let clock = inner.ctx.env().clock();
                        let late = abide::clock::time_limit(&**clock, limit);
                        match &claim.operation {
                            None => {
                                let attempt = handler.submit(delivery, payload);
                                Outcome::Submitted(within(limit, late, attempt).await)
                            }
                            Some(operation) => {
                                let poll = handler.poll(delivery, payload, operation.clone());
                                Outcome::Polled(within(limit, late, poll).await)
                            }
                        }
                    }
                    Ok(None) => Outcome::failed(&claim, Failure::permanent("its payload is gone")),
                    Err(error) => {
                        Outcome::failed(&claim, Failure::not_sent(error.message().to_owned()))
                    }
                }
            };
            let outcome = match interrupt {
                Some(interrupt) => Abortable::new(attempt, interrupt)
                    .await
                    .unwrap_or(Outcome::Interrupted),
                None => attempt.await,
            };
            (claim, outcome)
        }
        .boxed_local()
    }

    /// How long an attempt or a poll may take. A poll ends at its message's deadline; the response of an attempt is
    /// awaited, because it says whether the message was delivered.
    fn time_limit(&self, handler: &dyn Handler, claim: &Claim, now: i64) -> Duration {
        let limit = handler.timeout().unwrap_or(self.rows.options.timeout);
        let limit = limit.min(limits::MAX_TIMEOUT);
        match claim.deadline.filter(|_| claim.operation.is_some()) {
            Some(deadline) => {
                let left = u64::try_from(deadline.saturating_sub(now)).unwrap_or(0);
                limit.min(Duration::from_millis(left))
            }
            None => limit,
        }
    }
}

/// An attempt's result, or a timeout.
async fn within<T>(
    limit: Duration,
    late: abide::clock::Sleep,
    attempt: Attempt<T>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        outcome = attempt => outcome,
        () = late => Err(Failure::temporary(format!("no response within {} s", limit.as_secs_f64()))),
    }
}

/// How a turn writes results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// All deliveries in one statement; a write error rolls the turn back.
    Together,
    EachByItself,
}

/// What a task of an outbox does.
struct Pump {
    inner: Rc<Inner>,
    /// Events that are reported when the last turn is durable.
    unreported: usize,
}

impl Work for Pump {
    type Claim = Claim;
    type Landed = Landed;

    fn has_tables(&self) -> Result<bool> {
        self.inner.rows.sql.has_tables()
    }

    fn recover(&mut self, now: i64) -> Result<()> {
        self.inner.recover(now)
    }

    fn turn(&mut self, landed: &mut Vec<Landed>, turn: Turn) -> Result<Next<Claim, Landed>> {
        let (inner, now) = (&self.inner, turn.now);
        inner.interrupt_ended(landed)?;
        let turned = inner.turn(std::mem::take(landed), turn.may == May::Claim, now);
        let are_unwritten = !inner.unwritten.borrow().is_empty();
        let taken = match turned {
            Ok(taken) => taken,
            Err(error) if are_unwritten && turn.may != May::Finish => {
                tracing::error!(%error, "the outbox could write nothing: it tries again");
                Taken::default()
            }
            Err(error) => return Err(error),
        };
        if turn.may != May::Claim || inner.worker.is_cut_off() {
            return Ok(Next::at(None));
        }
        let again = are_unwritten.then(|| now.saturating_add(millis(worker::SOON)));
        let mut next = Next::at(taken.wake.into_iter().chain(again).min());
        next.claims = taken.polls.into_iter().chain(taken.sends).collect();
        inner.show_changes(now)?;
        if inner.tell_changes()? {
            next.wake = Some(now);
        }
        self.unreported = inner.rows.notes.len();
        Ok(next)
    }

    fn begin(
        &mut self,
        claims: Vec<Claim>,
        durable: Result<()>,
        landed: &mut Vec<Landed>,
        turn: Turn,
    ) -> Result<Vec<Flight>> {
        let inner = &self.inner;
        if durable.is_ok() {
            inner.tell_durable(self.unreported);
        }
        // What was ended meanwhile does not start.
        inner.interrupt_ended(landed)?;
        let fly = |claim| inner.fly(claim, &durable, turn.now);
        Ok(claims.into_iter().map(fly).collect())
    }

    /// Reports what has happened, and shows what has changed.
    async fn news(&mut self) -> Result<()> {
        let (inner, now) = (&self.inner, self.inner.now());
        let show_at = inner.show_changes(now)?;
        let show = waits::until(&**inner.ctx.env().clock(), show_at);
        let tell = async {
            match inner.rows.notes.len() {
                0 => pending().await,
                _ => inner.tell().await,
            }
        };
        tokio::select! {
            biased;
            () = show => Ok(()),
            told = tell => told,
        }
    }

    async fn before(&mut self, pause: Pause) -> Result<()> {
        let (inner, untold) = (&self.inner, self.inner.rows.notes.len());
        match pause {
            Pause::Wait if untold > limits::MAX_NOTES => inner.tell().await,
            Pause::Wait => Ok(()),
            Pause::Rest => {
                if untold > 0 {
                    inner.tell().await?;
                }
                if inner.rows.changes.are_there() {
                    inner.worker.wake();
                } else if inner.rows.notes.holding_has_changed() {
                    inner.show(inner.now())?;
                }
                Ok(())
            }
        }
    }
}
