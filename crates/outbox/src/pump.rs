//! The background task that makes passes, carries attempts, and writes what came of them.
//!
//! Contract: at most one such task of an outbox runs. It runs while something is on its way or due within a moment;
//! what is due later is left to the object's alarm, so that the object may leave memory. Whoever starts the task sets the
//! alarm, a few seconds ahead, and the alarm sets itself again while there is work: should the object or the process end,
//! somebody goes on.
//!
//! A handler is called when its attempt is durable. Whatever it does (panic, hang) ends within its time as an outcome.
//!
//! One turn of the task is one transaction: it writes what has ended and takes what is due. The next turn begins when that is
//! durable, with all that has ended meanwhile: so the faster the receivers and the slower the disk, the more is written at a
//! time, and what is sent need not wait for anything written after it.
//!
//! # Crashes
//!
//! | The process ends | What is on disk | What becomes of the message |
//! |---|---|---|
//! | before a turn is durable | the message waits | It is tried as if nothing had happened: its handler was not called. |
//! | between that and the end of its attempt | it is `sending`, with one attempt more | It is `unknown`, and tried again. |
//! | when it has ended, before the next turn is durable | the same | the same: so an effect may be repeated, under the same key |
//! | after that | what came of it | It is done, or tried again at its time. |
//!
//! What a turn counts, and what it learns of destinations, is written in its transaction or, where `destinations` says so, may be
//! older than memory, and then is right for whoever goes on.

use std::{pin::pin, rc::Rc, sync::Arc, time::Duration};

use crate::broken::{Variant, broken};
use abide::Result;
use futures_util::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};

use super::{
    Delivery, Failure, Record, claim::Claim, flights::Flights, inner::Inner, limits,
    outcome::Outcome, overload::Overload, passes::Taken, registry::Attempt, suspects::Suspects,
};
use abide_component::numbers::millis;
use abide_component::waits;

/// An attempt or a poll that is on its way.
type Flight = LocalBoxFuture<'static, Landed>;

/// One that has ended.
type Landed = (Claim, Outcome);

impl Inner {
    /// Has the task look at what is new; starts it if none runs.
    pub(super) fn kick(self: &Rc<Self>) {
        if self.running.replace(true) {
            self.news.notify_one();
            return;
        }
        if let Err(error) = self.spawn(FuturesUnordered::new()) {
            self.running.set(false);
            tracing::warn!(%error, "the outbox waits for its alarm");
        }
    }

    fn spawn(self: &Rc<Self>, flights: FuturesUnordered<Flight>) -> Result<()> {
        let task = Task {
            inner: Rc::clone(self),
            flights,
            // It may be dropped before it has begun.
            guard: Guard {
                inner: Rc::clone(self),
                cut_off: true,
            },
        };
        self.state.wait_until(task.run())
    }

    /// True if something has come that the task has not looked at.
    fn has_news(&self) -> bool {
        let is_notified = self.news.notified().now_or_never().is_some();
        is_notified || self.orphaned.get() || self.rows.changes.are_there()
    }

    /// Tells the listeners which rows have changed. True if there are more to tell of.
    fn tell_changes(&self) -> Result<bool> {
        let changes = &self.rows.changes;
        if !changes.are_there() {
            return Ok(false);
        }
        let mut records: Vec<Record> = Vec::new();
        for id in changes.take(limits::MAX_PAGE) {
            // One that is not there was undone with its transaction, or removed.
            records.extend(self.rows.record(id)?);
        }
        changes.tell(&records);
        Ok(changes.are_there())
    }

