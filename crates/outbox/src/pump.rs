//! The background task that makes passes, runs attempts, and writes their results.
//!
//! Contract: at most one such task of an outbox runs. It runs while an attempt is in flight or due within a moment;
//! later work is left to the object's alarm, so the object may leave memory. The code that starts the task sets the alarm, a
//! few seconds ahead, and the alarm sets itself again while there is work: if the object or the process stops, the
//! alarm continues the work.
//!
//! A handler is called when its attempt is durable. Whatever it does (panic, hang), it ends within its timeout with a
//! result.
//!
//! One turn of the task is one transaction: it writes the results and claims what is due. The next turn begins when
//! that is durable, with all results that have arrived meanwhile: the faster the receivers and the slower the disk, the
//! more is written at a time, and what is sent need not wait for anything written after it.
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

use std::{pin::pin, rc::Rc, sync::Arc, time::Duration};

use crate::broken::{Variant, broken};
use abide::Result;
use abide::clock::{OwnWaits, own_waits};
use futures_util::{
    FutureExt, StreamExt,
    future::{Abortable, LocalBoxFuture},
    stream::FuturesUnordered,
};

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
    suspects::Suspects,
};
use abide_component::numbers::millis;
use abide_component::waits;

/// An attempt or a poll in flight.
type Flight = LocalBoxFuture<'static, Landed>;

/// One that has finished.
type Landed = (Claim, Outcome);

impl Inner {
    /// Wakes the task; starts it if none runs.
    pub(super) fn kick(self: &Rc<Self>) {
        // It starts anew when it is activated.
        if self.state.is_dormant() && !broken(Variant::DormantDelivers) {
            return;
        }
        if self.running.replace(true) {
            self.news.notify_one();
            return;
        }
        if let Err(error) = self.spawn(FuturesUnordered::new()) {
            self.running.set(false);
            tracing::warn!(%error, "the outbox cannot start its task and waits for its alarm");
        }
    }

    fn spawn(self: &Rc<Self>, flights: FuturesUnordered<OwnWaits<Flight>>) -> Result<()> {
        let task = Task {
            inner: Rc::clone(self),
            flights,
            // It may be dropped before it starts.
            guard: Guard {
                inner: Rc::clone(self),
                cut_off: true,
            },
        };
        self.state.wait_until(task.run())
    }

    /// True if there is news that the task has not looked at.
    fn has_news(&self) -> bool {
        let is_notified = self.news.notified().now_or_never().is_some();
        is_notified || self.orphaned.get() || self.rows.changes.are_there()
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
                    if passes && let Err(error) = self.try_pass(taken, how, now) {
                        if how == How::Together {
                            return Err(error);
                        }
                        tracing::error!(%error, "the outbox could not claim what is due: it tries again");
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

    /// Runs a function that claims messages. If it fails, nothing was claimed.
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

    /// Removes finished attempts from those in flight. Returns the destinations for which there may be room now.
    fn arrive(&self, landed: &[Landed], now: i64) -> Vec<String> {
        let mut freed = Vec::new();
        let mut flights = self.flights.borrow_mut();
        for (claim, outcome) in landed {
            freed.append(&mut flights.end(claim, outcome));
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

    /// Writes results, each completely or not at all. Returns the positions of those that could not be written.
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
        self.orphaned.set(false);
        *self.flights.borrow_mut() = Flights::default();
        self.unwritten.borrow_mut().clear();
        self.ended.borrow_mut().clear();
        self.suspects.set(Suspects::default());
    }

    /// Settles attempts in flight without a task as unknown: their task, object or process has stopped.
    pub(super) fn recover(&self, now: i64) -> Result<()> {
        self.forget_flights();
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
            env: self.state.env().clone(),
            object: self.state.id(),
            id: claim.id,
            kind: claim.kind.clone(),
            idempotency_key: key_of_attempt(&claim),
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

/// All attempts of a message have its key.
fn key_of_attempt(claim: &Claim) -> String {
    if broken(Variant::NewKeyOnRetry) {
        return format!("{}-{}", claim.idempotency_key, claim.attempts);
    }
    claim.idempotency_key.clone()
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
        () = late => Err(Failure::unknown(format!("no response within {} s", limit.as_secs_f64()))),
    }
}

/// How a turn writes results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// All deliveries in one statement; a write error rolls the turn back.
    Together,
    EachByItself,
}

/// Why a task ends.
enum TaskEnd {
    /// Nothing is in flight or due.
    Rest,
    /// Something is, and another task continues with it.
    HandOver,
}

struct Task {
    inner: Rc<Inner>,
    flights: FuturesUnordered<OwnWaits<Flight>>,
    guard: Guard,
}

impl Task {
    async fn run(mut self) {
        match self.work().await {
            Ok(TaskEnd::Rest) => {
                self.inner.running.set(false);
                self.guard.cut_off = false;
            }
            Ok(TaskEnd::HandOver) => {
                let flights = std::mem::take(&mut self.flights);
                self.guard.cut_off = self.inner.spawn(flights).is_err();
            }
            Err(error) => {
                tracing::error!(%error, "the outbox pauses until its alarm");
            }
        }
    }

    async fn work(&mut self) -> Result<TaskEnd> {
        let inner = Rc::clone(&self.inner);
        let env = inner.state.env();
        let clock = Arc::clone(env.clock());
        let end = clock.now() + limits::PUMP_LIFE;
        let mut landed: Vec<Landed> = Vec::new();
        loop {
            let now = inner.now();
            if !inner.rows.sql.has_tables()? {
                // The object has deleted everything, and the messages with it.
                self.flights.clear();
                inner.forget_flights();
                return Ok(TaskEnd::Rest);
            }
            if inner.orphaned.get() {
                // Attempts in flight would be taken for lost, and sent twice at the same time.
                self.flights.clear();
                landed.clear();
                inner.recover(now)?;
            }
            inner.interrupt_ended(&mut landed)?;
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
                    return Ok(TaskEnd::Rest);
                }
                landed.extend(self.flights.next().await);
                landed.extend(waits::landed(&mut self.flights));
                continue;
            }
            if over {
                return Ok(TaskEnd::HandOver);
            }
            inner.show_changes(now)?;
            let wake = taken.wake;
            let more = inner.tell_changes()?;
            self.launch(taken, &mut landed, now).await?;
            if !landed.is_empty() {
                continue;
            }
            let unwritten = !inner.unwritten.borrow().is_empty();
            let again = unwritten.then(|| now.saturating_add(millis(limits::SHORT_WAIT)));
            let wake = wake.into_iter().chain(again).min();
            let soon = wake.filter(|at| *at <= now.saturating_add(millis(limits::SHORT_WAIT)));
            let untold = inner.rows.notes.len();
            if self.flights.is_empty() && soon.is_none() && !more {
                // In one commit with the turn's writes.
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
                return Ok(TaskEnd::Rest);
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

    /// Starts what a pass claimed, when the claim is durable. Attempts that finish meanwhile are collected.
    async fn launch(&mut self, taken: Taken, landed: &mut Vec<Landed>, now: i64) -> Result<()> {
        if taken.sends.is_empty() && taken.polls.is_empty() {
            return Ok(());
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
        // What was ended meanwhile does not start.
        self.inner.interrupt_ended(landed)?;
        for claim in taken.polls.into_iter().chain(taken.sends) {
            let flight = self.inner.fly(claim, &durable, now);
            self.flights.push(own_waits(flight));
        }
        Ok(())
    }
}

/// Records that a task was dropped: its attempts have no owner.
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
