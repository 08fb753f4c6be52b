//! An object with an outbox, and a list of the messages put into it.

use std::time::Duration;

use abide::outbox::{
    Batch, BehindDeadLetter, Breaker, BulkResult, DeadLetterFilter, Deliver as _, FanOut,
    MessageFilter, Outbox, OutboxError, OutboxMessage, OutboxOptions, Pace, Polling, Record,
    RetryPolicy,
};
use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    history::{Event, Recorder, SenderNo, Value},
    receiver::{Note, ReceiverDelivery},
};

#[durable_object]
pub(crate) struct Sender {
    ctx: Ctx,
    outbox: Outbox,
}

/// Options of the simulated outboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryOptions {
    /// Messages wait for a preceding dead letter with their ordering key.
    pub(crate) wait: bool,
    /// Deliveries go in ticks.
    pub(crate) ticks: bool,
}

impl DeliveryOptions {
    fn options(self) -> OutboxOptions {
        OutboxOptions::default()
            .pace(if self.ticks {
                Pace::Ticks {
                    every: Duration::from_secs(2),
                    sends: 5,
                    polls: 3,
                }
            } else {
                Pace::unlimited(16)
            })
            .retry(RetryPolicy::Exponential {
                base: Duration::from_secs(1),
                max: Duration::from_secs(4),
                max_attempts: 6,
            })
            .polling(
                Polling::default()
                    .interval(Duration::from_secs(1))
                    .deadline(Duration::from_secs(20))
                    .max_errors(3),
            )
            .breaker(
                Breaker::default()
                    .failures(4)
                    .pause(Duration::from_secs(2))
                    .max_pause(Duration::from_secs(4)),
            )
            .timeout(Duration::from_secs(3))
            .recovery(Duration::from_secs(1))
            .behind_dead_letter(if self.wait {
                BehindDeadLetter::Wait
            } else {
                BehindDeadLetter::GoOn
            })
    }
}

/// One message to each of many recipients.
pub(crate) struct Circular;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Circulate {
    from: SenderNo,
    values: Vec<Value>,
}

impl FanOut for Circular {
    type Command = Circulate;
    const NAME: &'static str = "circular";

    fn batch(
        &self,
        _storage: &Storage,
        command: &Circulate,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Batch> {
        let start = after.and_then(|after| after.parse().ok()).unwrap_or(0);
        // Small batches, to have several.
        let end = command.values.len().min(start + limit.min(5));
        let messages = command.values[start..end]
            .iter()
            .map(|value| message(command.from, 0, *value))
            .collect::<Result<_>>()?;
        Ok(Batch {
            messages,
            next: (end < command.values.len()).then(|| end.to_string()),
        })
    }
}

fn message(from: SenderNo, to: u8, value: Value) -> Result<OutboxMessage> {
    ReceiverDelivery::message(&Note { from, to, value }).map_err(Error::from_std)
}

impl DurableObject for Sender {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let number = ctx
            .name()
            .and_then(|name| name.parse().ok())
            .ok_or("a sender's name is a number")?;
        env.require::<Recorder>()?.note(Event::Opened(number));
        let delivery_options = env.require::<DeliveryOptions>()?;
        let outbox = Outbox::open(&ctx, delivery_options.options())?;
        Ok(Self { ctx, outbox })
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Sender {
    pub async fn post(
        &self,
        from: SenderNo,
        to: u8,
        value: Value,
        key: Option<u8>,
    ) -> Result<i64, OutboxError> {
        self.ctx.storage().put("posted", &value)?;
        let mut message = message(from, to, value)?.dedup_key(value.to_string());
        if let Some(key) = key {
            message = message.ordering_key(format!("key {key}"));
        }
        Ok(self.outbox.enqueue(&message)?.id)
    }

    pub async fn circulate(&self, from: SenderNo, values: Vec<Value>) -> Result<i64, OutboxError> {
        self.outbox.fan_out::<Circular>(&Circulate { from, values })
    }

    pub async fn redrive(&self) -> Result<BulkResult, OutboxError> {
        self.outbox.redrive_all(&DeadLetterFilter::default())
    }

    /// Resets the object.
    pub async fn reset(&self) -> Result<()> {
        self.ctx.abort(crate::ON_PURPOSE);
        Ok(())
    }

    /// All records of the outbox.
    pub async fn records(&self) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let mut before = None;
        loop {
            let page = self.outbox.list(&MessageFilter::default().before(before))?;
            records.extend(page.records);
            before = page.next;
            if before.is_none() {
                return Ok(records);
            }
        }
    }
}
