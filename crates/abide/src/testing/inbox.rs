//! The receiver of an outbox, played by the test.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use abide_outbox::{Deliver, Delivery, Failure, Polled, Polling, RetryPolicy, Submitted};

/// Takes the place of an outbox's handler: keeps what the outbox delivers, and fails as the test says. Everything else is as the
/// handler has it: its kind, which payloads are valid, destinations and retries. Clones share what has arrived.
///
/// ```
/// # use abide::{Host, server::HostError, testing::Inbox};
/// use abide::outbox::{Failure, Registry, handlers::HttpDelivery};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), HostError> {
/// let inbox = Inbox::of(HttpDelivery::new());
/// inbox.fail_next(Failure::temporary("the response was lost"));
/// let host = Host::open_in_memory()
///     .with(Registry::new().with(inbox.clone()))
///     .start_local()
///     .await?;
/// // … calls, settles, moves the clock …
/// assert!(inbox.attempts().is_empty());
/// host.shutdown().await
/// # }
/// ```
pub struct Inbox<D: Deliver>(Arc<Inner<D>>);

struct Inner<D: Deliver> {
    handler: D,
    failures: Mutex<VecDeque<Failure>>,
    attempts: Mutex<Vec<Kept>>,
}

/// An attempt with its payload as the outbox stores it.
struct Kept {
    delivery: Delivery,
    payload: serde_json::Result<String>,
    failure: Option<Failure>,
}

/// An attempt at a message.
#[derive(Clone, Debug)]
pub struct Attempt<P> {
    /// The attempt, with its idempotency key and its number.
    pub delivery: Delivery,
    /// The payload.
    pub payload: P,
    /// How it failed; `None` if it was delivered.
    pub failure: Option<Failure>,
}

impl<D: Deliver> Inbox<D> {
    /// An inbox in the place of this handler.
    pub fn of(handler: D) -> Self {
        Self(Arc::new(Inner {
            handler,
            failures: Mutex::default(),
            attempts: Mutex::default(),
        }))
    }

    /// Fails one attempt in this way: the first that does not fail for an earlier call.
    pub fn fail_next(&self, failure: Failure) {
        lock(&self.0.failures).push_back(failure);
    }

    /// All attempts so far, in order.
    ///
    /// # Panics
    /// If a payload cannot be read back from its JSON: the outbox could not either.
    pub fn attempts(&self) -> Vec<Attempt<D::Payload>> {
        let attempts = lock(&self.0.attempts);
        let attempts = attempts.iter().map(|kept| Attempt {
            delivery: kept.delivery.clone(),
            payload: match &kept.payload {
                Ok(json) => serde_json::from_str(json).expect("a payload that can be read back"),
                Err(error) => panic!("a payload cannot be written as JSON: {error}"),
            },
            failure: kept.failure.clone(),
        });
        attempts.collect()
    }

    /// The payloads that were delivered, in order: those of the attempts that did not fail.
    ///
    /// # Panics
    /// As [`attempts`](Self::attempts).
    pub fn delivered(&self) -> Vec<D::Payload> {
        let attempts = self.attempts().into_iter();
        let delivered = attempts.filter(|attempt| attempt.failure.is_none());
        delivered.map(|attempt| attempt.payload).collect()
    }
}

impl<D: Deliver> Deliver for Inbox<D> {
    type Payload = D::Payload;

    const KIND: &'static str = D::KIND;

    fn check(&self, payload: &D::Payload) -> Result<(), String> {
        self.0.handler.check(payload)
    }

    fn destination(&self, payload: &D::Payload) -> String {
        self.0.handler.destination(payload)
    }

    fn origin(&self, payload: &D::Payload) -> Option<String> {
        self.0.handler.origin(payload)
    }

    fn summary(&self, payload: &D::Payload) -> String {
        self.0.handler.summary(payload)
    }

    fn retry(&self) -> Option<RetryPolicy> {
        self.0.handler.retry()
    }

    fn polling(&self) -> Option<Polling> {
        self.0.handler.polling()
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.handler.timeout()
    }

    fn keeps_key(&self) -> bool {
        self.0.handler.keeps_key()
    }

    async fn submit(
        &self,
        delivery: &Delivery,
        payload: &D::Payload,
    ) -> Result<Submitted, Failure> {
        let failure = lock(&self.0.failures).pop_front();
        lock(&self.0.attempts).push(Kept {
            delivery: delivery.clone(),
            payload: serde_json::to_string(payload),
            failure: failure.clone(),
        });
        failure.map_or(Ok(Submitted::Done), Err)
    }

    async fn poll(
        &self,
        _delivery: &Delivery,
        _payload: &D::Payload,
        _operation: &str,
    ) -> Result<Polled, Failure> {
        // Of an operation that the handler itself began, before the test.
        Ok(Polled::Done)
    }
}

impl<D: Deliver> Clone for Inbox<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Deliver> fmt::Debug for Inbox<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("kind", &D::KIND)
            .field("attempts", &lock(&self.0.attempts).len())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
