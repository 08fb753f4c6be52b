//! The class: a shard of a queue.

use std::rc::Rc;

use abide::prelude::*;
use abide_component::operating;

use super::{
    Counts, DeadLetter, QueueError, QueueMessage, Queues, Sent,
    inner::{self, Inner},
    limits,
    rows::Rows,
    schema,
};

/// A shard of a queue: its name is the queue's, a `/` and its number. A [`Queue`](super::Queue) finds the right one.
#[durable_object]
pub struct QueueShard {
    pub(super) inner: Rc<Inner>,
}

impl std::fmt::Debug for QueueShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueShard")
            .field("ctx", &self.inner.ctx)
            .finish_non_exhaustive()
    }
}

impl DurableObject for QueueShard {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let name = ctx.name().unwrap_or_default();
        let place = name
            .rsplit_once('/')
            .and_then(|(queue, shard)| Some((queue.to_owned(), shard.parse().ok()?)));
        let Some((queue, shard)) = place else {
            return Err(Error::new(format!(
                "`{name}` is not a shard of a queue: use a `Queue`"
            )));
        };
        schema::prepare(ctx.storage())?;
        let queues = env.require::<Queues>()?;
        let rows = Rows {
            storage: ctx.storage().clone(),
            sql: ctx.sql(),
            queue,
            shard,
        };
        let inner = Inner::new(ctx, rows, queues);
        inner.go_on()?;
        let on_timeline = Rc::clone(&inner);
        inner
            .ctx
            .on_timeline(move |timeline| on_timeline.begin(timeline));
        let copied = Rc::clone(&inner);
        inner.ctx.on_activation(move |how| copied.activated(how));
        let answering = Rc::clone(&inner);
        operating::serve(&inner.ctx, inner::NAME, move |request| {
            let inner = Rc::clone(&answering);
            Self { inner }.operate(request)
        })?;
        Ok(Self { inner })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.inner.go_on()
    }
}

#[rpc]
impl QueueShard {
    /// Accepts all messages, or none.
    pub async fn send(&self, messages: Vec<QueueMessage>) -> Result<Vec<Sent>, QueueError> {
        let inner = &self.inner;
        let declared = inner.declared()?;
        let bytes: usize = messages.iter().map(|message| message.body.len()).sum();
        if messages.len() > limits::MAX_SEND || bytes > limits::MAX_SEND_BYTES {
            return Err(QueueError::Invalid(format!(
                "a shard accepts {} messages of {} bytes in all at a time, not {} of {bytes}: send them in parts",
                limits::MAX_SEND,
                limits::MAX_SEND_BYTES,
                messages.len()
            )));
        }
        let now = inner.now();
        let rows = &inner.rows;
        let sent = rows.storage.transaction(|| {
            inner.mind_clock(&mut rows.meta()?, now)?;
            rows.take(&messages, &declared.options, now)
        })?;
        inner.go_on()?;
        Ok(sent)
    }

    /// The counts.
    pub async fn counts(&self) -> Result<Counts, QueueError> {
        Ok(self.inner.counts()?)
    }

    /// Pauses deliveries until [`resume`](Self::resume).
    pub async fn pause(&self) -> Result<(), QueueError> {
        self.inner.rows.change_meta(|meta| meta.paused = true)?;
        Ok(())
    }

    /// Ends a pause, and that of a failed consumer.
    pub async fn resume(&self) -> Result<(), QueueError> {
        self.inner.rows.change_meta(|meta| {
            meta.paused = false;
            meta.rest_until = 0;
            meta.throttled = false;
        })?;
        Ok(self.inner.go_on()?)
    }

    /// Dead letters, newest first.
    pub async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, QueueError> {
        Ok(self.inner.rows.dead_letters(limit.min(limits::MAX_PAGE))?)
    }

    /// Redrives a dead letter, like a new message.
    pub async fn redrive(&self, number: i64) -> Result<(), QueueError> {
        self.found(number, self.inner.redrive(&[number])?)
    }

    /// Removes a dead letter.
    pub async fn discard(&self, number: i64) -> Result<(), QueueError> {
        self.found(number, self.inner.discard(&[number])?)
    }

    /// Redrives or discards some of the dead letters that died up to a time, oldest first, at most `limit`; returns
    /// how many.
    pub async fn sweep(
        &self,
        redrive: bool,
        died_until: i64,
        most: u64,
    ) -> Result<u64, QueueError> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let numbers = self
            .inner
            .rows
            .dead_until(died_until, most.min(limits::MAX_SWEPT))?;
        Ok(if redrive {
            self.inner.redrive(&numbers)?
        } else {
            self.inner.discard(&numbers)?
        })
    }

    fn found(&self, number: i64, count: u64) -> Result<(), QueueError> {
        match count {
            0 => Err(QueueError::NotFound {
                id: self.inner.rows.id(number),
            }),
            _ => Ok(()),
        }
    }
}
