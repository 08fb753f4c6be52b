//! The background task that passes batches to the consumer and writes the results.
//!
//! Contract: at most one such task of a shard runs. It runs while a batch is in flight or due within a moment; later
//! work is left to the object's alarm, so the object may leave memory. The code that starts the task sets the alarm, a few
//! seconds ahead, and the alarm sets itself again while there is work: if the object or the process stops, the alarm
//! continues the work, and the consumer's messages are due again when their claim expires.
//!
//! A consumer is called when its attempt is durable. Whatever it does (panic, hang), it ends within its timeout with a
//! result.

use std::{rc::Rc, sync::Arc};

use abide::clock::{OwnWaits, own_waits};
use abide::{LocalFuture, Result};
use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{
    DeadLetter, Queue, QueueError,
    consumer::{Marks, Pause, Untyped, Verdict},
    inner::Inner,
    limits,
    queues::Declared,
    rows::Claim,
};
use crate::broken::{Variant, broken};
use abide_component::numbers::millis;
use abide_component::waits;

/// Something in flight.
type Flight = LocalFuture<Finished>;

/// Something that has finished.
pub(super) enum Finished {
    /// A batch, with the mark of each marked message, and the result for the rest.
    Batch(FinishedBatch),
    /// A batch that is not delivered: the queue was paused before it began.
    Held(Claim),
    /// Dead letters, which the other queue has accepted or not.
    Forwarded(Vec<DeadLetter>, Result<(), QueueError>),
}

/// A batch that its consumer has finished.
pub(super) struct FinishedBatch {
    pub(super) claim: Claim,
    pub(super) marks: Vec<Option<Verdict>>,
    /// The pause that the consumer asks for, if it does.
    pub(super) pause: Option<Pause>,
    pub(super) rest: Result<(), String>,
}

/// The claims of a pass.
pub(super) struct Taken {
    pub(super) batches: Vec<Claim>,
    pub(super) dead: Vec<DeadLetter>,
    /// When there is work, if nothing finishes earlier.
    pub(super) wake: Option<i64>,
}

impl Inner {
    /// Wakes the task; starts it if none runs.
    pub(super) fn kick(self: &Rc<Self>) {
        // It starts anew when it is activated.
        if self.state.is_dormant() && !broken(Variant::DormantShard) {
            return;
        }
        if self.running.replace(true) {
            self.news.notify_one();
            return;
        }
        if let Err(error) = self.spawn(FuturesUnordered::new(), InFlight::default()) {
            self.running.set(false);
            tracing::warn!(%error, queue = self.rows.queue, "the queue cannot start its task and waits for its alarm");
        }
    }

    fn spawn(
        self: &Rc<Self>,
        flights: FuturesUnordered<OwnWaits<Flight>>,
        flying: InFlight,
    ) -> Result<()> {
        let task = Task {
            inner: Rc::clone(self),
            flights,
            flying,
            // It may be dropped before it starts.
            guard: Guard {
                inner: Rc::clone(self),
                cut_off: true,
            },
        };
        self.state.wait_until(task.run())
    }

    /// Passes a batch to the consumer.
    fn fly(&self, declared: &Declared, claim: Claim) -> Flight {
        let Some(consumer) = declared.consumer.clone() else {
            return Box::pin(std::future::ready(Finished::Batch(FinishedBatch {
                marks: vec![None; claim.deliveries.len()],
                pause: None,
                claim,
                rest: Err("the queue has no consumer".to_owned()),
            })));
        };
        let clock = Arc::clone(self.state.env().clock());
        let marks = Marks::new(claim.deliveries.len());
        let run = consumer.consume(Untyped {
            env: self.state.env().clone(),
            queue: declared.name.as_str().into(),
            deliveries: claim.deliveries.clone(),
            marks: Rc::clone(&marks),
        });
        let limit = declared.options.timeout;
        Box::pin(async move {
            let late = abide::clock::time_limit(&*clock, limit);
            let rest = tokio::select! {
                biased;
                rest = run => rest,
                () = late => Err(format!("the consumer did not finish within {} s", limit.as_secs_f64())),
            };
            Finished::Batch(FinishedBatch {
                claim,
                pause: marks.pause(),
                marks: marks.take(),
                rest,
            })
        })
    }