    /// Makes a turn: writes what has ended and, if it is to, takes what is due.
    ///
    /// All of it is one transaction. If that fails it is made again with each outcome by itself, so that what is wrong with one
    /// is not with all, and what cannot be written is kept for the next turn. An error says that nothing could be written.
    fn turn(&self, mut landed: Vec<Landed>, passes: bool, now: i64) -> Result<Taken> {
        let freed = self.arrive(&landed, now);
        landed.append(&mut self.unwritten.borrow_mut());
        let mut taken = Taken::default();
        let turn = |how: How, taken: &mut Taken| {
            self.unless_undone(taken, |taken| {
                self.rows.turn(|| {
                    self.rows.unpark(&freed, now)?;
                    let unwritten = self.write(&landed, how, now)?;
                    if passes && let Err(error) = self.try_pass(taken, how, now) {
                        if how == How::Together {
                            return Err(error);
                        }
                        tracing::error!(%error, "the outbox could not take what is due: it tries again");
                        taken.wake = Some(now.saturating_add(millis(limits::SHORT_WAIT)));
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

    /// Runs what takes something. If it fails, nothing was taken.
    fn unless_undone<T>(
        &self,
        taken: &mut Taken,
        f: impl FnOnce(&mut Taken) -> Result<T>,
    ) -> Result<T> {
        let suspects = self.suspects.get();
        let result = f(taken);
        if result.is_err() {
            self.suspects.set(suspects);
            let undone = std::mem::take(taken);
            let mut flights = self.flights.borrow_mut();
            flights.retract(&undone.sends, &undone.polls);
        }
        result
    }

    /// What has ended is not in flight any more. Returns the destinations for which there may be room now.
    fn arrive(&self, landed: &[Landed], now: i64) -> Vec<String> {
        let mut freed = Vec::new();
        let mut flights = self.flights.borrow_mut();
        for (claim, outcome) in landed {
            freed.append(&mut flights.end(claim));
            if claim.alone {
                self.suspects.set(self.suspects.get().end(now));
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

    /// Writes what has ended, each outcome whole or not at all. Returns the places of those that could not be written.
    fn write(&self, ended: &[Landed], how: How, now: i64) -> Result<Vec<usize>> {
        self.mind_clock(now)?;
        let is_simple = |outcome: &Outcome| outcome.is_delivery() && !broken(Variant::SentTwice);
        let mut unwritten = Vec::new();
        match how {
            How::Together => {
                let simple = ended.iter().filter(|(_, outcome)| is_simple(outcome));
                let delivered: Vec<&Claim> = simple.map(|(claim, _)| claim).collect();
                if !delivered.is_empty() {
                    self.delivered(&delivered, now)?;
                }
                for (claim, outcome) in ended.iter().filter(|(_, outcome)| !is_simple(outcome)) {
                    self.settle(claim, outcome.clone(), now)?;
                }
            }
            How::EachByItself => {
                for (place, (claim, outcome)) in ended.iter().enumerate() {
                    let settle = || self.settle(claim, outcome.clone(), now);
                    if let Err(error) = self.rows.transaction(settle) {
                        tracing::error!(message = claim.id, %error, "the outcome of an attempt could not be written: it is tried again");
                        unwritten.push(place);
                    }
                }
            }
        }
        Ok(unwritten)
    }

    /// What is on its way and carried by nobody has an unknown outcome: its task, object or process has ended.
    pub(super) fn recover(&self, now: i64) -> Result<()> {
        self.orphaned.set(false);
        *self.flights.borrow_mut() = Flights::default();
        self.unwritten.borrow_mut().clear();
        self.suspects.set(Suspects::default());
        let claims = self.rows.on_their_way()?;
        if !claims.is_empty() {
            self.rows.unpark_all(now)?;
        }
        let cut_off = claims
            .into_iter()
            .filter(|_| !broken(Variant::ClaimForgotten));
        let landed = cut_off.map(|claim| {
            let outcome = Outcome::failed(&claim, Failure::cut_off());
            (claim, outcome)
        });
        self.turn(landed.collect(), false, now).map(drop)
    }

    /// Begins what was claimed; `durable` tells whether that is on disk.
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
            env: self.state.env().clone(),
            object: self.state.id(),
            id: claim.id,
            kind: claim.kind.clone(),
            idempotency_key: claim.idempotency_key.clone(),
            attempt: claim.attempts,
            unknown: claim.unknown,
            created_at: claim.created_at,
            first_attempt_at: claim.first_attempt_at.unwrap_or(now),
            now,
        };
        let limit = handler.timeout().unwrap_or(self.rows.options.timeout);
        let limit = limit.min(limits::MAX_TIMEOUT);
        let inner = Rc::clone(self);
        async move {
            let outcome = match payload {
                Ok(Some(payload)) => {
                    let clock = inner.state.env().clock();
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
            };
            (claim, outcome)
        }
        .boxed_local()
    }
}

/// An attempt's outcome, or that it took too long.
async fn within<T>(
    limit: Duration,
    late: abide::clock::Sleep,
    attempt: Attempt<T>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        outcome = attempt => outcome,
        () = late => Err(Failure::unknown(format!("no answer within {} s", limit.as_secs_f64()))),
    }
}

/// How a turn writes what has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// All that was delivered in one statement; what cannot be written undoes the turn.
    Together,
    EachByItself,
}

/// Why a task ends.
enum Then {
    /// Nothing is on its way or due.
    Rest,
    /// Something is, and another task goes on with it.
    HandOver,
}

struct Task {
    inner: Rc<Inner>,
    flights: FuturesUnordered<Flight>,
    guard: Guard,
}

impl Task {
    async fn run(mut self) {
        match self.work().await {
            Ok(Then::Rest) => {
                self.inner.running.set(false);
                self.guard.cut_off = false;
            }
            Ok(Then::HandOver) => {
                let flights = std::mem::take(&mut self.flights);
                self.guard.cut_off = self.inner.spawn(flights).is_err();
            }
            Err(error) => {
                tracing::error!(%error, "the outbox stops until its alarm");
            }
        }
    }

    async fn work(&mut self) -> Result<Then> {
        let inner = Rc::clone(&self.inner);
        let env = inner.state.env();
        let clock = Arc::clone(env.clock());
        let end = clock.now() + limits::PUMP_LIFE;
        let mut landed: Vec<Landed> = Vec::new();
        loop {
            let now = inner.now();
            if inner.orphaned.get() {
                // What is carried would be taken for lost, and sent twice at a time.
                self.flights.clear();
                landed.clear();
                inner.recover(now)?;
            }
            let (stopping, over) = (env.is_stopping(), clock.now() >= end);
            let turn = inner.turn(std::mem::take(&mut landed), !stopping && !over, now);
            let taken = match turn {
                Ok(taken) => taken,
                Err(error) if self.flights.is_empty() && inner.unwritten.borrow().is_empty() => {
                    return Err(error);
                }
                Err(error) => {
                    tracing::error!(%error, "the outbox could write nothing: it tries again");
                    Taken::default()
                }
            };
            if stopping {
                if self.flights.is_empty() {
                    return Ok(Then::Rest);
                }
                landed.extend(self.flights.next().await);
                landed.extend(waits::landed(&mut self.flights));
                continue;
            }
            if over {
                return Ok(Then::HandOver);
            }
            inner.show_changes(now)?;
            let wake = taken.wake;
            let more = inner.tell_changes()?;
            self.launch(taken, &mut landed, now).await;
            if !landed.is_empty() {
                continue;
            }
            let unwritten = !inner.unwritten.borrow().is_empty();
            let again = unwritten.then(|| now.saturating_add(millis(limits::SHORT_WAIT)));
            let wake = wake.into_iter().chain(again).min();
            let soon = wake.filter(|at| *at <= now.saturating_add(millis(limits::SHORT_WAIT)));
            let untold = inner.rows.notes.len();
            if self.flights.is_empty() && soon.is_none() && !more {
                // In one commit with what the turn has written.
                inner.arm_at(wake)?;
                if untold > 0 {
                    inner.tell().await?;
                    if inner.has_news() {
                        continue;
                    }
                }
                if inner.rows.notes.holding_has_changed() {
                    inner.show(inner.now())?;
                }
                return Ok(Then::Rest);
            }
            if untold > limits::MAX_NOTES {
                inner.tell().await?;
            }
            if more || soon.is_some_and(|at| at <= now) {
                tokio::task::yield_now().await;
                landed = waits::landed(&mut self.flights);
                continue;
            }
            let wake = soon.into_iter().chain(inner.show_changes(now)?).min();
            let sleep = waits::until(&*clock, wake, now);
            tokio::select! {
                biased;
                first = self.flights.next(), if !self.flights.is_empty() => landed.extend(first),
                () = inner.news.notified() => {}
                () = sleep => {}
                told = inner.tell(), if untold > 0 => told?,
            }
            landed.extend(waits::landed(&mut self.flights));
        }
    }

    /// Lets what a pass took go, when that is durable. What ends meanwhile has landed.
    async fn launch(&mut self, taken: Taken, landed: &mut Vec<Landed>, now: i64) {
        if taken.sends.is_empty() && taken.polls.is_empty() {
            return;
        }
        let untold = self.inner.rows.notes.len();
        let mut synced = pin!(self.inner.state.storage().sync());
        let durable = loop {
            if broken(Variant::SendBeforeDurable) {
                break Ok(());
            }
            tokio::select! {
                biased;
                durable = &mut synced => break durable,
                first = self.flights.next(), if !self.flights.is_empty() => landed.extend(first),
            }
        };
        if durable.is_ok() {
            self.inner.tell_durable(untold);
        }
        for claim in taken.polls.into_iter().chain(taken.sends) {
            self.flights.push(self.inner.fly(claim, &durable, now));
        }
    }
}

/// Notes that a task was cut off: what it carried is nobody's.
struct Guard {
    inner: Rc<Inner>,
    cut_off: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.cut_off {
            self.inner.running.set(false);
            self.inner.orphaned.set(true);
        }
    }
}
