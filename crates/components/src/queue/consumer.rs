//! Consumers: they process messages in batches.
//!
//! Contract: a consumer receives a batch when the attempt is on disk, and has the queue's `timeout` for it. It marks
//! single messages, or returns `Ok` or `Err` for all unmarked ones. It may receive a message again, with the same id,
//! and may panic or hang: marked messages stay marked, and the rest has failed.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    marker::PhantomData,
    panic::AssertUnwindSafe,
    rc::Rc,
    time::Duration,
};

use abide::{Env, LocalFuture, Result};
use futures_util::FutureExt;
use serde::de::DeserializeOwned;

use super::{Delivery, MessageId};
use abide_component::texts::Panicked;

/// Consumes the messages of a queue, one batch at a time. Several batches may be in flight at once.
pub trait Consumer: Send + Sync + 'static {
    /// The type of a message's body. A message with another type becomes a dead letter.
    type Body: DeserializeOwned + 'static;

    /// Consumes a batch. `Ok` acknowledges every unmarked message, `Err` has them retried.
    fn consume(&self, batch: &Batch<Self::Body>) -> impl Future<Output = Result<()>>;
}

/// Messages that are consumed together.
#[derive(Debug)]
pub struct Batch<T> {
    env: Env,
    queue: Rc<str>,
    messages: Vec<Received<T>>,
}

impl<T> Batch<T> {
    /// The environment, for calls of objects and requests to others.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The queue's name.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The messages, in the order in which they became due.
    pub fn messages(&self) -> &[Received<T>] {
        &self.messages
    }
}

impl<T> Batch<T> {
    /// The consumer asks for patience, as a server does with status 429: the shard delivers nothing for this long, at
    /// most a day, and then tries it with one batch. Unmarked messages keep their place and use up no attempt. Without a
    /// time the pause is 1 s, doubled each time up to 30 s.
    pub fn wait(&self, after: Option<Duration>, error: impl Into<String>) {
        let error = error.into();
        for message in &self.messages {
            message
                .marks
                .set_if_none(message.index, || Verdict::InPlace {
                    error: error.clone(),
                });
        }
        if let Some(message) = self.messages.first() {
            message.marks.pause.set(Some(Pause { asked: after }));
        }
    }

    /// The error, if the whole batch is to be retried.
    pub(super) fn failure_of_all(&self) -> Option<String> {
        let marks = self.messages.first()?.marks.of.borrow();
        let mut failure = None;
        for message in &self.messages {
            match &marks[message.index] {
                Some(Verdict::Retry { error, .. } | Verdict::Wait { error }) => {
                    failure = Some(error.clone());
                }
                _ => return None,
            }
        }
        failure
    }
}

/// A message of a batch. The last mark counts.
#[derive(Debug)]
pub struct Received<T> {
    /// The body.
    pub body: T,
    id: MessageId,
    key: Option<String>,
    attempt: u32,
    sent_at: i64,
    index: usize,
    marks: Rc<Marks>,
}

impl<T> Received<T> {
    /// The message's id: the same on every attempt, so a consumer can detect duplicates.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Its key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When it was sent, in milliseconds since 1970.
    pub fn sent_at(&self) -> i64 {
        self.sent_at
    }

    /// Acknowledges it, independently of the others.
    pub fn ack(&self) {
        self.marks.set(self.index, Verdict::Ack);
    }

    /// Has it retried when the queue's policy says, and not before this time has passed.
    pub fn retry(&self, after: Option<Duration>, error: impl Into<String>) {
        let error = error.into();
        self.marks.set(self.index, Verdict::Retry { after, error });
    }

    /// The message cannot be consumed now, which is not its fault: the attempt does not count. It is retried after
    /// the first wait of the queue's policy, and after the consumer's pause if the batch fails.
    pub fn wait(&self, error: impl Into<String>) {
        let error = error.into();
        self.marks.set(self.index, Verdict::Wait { error });
    }

    /// It will never be consumed: it becomes a dead letter at once.
    pub fn refuse(&self, error: impl Into<String>) {
        let error = error.into();
        self.marks.set(self.index, Verdict::Dead { error });
    }
}

/// The mark of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ack,
    Retry {
        after: Option<Duration>,
        error: String,
    },
    Wait {
        error: String,
    },
    /// The same, and it keeps its place: its consumer is paused.
    InPlace {
        error: String,
    },
    Dead {
        error: String,
    },
}

