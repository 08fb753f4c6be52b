//! The work of a shard: it passes batches to the consumer and writes the results. A [worker](abide_component::worker)
//! does it in the background.
//!
//! Contract: a consumer is called when its attempt is durable. Whatever it does (panic, hang), it ends within its
//! timeout with a result. If its task is dropped, its messages are due again when their claim expires.

use std::{rc::Rc, sync::Arc};

use abide::Result;

use super::{
    DeadLetter, Queue, QueueError,
    consumer::{Marks, Pause, Untyped, Verdict},
    inner::Inner,
    queues::Declared,
    rows::Claim,
};
use abide_component::worker::{self, Attempt, May, Next, Turn, Work};

/// Something in flight.
type Flight = Attempt<Finished>;

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
    /// Wakes the worker.
    pub(super) fn kick(self: &Rc<Self>, declared: &Arc<Declared>) {
        self.worker.kick(|| Pump {
            inner: Rc::clone(self),
            declared: Arc::clone(declared),
            flying: InFlight::default(),
        });
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
        let clock = Arc::clone(self.ctx.env().clock());
        let marks = Marks::new(claim.deliveries.len());
        let run = consumer.consume(Untyped {
            env: self.ctx.env().clone(),
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
        let queue = Queue::new(self.ctx.env(), to);
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

/// What a task of a shard does.
struct Pump {
    inner: Rc<Inner>,
    declared: Arc<Declared>,
    flying: InFlight,
}

impl Work for Pump {
    type Claim = Claim;
    type Landed = Finished;

    fn turn(&mut self, landed: &mut Vec<Finished>, turn: Turn) -> Result<Next<Claim, Finished>> {
        let inner = &self.inner;
        worker::write_each(landed, |finished| {
            inner.land(&self.declared, finished, turn.now)?;
            self.flying.end(finished);
            Ok(())
        })?;
        if turn.may != May::Claim {
            return Ok(Next::at(None));
        }
        let taken = inner.pass(&self.declared, self.flying, turn.now)?;
        let mut next = Next::at(taken.wake);
        if !taken.dead.is_empty()
            && let Some(to) = self.declared.forwards_to()
        {
            self.flying.forwards += 1;
            next.attempts.push(inner.forward(to, taken.dead));
        }
        self.flying.batches += u32::try_from(taken.batches.len()).unwrap_or(u32::MAX);
        next.claims = taken.batches;
        Ok(next)
    }

    fn begin(
        &mut self,
        claims: Vec<Claim>,
        durable: Result<()>,
        _landed: &mut Vec<Finished>,
        _turn: Turn,
    ) -> Result<Vec<Flight>> {
        durable?;
        // The queue may have been paused meanwhile.
        let is_paused = self.inner.is_paused()?;
        let begin = |claim| -> Flight {
            if is_paused {
                return Box::pin(std::future::ready(Finished::Held(claim)));
            }
            self.inner.fly(&self.declared, claim)
        };
        Ok(claims.into_iter().map(begin).collect())
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
