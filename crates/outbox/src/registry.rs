//! The registry of handlers by kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use abide::{Error, ErrorKind, Result};
use futures_util::FutureExt;

use super::{
    Deliver, Delivery, Failure, FanOut, OutboxMessage, Polled, Polling, RetryPolicy, Submitted,
    fan_out::AnyFanOut, limits, metrics::Board,
};
use abide_component::texts::{Panicked, cut};

/// The handlers of a program. Share one registry with [`HostBuilder::with`](abide::server::HostBuilder::with); then
/// every outbox of the node uses it.
#[derive(Default)]
pub struct Registry {
    handlers: BTreeMap<String, Arc<dyn Handler>>,
    fan_outs: BTreeMap<String, Arc<dyn AnyFanOut>>,
    /// The kinds whose messages clients may write.
    open: BTreeSet<String>,
    /// The metrics of the outboxes with these handlers.
    pub(super) board: Board,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler under its own kind.
    #[must_use]
    pub fn with<D: Deliver>(self, handler: D) -> Self {
        self.with_kind(D::KIND, handler)
    }

    /// Adds a handler under another kind.
    ///
    /// # Panics
    /// If the kind has a handler already, or more than [`limits::MAX_KIND_BYTES`] bytes, or none.
    #[must_use]
    pub fn with_kind<D: Deliver>(mut self, kind: impl Into<String>, handler: D) -> Self {
        let kind = kind.into();
        assert!(
            (1..=limits::MAX_KIND_BYTES).contains(&kind.len()),
            "a kind has 1 to {} bytes: `{kind}`",
            limits::MAX_KIND_BYTES
        );
        let before = self
            .handlers
            .insert(kind.clone(), Arc::new(Typed(Arc::new(handler))));
        assert!(before.is_none(), "kind `{kind}` has two handlers");
        self
    }

    /// Adds a fan-out.
    ///
    /// # Panics
    /// If there is one of this name.
    #[must_use]
    pub fn with_fan_out<F: FanOut>(mut self, fan_out: F) -> Self {
        let before = self.fan_outs.insert(F::NAME.to_owned(), Arc::new(fan_out));
        assert!(before.is_none(), "there are two fan-outs `{}`", F::NAME);
        self
    }

    /// Lets clients of the [HTTP API](crate::service) enqueue messages of this kind, and edit its dead letters.
    /// Otherwise only the program's code writes them, because a handler may sign its payload or act on it.
    ///
    /// # Panics
    /// If the kind has no handler.
    #[must_use]
    pub fn open_to_clients(mut self, kind: impl Into<String>) -> Self {
        let kind = kind.into();
        assert!(
            self.handlers.contains_key(&kind),
            "kind `{kind}` is opened to clients but has no handler"
        );
        self.open.insert(kind);
        self
    }

    /// The kinds whose messages clients may write, in alphabetical order.
    pub fn open_kinds(&self) -> impl Iterator<Item = &str> {
        self.open.iter().map(String::as_str)
    }