/// A pause of the consumer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    /// How long the receiver asks it to last, if it says so.
    pub(super) asked: Option<Duration>,
}

/// The marks of a batch. They survive a consumer that panics or hangs.
#[derive(Debug)]
pub(super) struct Marks {
    of: RefCell<Vec<Option<Verdict>>>,
    pause: Cell<Option<Pause>>,
}

impl Marks {
    pub(super) fn new(messages: usize) -> Rc<Self> {
        Rc::new(Self {
            of: RefCell::new(vec![None; messages]),
            pause: Cell::new(None),
        })
    }

    fn set(&self, index: usize, verdict: Verdict) {
        self.of.borrow_mut()[index] = Some(verdict);
    }

    fn set_if_none(&self, index: usize, verdict: impl FnOnce() -> Verdict) {
        self.of.borrow_mut()[index].get_or_insert_with(verdict);
    }

    pub(super) fn take(&self) -> Vec<Option<Verdict>> {
        self.of.take()
    }

    /// The pause that the consumer asks for, if it does.
    pub(super) fn pause(&self) -> Option<Pause> {
        self.pause.get()
    }
}

/// A batch without its type.
pub(super) struct Untyped {
    pub(super) env: Env,
    pub(super) queue: Rc<str>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) marks: Rc<Marks>,
}

/// A [`Consumer`] without its type. Its futures do not panic.
pub(super) trait AnyConsumer: Send + Sync {
    fn consume(&self, batch: Untyped) -> LocalFuture<Result<(), String>>;
}

/// Erases a consumer's type.
pub(super) struct Typed<C>(pub(super) std::sync::Arc<C>);

impl<C: Consumer> AnyConsumer for Typed<C> {
    fn consume(&self, untyped: Untyped) -> LocalFuture<Result<(), String>> {
        let consumer = std::sync::Arc::clone(&self.0);
        let taken = AssertUnwindSafe(async move {
            let batch = typed(untyped);
            if batch.messages.is_empty() {
                return Ok(());
            }
            consumer.consume(&batch).await
        });
        Box::pin(async move {
            match taken.catch_unwind().await {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(panic) => {
                    let Panicked { text, shown } = Panicked::new("the consumer", &*panic);
                    tracing::error!(%text, error = shown, "a consumer panicked; its batch is retried");
                    Err(shown)
                }
            }
        })
    }
}

/// The batch of the messages with the right type; the others are marked.
fn typed<T: DeserializeOwned>(untyped: Untyped) -> Batch<T> {
    let Untyped {
        env,
        queue,
        deliveries,
        marks,
    } = untyped;
    let mut messages = Vec::with_capacity(deliveries.len());
    for (index, delivery) in deliveries.into_iter().enumerate() {
        match serde_json::from_str(&delivery.body) {
            Ok(body) => messages.push(Received {
                body,
                id: delivery.id,
                key: delivery.key,
                attempt: delivery.attempt,
                sent_at: delivery.sent_at,
                index,
                marks: Rc::clone(&marks),
            }),
            Err(error) => {
                let error = format!("the body does not match the consumer's type: {error}");
                marks.set(index, Verdict::Dead { error });
            }
        }
    }
    Batch {
        env,
        queue,
        messages,
    }
}

/// A function as a consumer: see [`function`].
pub struct Function<T, F> {
    run: F,
    body: PhantomData<fn() -> T>,
}

/// Turns a function into a consumer.
///
/// ```
/// use abide::queue::{self, Batch, QueueOptions, Queues};
///
/// let queues = Queues::new().with("words", QueueOptions::default(), queue::function(async |batch: &Batch<String>| {
///     for word in batch.messages() {
///         println!("{}", word.body);
///     }
///     Ok(())
/// }));
/// ```
pub fn function<T, F>(run: F) -> Function<T, F>
where
    F: AsyncFn(&Batch<T>) -> Result<()> + Send + Sync + 'static,
{
    Function {
        run,
        body: PhantomData,
    }
}

impl<T, F> Consumer for Function<T, F>
where
    T: DeserializeOwned + 'static,
    F: AsyncFn(&Batch<T>) -> Result<()> + Send + Sync + 'static,
{
    type Body = T;

    async fn consume(&self, batch: &Batch<T>) -> Result<()> {
        (self.run)(batch).await
    }
}

impl<T, F> std::fmt::Debug for Function<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function").finish_non_exhaustive()
    }
}
