//! Handlers: they deliver messages of a kind.
//!
//! Contract: a handler receives a payload of its own type, makes one attempt, and returns the result. It keeps no
//! memory of messages, knows nothing of retries, and may be called again with the same idempotency key. When it is
//! called, the attempt is on disk. It may panic or hang: the outbox stops it and records that in the row.

use std::{future::Future, time::Duration};

use abide::{Call, Env, ObjectId, Request, Response, Result};
use abide_component::Failure;
use serde::{Serialize, de::DeserializeOwned};

use super::{Enqueued, Outbox, OutboxError, OutboxMessage, Polling, RetryPolicy};

/// Delivers messages of one kind.
///
/// It defines both sides of a kind: the payload's type, how it is sent, and [`enqueue`](Self::enqueue).
pub trait Deliver: Send + Sync + 'static {
    /// The payload of a message. Stored as JSON.
    type Payload: Serialize + DeserializeOwned + 'static;

    /// The kind in the rows, unless the registry overrides it.
    const KIND: &'static str;

    /// Validates a payload when it is enqueued; an error's text says what is valid. `Err` enqueues nothing.
    fn check(&self, payload: &Self::Payload) -> Result<(), String> {
        let _ = payload;
        Ok(())
    }

    /// The destination: messages to one destination share a rate, pauses, a circuit breaker and, unless it has an
    /// [`origin`](Self::origin), a limit of concurrent attempts. For HTTP: scheme, host and port; for webhooks: the
    /// endpoint.
    fn destination(&self, payload: &Self::Payload) -> String {
        let _ = payload;
        Self::KIND.to_owned()
    }

    /// The group of destinations that shares a limit of concurrent attempts, if it is more than the destination: for
    /// webhooks, the scheme, host and port that several endpoints may have in common. All messages to a destination
    /// have the same origin.
    fn origin(&self, payload: &Self::Payload) -> Option<String> {
        let _ = payload;
        None
    }

    /// A line for people that identifies the message.
    fn summary(&self, payload: &Self::Payload) -> String {
        let _ = payload;
        String::new()
    }

    /// When failed attempts are retried, if it differs from the outbox's policy.
    fn retry(&self) -> Option<RetryPolicy> {
        None
    }

    /// How operations are polled, if it differs from the outbox's policy.
    fn polling(&self) -> Option<Polling> {
        None
    }

    /// How long an attempt or a poll may take, if it differs from the outbox's setting.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether a dead letter keeps its idempotency key when it is redriven, even if it had no effect: true where the
    /// key only identifies duplicates, as `webhook-id` does. A receiver that remembers failures under a key needs a new
    /// one.
    fn keeps_key(&self) -> bool {
        false
    }

    /// Makes one attempt.
    fn submit(
        &self,
        delivery: &Delivery,
        payload: &Self::Payload,
    ) -> impl Future<Output = Result<Submitted, Failure>>;

    /// Polls an operation that [`submit`](Self::submit) has begun. An `Err` means that there was no response, not that
    /// the operation failed.
    fn poll(
        &self,
        delivery: &Delivery,
        payload: &Self::Payload,
        operation: &str,
    ) -> impl Future<Output = Result<Polled, Failure>> {
        let _ = (delivery, payload, operation);
        std::future::ready(Err(Failure::permanent(
            "the handler of this kind cannot poll operations",
        )))
    }

    /// A message with this payload, to which keys and times can be added.
    fn message(payload: &Self::Payload) -> Result<OutboxMessage>
    where
        Self: Sized,
    {
        OutboxMessage::new(Self::KIND, payload)
    }

    /// Enqueues a message with this payload.
    fn enqueue(outbox: &Outbox, payload: &Self::Payload) -> Result<Enqueued, OutboxError>
    where
        Self: Sized,
    {
        outbox.enqueue(&Self::message(payload)?)
    }
}

/// An attempt, as its handler sees it.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub(crate) env: Env,
    pub(crate) object: ObjectId,
    pub(crate) id: i64,
    pub(crate) kind: String,
    pub(crate) idempotency_key: String,
    pub(crate) attempt: u32,
    pub(crate) unknown: bool,
    pub(crate) created_at: i64,
    pub(crate) first_attempt_at: i64,
    pub(crate) now: i64,
}

impl Delivery {
    /// A first attempt without an outbox, so tests can call a handler. It belongs to the first message of the object
    /// whose id is all zeros.
    pub fn outside(
        env: &Env,
        kind: impl Into<String>,
        idempotency_key: impl Into<String>,
    ) -> Result<Self> {
        let now = now(env);
        Ok(Self {
            env: env.clone(),
            object: "0".repeat(64).parse()?,
            id: 1,
            kind: kind.into(),
            idempotency_key: idempotency_key.into(),
            attempt: 1,
            unknown: false,
            created_at: now,
            first_attempt_at: now,
            now,
        })
    }

    /// The next attempt, now, after a failed one or one whose response was lost, as an outbox makes it; for tests.
    #[must_use]
    pub fn again(&self, unknown: bool) -> Self {
        Self {
            attempt: self.attempt + 1,
            unknown: self.unknown || unknown,
            now: now(&self.env),
            ..self.clone()
        }
    }

    /// The environment, for calls of other objects.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The object whose outbox this is.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// The message's id in its outbox.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The message's kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The same for every attempt at this message, and for no other. 36 characters of `[a-z0-9_]`.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// True if the response to an earlier attempt was lost, so the attempt may have had its effect.
    pub fn unknown(&self) -> bool {
        self.unknown
    }

    /// When the message was enqueued, in milliseconds since 1970.
    pub fn created_at(&self) -> i64 {
        self.created_at
    }

    /// When the first attempt with this idempotency key began, in milliseconds since 1970.
    pub fn first_attempt_at(&self) -> i64 {
        self.first_attempt_at
    }

    /// When this attempt began, in milliseconds since 1970.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Sends an HTTP request through the node's client, with its address policy.
    pub fn fetch(&self, request: Request) -> Call<Response> {
        self.env.fetch(request)
    }
}

fn now(env: &Env) -> i64 {
    env.now().unix_millis()
}

/// An accepted submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Delivered.
    Done,
    /// The receiver has accepted it and is processing it.
    Accepted {
        /// The operation that [`Deliver::poll`] polls: a URL, or an id.
        operation: String,
        /// When to poll first, if the receiver said.
        after: Option<Duration>,
    },
}

/// The state of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Not finished.
    Running {
        /// When to poll again, if the receiver said.
        after: Option<Duration>,
    },
    /// It has succeeded.
    Done,
    /// It has failed, and had no effect.
    Failed {
        /// The reason.
        error: String,
        /// Whether to retry with a new operation.
        retry: bool,
    },
}
