//! Handlers: what carries messages of a kind to where they go.
//!
//! Contract: a handler is given a payload that its own type has taken from the row, tries once, and says how it went. It
//! keeps no memory of messages, knows nothing of retries, and may be called again with the same idempotency key. When it
//! is called, the attempt is on disk. It may panic or hang: the outbox ends it and writes that to the row.

use std::{future::Future, time::Duration};

use abide::{Call, Env, ObjectId, Request, Response, Result};
use serde::{Serialize, de::DeserializeOwned};

use super::{Enqueued, Message, Outbox, OutboxError, Polling, RetryPolicy};

/// Delivers messages of one kind.
///
/// Producer and consumer stand in one place: the payload's type, how it is sent, and [`enqueue`](Self::enqueue).
pub trait Deliver: Send + Sync + 'static {
    /// What a message says. Kept as JSON.
    type Payload: Serialize + DeserializeOwned + 'static;

    /// The kind that rows carry, unless the registry is given another name.
    const KIND: &'static str;

    /// Refuses a payload when it is enqueued; the text says what would do. `Err` enqueues nothing.
    fn check(&self, payload: &Self::Payload) -> Result<(), String> {
        let _ = payload;
        Ok(())
    }

    /// Where it goes to: messages to one destination share a rate, pauses, a circuit breaker and, unless it has an
    /// [`origin`](Self::origin), a number of attempts at a time. For HTTP: scheme, host and port; for webhooks: the endpoint.
    fn destination(&self, payload: &Self::Payload) -> String {
        let _ = payload;
        Self::KIND.to_owned()
    }

    /// What destinations share a number of attempts at a time with, if it is more than the destination: for webhooks the scheme,
    /// host and port that several endpoints may have. All messages to a destination have the same.
    fn origin(&self, payload: &Self::Payload) -> Option<String> {
        let _ = payload;
        None
    }

    /// A line for people that tells the message from others.
    fn summary(&self, payload: &Self::Payload) -> String {
        let _ = payload;
        String::new()
    }

    /// When failed attempts are repeated, if not as the outbox does.
    fn retry(&self) -> Option<RetryPolicy> {
        None
    }

    /// How operations are polled, if not as the outbox does.
    fn polling(&self) -> Option<Polling> {
        None
    }

    /// How long an attempt or a poll may take, if not as long as the outbox says.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether a dead letter keeps its idempotency key when it is redriven, also if it had no effect: so where the key only
    /// tells duplicates, as `webhook-id` does. A receiver that remembers failures under a key needs a new one.
    fn keeps_key(&self) -> bool {
        false
    }

    /// Tries once.
    fn submit(
        &self,
        delivery: &Delivery,
        payload: &Self::Payload,
    ) -> impl Future<Output = Result<Submitted, Failure>>;

    /// Asks how an operation goes that [`submit`](Self::submit) has begun. An `Err` is an answer that could not be had,
    /// not the operation's failure.
    fn poll(
        &self,
        delivery: &Delivery,
        payload: &Self::Payload,
        operation: &str,
    ) -> impl Future<Output = Result<Polled, Failure>> {
        let _ = (delivery, payload, operation);
        std::future::ready(Err(Failure::permanent(
            "this kind's handler cannot ask about operations",
        )))
    }

    /// A message with this payload, to be given keys and times.
    fn message(payload: &Self::Payload) -> Result<Message>
    where
        Self: Sized,
    {
        Message::new(Self::KIND, payload)
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
    /// A first attempt that no outbox makes, so that tests can call a handler. It is of the first message of the object
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

    /// The next attempt, now, after one that failed, or whose answer was lost: what an outbox does, for tests.
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

    /// The same for every attempt of this message, and of no other. 36 characters of `[a-z0-9_]`.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// True if the answer to an earlier attempt was lost, so that it may have had its effect.
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
    i64::try_from(env.clock().unix_millis()).unwrap_or(i64::MAX)
}