    /// The kinds, in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.handlers.keys().map(String::as_str)
    }

    pub(crate) fn handler(&self, kind: &str) -> Result<&Arc<dyn Handler>> {
        self.handlers.get(kind).ok_or_else(|| {
            let known = self.kinds().collect::<Vec<_>>().join("`, `");
            Error::with_kind(
                ErrorKind::Input,
                format!("there is no handler for kind `{kind}`; there is one for `{known}`"),
            )
        })
    }

    pub(crate) fn fan_out(&self, name: &str) -> Result<&Arc<dyn AnyFanOut>> {
        self.fan_outs.get(name).ok_or_else(|| {
            let known = self
                .fan_outs
                .keys()
                .cloned()
                .collect::<Vec<_>>()
                .join("`, `");
            Error::with_kind(
                ErrorKind::Input,
                format!("there is no fan-out `{name}`; there is `{known}`"),
            )
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("kinds", &self.handlers.keys())
            .field("fan_outs", &self.fan_outs.keys())
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// A handler's description of a payload, before it is enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) destination: String,
    pub(crate) origin: Option<String>,
    pub(crate) summary: String,
}

pub(crate) type Attempt<T> = Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

/// A [`Deliver`] without its type. Its futures do not panic.
pub(crate) trait Handler: Send + Sync {
    fn accept(&self, payload: &str) -> Result<Accepted, String>;
    /// Whether two payloads are equal to the handler, however they are written.
    fn says_the_same(&self, one: &str, other: &str) -> bool;
    fn retry(&self) -> Option<RetryPolicy>;
    fn polling(&self) -> Option<Polling>;
    fn timeout(&self) -> Option<Duration>;
    fn keeps_key(&self) -> bool;
    fn submit(&self, delivery: Delivery, payload: String) -> Attempt<Submitted>;
    fn poll(&self, delivery: Delivery, payload: String, operation: String) -> Attempt<Polled>;
}

struct Typed<D>(Arc<D>);

impl<D: Deliver> Handler for Typed<D> {
    fn accept(&self, payload: &str) -> Result<Accepted, String> {
        let payload = decode::<D>(payload)?;
        self.0.check(&payload)?;
        let destination = self.0.destination(&payload);
        let origin = self.0.origin(&payload);
        for (what, name) in [
            ("destination", Some(&destination)),
            ("origin", origin.as_ref()),
        ] {
            let bytes = name.map_or(0, String::len);
            if bytes > limits::MAX_DESTINATION_BYTES {
                return Err(format!(
                    "the {what} has {bytes} bytes; at most {} are allowed",
                    limits::MAX_DESTINATION_BYTES
                ));
            }
        }
        let summary = cut(self.0.summary(&payload), limits::MAX_SUMMARY_BYTES);
        Ok(Accepted {
            destination,
            origin,
            summary,
        })
    }

    fn says_the_same(&self, one: &str, other: &str) -> bool {
        let read = |payload: &str| serde_json::to_string(&decode::<D>(payload).ok()?).ok();
        one == other || read(one).is_some_and(|one| read(other) == Some(one))
    }

    fn retry(&self) -> Option<RetryPolicy> {
        self.0.retry()
    }

    fn polling(&self) -> Option<Polling> {
        self.0.polling()
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.timeout()
    }

    fn keeps_key(&self) -> bool {
        self.0.keeps_key()
    }

    fn submit(&self, delivery: Delivery, payload: String) -> Attempt<Submitted> {
        let handler = Arc::clone(&self.0);
        caught(async move {
            let payload = decode::<D>(&payload).map_err(Failure::permanent)?;
            handler.submit(&delivery, &payload).await
        })
    }

    fn poll(&self, delivery: Delivery, payload: String, operation: String) -> Attempt<Polled> {
        let handler = Arc::clone(&self.0);
        caught(async move {
            let payload = decode::<D>(&payload).map_err(Failure::permanent)?;
            handler.poll(&delivery, &payload, &operation).await
        })
    }
}

fn decode<D: Deliver>(payload: &str) -> Result<D::Payload, String> {
    serde_json::from_str(payload)
        .map_err(|error| format!("the payload does not match its kind: {error}"))
}

/// A handler that panics has failed its attempt, and may have sent something before.
fn caught<T: 'static>(attempt: impl Future<Output = Result<T, Failure>> + 'static) -> Attempt<T> {
    let attempt = AssertUnwindSafe(attempt).catch_unwind();
    Box::pin(async move {
        attempt.await.unwrap_or_else(|panic| {
            let Panicked { text, shown } = Panicked::new("the handler", &*panic);
            tracing::error!(%text, error = shown, "a handler of the outbox panicked; its message is retried");
            Err(Failure::temporary(shown))
        })
    })
}

impl dyn Handler {
    /// The handler's rejection, as an error for the caller.
    pub(crate) fn take(&self, message: &OutboxMessage) -> Result<Accepted> {
        self.accept(&message.payload).map_err(|why| {
            Error::with_kind(
                ErrorKind::Input,
                format!("a message of kind `{}` was refused: {why}", message.kind),
            )
        })
    }
}
