//! The class: an outbox under a name.

use std::sync::Arc;

use abide::prelude::*;

use super::{Delayed, Refused, Shown};
use crate::outbox::{
    self, Counts, DeadLetterFilter, Destination, Enqueued, Filter, Options, OutboxError, Page,
    Record, Registry, Status, Swept, limits,
    live::{Live, Table},
};

/// An outbox and nothing else. Its program has shared a [`Registry`] and, if they are not the default, [`Options`]:
/// see [`install`](super::install).
#[durable_object]
pub struct Outbox {
    state: State,
    inner: outbox::Outbox,
    live: Live,
    max_queued: i64,
}

impl DurableObject for Outbox {
    fn new(state: State, env: Env) -> Result<Self> {
        let registry: Arc<Registry> = env.require()?;
        let options = env
            .get::<Options>()
            .map_or_else(Options::default, |options| (*options).clone());
        let max_queued = options.max_queued;
        // `room` is asked before: what a call with an idempotency key answers is remembered, and "full" must not be.
        let options = Options {
            max_queued: i64::MAX,
            ..options
        };
        let inner = outbox::Outbox::open(&state, registry, options)?;
        let live = Live::open(&state, &inner, Table)?;
        Ok(Self {
            state,
            inner,
            live,
            max_queued,
        })
    }

    /// Lets a client watch.
    async fn fetch(&self, request: Request) -> Result<Response> {
        self.live.accept(&request)
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.inner.alarm()
    }
}

#[rpc]
impl Outbox {
    /// Refuses if so many more messages are too many.
    pub async fn room(&self, messages: i64) -> Result<(), OutboxError> {
        let queued = self.inner.counts()?.queued;
        if queued.saturating_add(messages) > self.max_queued {
            return Err(OutboxError::Full {
                max: self.max_queued,
            });
        }
        Ok(())
    }

    /// Enqueues all, or none.
    pub async fn enqueue(&self, messages: Vec<Delayed>) -> Result<Vec<Enqueued>, Refused> {
        let now = self.state.env().clock().unix_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        self.state.storage().transaction_sync(|| {
            let enqueue = |(index, delayed): (usize, &Delayed)| {
                delayed
                    .at(now)
                    .and_then(|message| self.inner.enqueue(&message))
                    .map_err(|error| Refused { index, error })
            };
            messages.iter().enumerate().map(enqueue).collect()
        })
    }

    /// All of a message.
    pub async fn show(&self, id: i64) -> Result<Shown, OutboxError> {
        let record = self.inner.get(id)?.ok_or(OutboxError::NotFound { id })?;
        let payload = self
            .inner
            .payload(id)?
            .ok_or(OutboxError::NotFound { id })?;
        Ok(Shown {
            record,
            payload,
            history: self.inner.history(id)?,
        })
    }

    /// Messages, newest first.
    pub async fn list(&self, filter: Filter) -> Result<Page> {
        self.inner.list(&filter)
    }

    /// Dead letters, newest first.
    pub async fn dead_letters(&self, filter: DeadLetterFilter) -> Result<Page> {
        self.inner.dead_letters(&filter)
    }

    /// Messages counted, and the destinations, those with trouble first.
    pub async fn overview(&self) -> Result<(Counts, Vec<Destination>)> {
        let destinations = self.inner.destinations(limits::MAX_PAGE)?;
        Ok((self.inner.counts()?, destinations))
    }

    /// A page that shows the newest messages and keeps itself up to date.
    pub async fn page(&self, title: String) -> Result<String> {
        Table.page(&title, &self.inner, "live?format=turbo", "assets")
    }

    /// Cancels a queued message, or discards a dead letter.
    pub async fn remove(&self, id: i64) -> Result<Record, OutboxError> {
        match self.inner.get(id)? {
            Some(record) if record.status == Status::Failed => self.inner.discard(id),
            _ => self.inner.cancel(id),
        }
    }

    /// Changes what a dead letter says.
    pub async fn edit(&self, id: i64, payload: String) -> Result<Record, OutboxError> {
        self.inner.edit(id, &payload)
    }

    /// Queues a dead letter again.
    pub async fn redrive(&self, id: i64) -> Result<Record, OutboxError> {
        self.inner.redrive(id)
    }

    /// Queues dead letters again.
    pub async fn redrive_all(&self, filter: DeadLetterFilter) -> Result<Swept, OutboxError> {
        self.inner.redrive_all(&filter)
    }

    /// Discards dead letters.
    pub async fn discard_all(&self, filter: DeadLetterFilter) -> Result<Swept, OutboxError> {
        self.inner.discard_all(&filter)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self {
            index: 0,
            error: error.into(),
        }
    }
}