    /// Sends dead letters to another queue.
    fn forward(&self, to: &str, letters: Vec<DeadLetter>) -> Flight {
        let queue = Queue::new(self.state.env(), to);
        let from = format!("{}/{}", self.rows.queue, self.rows.shard);
        Box::pin(async move {
            let messages = letters.iter().map(|letter| letter.again(&from)).collect();
            let sent = match queue {
                Ok(queue) => queue.send_batch(messages).await.map(drop),
                Err(error) => Err(error),
            };
            Finished::Forwarded(letters, sent)
        })
    }
}

/// How many flights of each kind there are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFlight {
    pub(super) batches: u32,
    pub(super) forwards: u32,
}

/// Why a task ends.
enum TaskEnd {
    /// Nothing is in flight or due soon.
    Rest,
    /// Something is, and another task continues with it.
    HandOver,
}

struct Task {
    inner: Rc<Inner>,
    flights: FuturesUnordered<OwnWaits<Flight>>,
    flying: InFlight,
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
                self.guard.cut_off = self.inner.spawn(flights, self.flying).is_err();
            }
            Err(error) => {
                tracing::error!(%error, queue = self.inner.rows.queue, "the queue pauses until its alarm");
            }
        }
    }

    async fn work(&mut self) -> Result<TaskEnd> {
        let inner = Rc::clone(&self.inner);
        let declared = Arc::clone(inner.declared().map_err(abide::Error::from)?);
        let env = inner.state.env();
        let clock = Arc::clone(env.clock());
        let end = clock.now() + limits::PUMP_LIFE;
        let mut landed: Vec<Finished> = Vec::new();
        loop {
            let now = inner.now();
            for landed in std::mem::take(&mut landed) {
                self.flying.end(&landed);
                inner.land(&declared, landed, now)?;
            }
            if env.is_stopping() {
                if self.flights.is_empty() {
                    return Ok(TaskEnd::Rest);
                }
                landed.extend(self.flights.next().await);
                landed.extend(waits::landed(&mut self.flights));
                continue;
            }
            if clock.now() >= end {
                return Ok(TaskEnd::HandOver);
            }
            let taken = inner.pass(&declared, self.flying, now)?;
            let wake = taken.wake;
            self.launch(&declared, taken, &mut landed).await?;
            if !landed.is_empty() {
                continue;
            }
            let soon = wake.filter(|at| *at <= now.saturating_add(millis(limits::SHORT_WAIT)));
            if self.flights.is_empty() && soon.is_none() {
                inner.arm_at(wake)?;
                return Ok(TaskEnd::Rest);
            }
            if soon.is_some_and(|at| at <= now) {
                tokio::task::yield_now().await;
                landed = waits::landed(&mut self.flights);
                continue;
            }
            let sleep = waits::until(&*clock, soon, now);
            tokio::select! {
                biased;
                first = self.flights.next(), if !self.flights.is_empty() => landed.extend(first),
                () = inner.news.notified() => {}
                () = sleep => {}
            }
            landed.extend(waits::landed(&mut self.flights));
        }
    }

    /// Starts what a pass claimed, when the claim is durable. Batches that finish meanwhile are collected.
    async fn launch(
        &mut self,
        declared: &Declared,
        taken: Taken,
        landed: &mut Vec<Finished>,
    ) -> Result<()> {
        if !taken.dead.is_empty()
            && let Some(to) = declared.forwards_to()
        {
            self.flying.forwards += 1;
            let flight = self.inner.forward(to, taken.dead);
            self.flights.push(own_waits(flight));
        }
        if taken.batches.is_empty() {
            return Ok(());
        }
        let mut synced = std::pin::pin!(self.inner.state.storage().sync());
        while !broken(Variant::DeliveryNotDurable) {
            tokio::select! {
                biased;
                durable = &mut synced => {
                    durable?;
                    break;
                }
                first = self.flights.next(), if !self.flights.is_empty() => landed.extend(first),
            }
        }
        // The queue may have been paused meanwhile.
        let is_paused = self.inner.is_paused()?;
        for claim in taken.batches {
            self.flying.batches += 1;
            if is_paused {
                landed.push(Finished::Held(claim));
            } else {
                let flight = self.inner.fly(declared, claim);
                self.flights.push(own_waits(flight));
            }
        }
        Ok(())
    }
}

impl InFlight {
    fn end(&mut self, landed: &Finished) {
        match landed {
            Finished::Batch(_) | Finished::Held(_) => self.batches -= 1,
            Finished::Forwarded(..) => self.forwards -= 1,
        }
    }
}

/// Records that a task was dropped.
struct Guard {
    inner: Rc<Inner>,
    cut_off: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.cut_off {
            self.inner.running.set(false);
        }
    }
}