/// A submission that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It is delivered.
    Done,
    /// It is being worked on.
    Accepted {
        /// What [`Deliver::poll`] asks about: a URL, or an id.
        operation: String,
        /// When to ask first, if the receiver said.
        after: Option<Duration>,
    },
}

/// How an operation goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Not at its end.
    Running {
        /// When to ask again, if the receiver said.
        after: Option<Duration>,
    },
    /// It has succeeded.
    Done,
    /// It has failed, and had no effect.
    Failed {
        /// Why.
        error: String,
        /// Whether to begin another one.
        retry: bool,
    },
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub(crate) fate: Fate,
    pub(crate) error: String,
    /// How long the destination asked to be left alone.
    pub(crate) after: Option<Duration>,
    /// Whether it may have had its effect, whatever its fate.
    pub(crate) after_effect: bool,
    /// Whether the receiver remembers the failure under the idempotency key.
    pub(crate) remembered: bool,
}

/// What a failed attempt means for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing has left: this node is too busy. Not counted as an attempt.
    NotSent,
    /// It had no effect, and may have one another time.
    Refused,
    /// As before, and it says nothing against the destination: it is there and asks for patience.
    Throttled,
    /// The answer was lost: it may have had its effect.
    Unknown,
    /// As before, because this end was cut off: it says nothing against the destination.
    CutOff,
    /// It will never be taken.
    Permanent,
}

impl Failure {
    /// The receiver could not take it now, and it had no effect: it is tried again.
    pub fn refused(error: impl Into<String>) -> Self {
        Self::new(Fate::Refused, error)
    }

    /// The receiver wants to be asked less often: it is tried again, and nothing is sent to this destination for so long.
    pub fn throttled(error: impl Into<String>, after: Option<Duration>) -> Self {
        Self {
            after,
            ..Self::new(Fate::Throttled, error)
        }
    }

    /// It was sent and the answer was lost, so it may have had its effect: it is tried again with the same
    /// idempotency key.
    pub fn unknown(error: impl Into<String>) -> Self {
        Self::new(Fate::Unknown, error)
    }

    /// It cannot succeed as it is: it goes to the dead letters at once, and is redriven with a new idempotency key unless
    /// it is [after its effect](Self::after_effect).
    pub fn permanent(error: impl Into<String>) -> Self {
        Self::new(Fate::Permanent, error)
    }

    /// Nothing has left this node, which has too much to do: it is tried again soon, and this was no attempt.
    pub fn not_sent(error: impl Into<String>) -> Self {
        Self::new(Fate::NotSent, error)
    }

    /// What it means for the message.
    pub fn fate(&self) -> Fate {
        self.fate
    }

    /// What went wrong.
    pub fn error(&self) -> &str {
        &self.error
    }

    /// How long the destination asked to be left alone.
    pub fn after(&self) -> Option<Duration> {
        self.after
    }

    /// Leaves the destination alone for so long (`Retry-After`).
    #[must_use]
    pub fn retry_after(mut self, after: Option<Duration>) -> Self {
        self.after = after;
        self
    }

    /// Says of a failure that it came when the message may have had its effect already: its dead letter is `unknown`, and
    /// redriven with the same idempotency key.
    #[must_use]
    pub fn after_effect(mut self) -> Self {
        self.after_effect = true;
        self
    }

    /// Says of a failure that the receiver gives it again under the same idempotency key, and that no attempt with the key had an
    /// effect: the next attempt has a new one.
    #[must_use]
    pub fn remembered(mut self) -> Self {
        self.remembered = true;
        self
    }

    /// The object or its process ended before the answer came.
    pub(crate) fn cut_off() -> Self {
        Self::new(
            Fate::CutOff,
            "the object or its process ended before the answer came",
        )
    }

    fn new(fate: Fate, error: impl Into<String>) -> Self {
        Self {
            fate,
            error: error.into(),
            after: None,
            after_effect: matches!(fate, Fate::Unknown | Fate::CutOff),
            remembered: false,
        }
    }
}
