//! An outbox with messages of all priorities to one destination, some of which fail once.
#![allow(clippy::unused_async)] // a remote method is async, whether it waits for something or not

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use abide::outbox::{
    Deliver, Delivery, Failure, Outbox, OutboxError, OutboxMessage, OutboxOptions, Priority,
    RetryPolicy, Submitted,
};
use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::figures::Latencies;

/// The wait before a repetition.
const BACK_OFF: Duration = Duration::from_secs(1);

/// How long the receiver takes.
const ANSWER: Duration = Duration::from_millis(5);

/// A class of attempts: of messages of a priority, first ones or repetitions.
pub(crate) type Class = (Priority, &'static str);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Errand {
    pub(crate) priority: Priority,
    /// Whether its first attempt fails.
    pub(crate) fails: bool,
}

/// How long attempts waited beyond the time at which they were due.
#[derive(Clone, Default)]
pub(crate) struct Waits(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    due: HashMap<i64, i64>,
    waits: BTreeMap<Class, Latencies>,
}

impl Waits {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> BTreeMap<Class, Latencies> {
        std::mem::take(&mut self.inner().waits)
    }
}

impl Deliver for Waits {
    type Payload = Errand;
    const KIND: &'static str = "errand";

    fn retry(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy::Schedule(vec![BACK_OFF; 3]))
    }

    async fn submit(&self, delivery: &Delivery, errand: &Errand) -> Result<Submitted, Failure> {
        let (id, now) = (delivery.id(), delivery.now());
        {
            let inner = &mut *self.inner();
            let (due, which) = match inner.due.remove(&id) {
                Some(due) => (due, "again"),
                None => (delivery.created_at(), "first"),
            };
            let wait = Duration::from_millis((now - due).max(0).unsigned_abs());
            let class = (errand.priority, which);
            inner.waits.entry(class).or_default().push(wait);
        }
        let clock = delivery.env().clock();
        clock.sleep_until(clock.now() + ANSWER).await;
        if errand.fails && delivery.attempt() == 1 {
            let answered = i64::try_from(clock.unix_millis()).unwrap_or(i64::MAX);
            let due = answered + i64::try_from(BACK_OFF.as_millis()).unwrap_or(i64::MAX);
            self.inner().due.insert(id, due);
            return Err(Failure::refused("the bench wants it"));
        }
        Ok(Submitted::Done)
    }
}

#[durable_object]
pub(crate) struct Errands {
    outbox: Outbox,
}

impl DurableObject for Errands {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let options = OutboxOptions::default().jitter(false);
        let outbox = Outbox::open(&ctx, options)?;
        Ok(Self { outbox })
    }
}

#[rpc]
impl Errands {
    pub async fn run(&self, errands: Vec<Errand>) -> Result<(), OutboxError> {
        for errand in &errands {
            let message: OutboxMessage = Waits::message(errand)?.priority(errand.priority);
            self.outbox.enqueue(&message)?;
        }
        Ok(())
    }

    pub async fn left(&self) -> Result<i64> {
        let counts = self.outbox.counts()?;
        Ok(counts.queued + counts.sending)
    }
}
