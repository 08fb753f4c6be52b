//! The durable outbox: messages to the outside world, written with the object's state and delivered at least once.
//!
//! An object with an [`Outbox`] enqueues [`OutboxMessage`]s in the transaction that changes its state. A background task then
//! passes each to the [`Deliver`] implementation of its kind, repeatedly if necessary, until it is delivered or has
//! become a dead letter, which waits for an operator.
//!
//! - Every message is delivered at least once, with the same idempotency key on every attempt.
//! - If the receiver honours the key, the effect is exactly once.
//! - No message is ever lost: one that cannot be delivered is kept as a dead letter, with the reason.
//!
//! ```
//! use abide::prelude::*;
//! use abide::outbox::{self, Deliver, Delivery, Failure, OutboxOptions, Outbox, Registry, Submitted};
//! use serde::{Deserialize, Serialize};
//! use std::sync::Arc;
//!
//! /// A text and its receiver.
//! #[derive(Serialize, Deserialize)]
//! struct Greeting {
//!     url: String,
//!     text: String,
//! }
//!
//! /// Both sides of a kind.
//! struct Greeter;
//!
//! impl Deliver for Greeter {
//!     type Payload = Greeting;
//!     const KIND: &'static str = "greeting";
//!
//!     async fn submit(&self, delivery: &Delivery, greeting: &Greeting) -> Result<Submitted, Failure> {
//!         let request = abide::http::Request::post(&greeting.url)
//!             .header("idempotency-key", delivery.idempotency_key())
//!             .body(Body::from(greeting.text.clone()))?;
//!         match delivery.fetch(request).await?.status() {
//!             status if status.is_success() => Ok(Submitted::Done),
//!             status => Err(Failure::temporary(status.to_string())),
//!         }
//!     }
//! }
//!
//! #[durable_object]
//! struct Members {
//!     ctx: Ctx,
//!     outbox: Outbox,
//! }
//!
//! impl DurableObject for Members {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         ctx.sql().exec("CREATE TABLE IF NOT EXISTS members (name TEXT PRIMARY KEY)", ())?;
//!         let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
//!         Ok(Self { ctx, outbox })
//!     }
//! }
//!
//! #[rpc]
//! impl Members {
//!     pub async fn join(&self, name: String) -> Result<()> {
//!         // One transaction anyway; this undoes the one if the other is refused.
//!         self.ctx.storage().transaction(|| {
//!             self.ctx.sql().exec("INSERT INTO members VALUES (?1)", (&name,))?;
//!             let greeting = Greeting { url: "https://example.com/greetings".into(), text: format!("welcome, {name}") };
//!             Greeter::enqueue(&self.outbox, &greeting)?;
//!             Ok(())
//!         })
//!     }
//! }
//!
//! # fn main() {
//! let host = abide::Host::builder("data")
//!     .with(Registry::new().with(Greeter))
//!     .object::<Members>();
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

// Examples name the core as users do: as the crate `abide`.
extern crate abide_core as abide;

mod agenda;
mod bucket;
mod callbacks;
mod changes;
mod claim;
mod claims;
#[cfg(test)]
mod costs;
mod dead_letters;
mod deliver;
mod destination;
mod destinations;
mod error;
mod fan_out;
mod flights;
#[cfg(feature = "server")]
pub(crate) mod forms;
pub mod handlers;
mod held;
mod history;
mod inherited;
mod inner;
// Users find them in `abide::limits`.
#[doc(hidden)]
pub mod limits;
mod list;
#[cfg(feature = "server")]
pub mod live;
mod message;
mod meta;
mod metrics;
mod notes;
#[cfg(feature = "server")]
pub(crate) mod operations;
mod options;
mod order;
mod outcome;
mod overload;
mod passes;
mod poll_turns;
mod polls;
mod pump;
mod ready;
#[cfg(feature = "server")]
pub(crate) mod redaction;
#[cfg(feature = "server")]
pub(crate) mod refusal;
mod registry;
mod rows;
mod schema;
#[cfg(feature = "server")]
pub mod service;
mod settle;
mod sql;
mod throttle;
mod turns;

use std::rc::Rc;

use abide::{Ctx, Result};

use inner::{Added, Inner};

/// The name of the outbox's component and alarm in the runtime.
const NAME: &str = "outbox";

pub use abide_component::{Failure, FailureKind};
pub use callbacks::{Ended, OwedCallback};
pub use dead_letters::BulkResult;
pub use deliver::{Deliver, Delivery, Polled, Submitted};
pub use destination::Destination;
pub use error::OutboxError;
pub use fan_out::{Batch, FanOut, FanOutRecord, FanOutStatus};
pub use list::{DeadLetterFilter, MessageFilter, Page};
pub use message::{Change, Counts, Enqueued, OutboxMessage, Priority, Record, Status};
pub use options::{BehindDeadLetter, Breaker, GiveUp, Limit, OutboxOptions, Pace, Polling, Rate};
pub use registry::Registry;

use abide_component::{numbers::millis, worker};

pub use abide_component::RetryPolicy;

/// An object's outbox. Clones refer to the same outbox.
#[derive(Clone, Debug)]
pub struct Outbox(Rc<Inner>);

impl Outbox {
    /// Opens the outbox of an object, in its constructor; creates its tables, whose names begin with `outbox_`, if they
    /// do not exist. Its messages are delivered by the handlers of the [`Registry`] that the host was given with
    /// `with(registry)`. Messages that were in flight when the object or its process stopped are queued again, as unknown,
    /// when the constructor has returned.
    ///
    /// The outbox has an [alarm](abide::Ctx::alarm) and a component named `outbox`; the object's own alarm remains
    /// the object's.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](abide::ErrorKind::Input) if an option is invalid or the object already has an outbox,
    /// [`ErrorKind::NotFound`](abide::ErrorKind::NotFound) if the host was given no registry,
    /// [`ErrorKind::Damaged`](abide::ErrorKind::Damaged) if this program does not know the version of the tables.
    pub fn open(ctx: &Ctx, options: OutboxOptions) -> Result<Self> {
        options.check()?;
        let registry = ctx.env().require::<Registry>()?;
        let inner = Inner::open(ctx, registry, options)?;
        let woken = Rc::clone(&inner);
        ctx.on_alarm(NAME, move |_| std::future::ready(woken.wake()))?;
        let (asked, told) = (Rc::clone(&inner), Rc::clone(&inner));
        ctx.has_duties(NAME, move || asked.holds());
        ctx.on_delete_all(move || told.rows.are_deleted());
        let (copied, ended) = (Rc::clone(&inner), Rc::clone(&inner));
        ctx.on_end(move || ended.forget_functions());
        ctx.on_activation(move |how| copied.activated(how));
        inner.rows.apply_order()?;
        if inner.has_work()? {
            // The task settles attempts that were cut off, when the object has registered its callbacks.
            inner.guard()?;
            inner.kick();
        }
        inner.show(inner.now())?;
        let outbox = Self(inner);
        #[cfg(feature = "server")]
        outbox.serve_operators(ctx)?;
        Ok(outbox)
    }

    /// True if an object already has an outbox. Opening one creates its tables; a class whose objects may be read
    /// before they hold anything can defer that to the first message.
    pub fn exists(ctx: &Ctx) -> Result<bool> {
        schema::exists(ctx.storage())
    }

    /// Calls a function with changed messages, in their current state, soon after each change and once for several
    /// consecutive changes. What the function sends leaves when the changes are durable.
    ///
    /// It is for views, which can read the current state whenever the object starts: what has changed is known in
    /// memory only, so it is not called for changes just before the object was reset or its process ended. To act on
    /// the end of a message use [`on_sent`](Self::on_sent) and [`on_failed`](Self::on_failed).
    pub fn on_change(&self, listener: impl Fn(&[Record]) + 'static) {
        let changes = &self.0.rows.changes;
        let tell = move |records: &[Record], _: &[i64]| {
            if !records.is_empty() {
                listener(records);
            }
        };
        changes.listen(Rc::new(|| true), Rc::new(tell));
    }

    /// Enqueues a message, in the transaction of the current poll. A refused message leaves nothing of itself, but does
    /// not roll back the poll's earlier writes: put both into one `transaction`, and both are written or neither
    /// is.
    pub fn enqueue(&self, message: &OutboxMessage) -> Result<Enqueued, OutboxError> {
        let inner = &self.0;
        let now = inner.now();
        let at = message.not_before.map_or(now, |at| at.max(now));
        let added = inner.rows.storage.transaction(|| {
            let added = inner.add(message, None, now)?;
            if let Added::New(_) = added {
                self.carry_on(at, now)?;
            }
            Ok::<_, OutboxError>(added)
        })?;
        Ok(match added {
            Added::Known(id) => Enqueued {
                id,
                duplicate: true,
            },
            Added::New(id) => Enqueued {
                id,
                duplicate: false,
            },
        })
    }

    /// Begins a fan-out, in the transaction of the current poll; returns its id. Its messages follow, one batch at a
    /// time. A refused fan-out behaves like a refused message.
    pub fn fan_out<F: FanOut>(&self, command: &F::Command) -> Result<i64, OutboxError> {
        let inner = &self.0;
        let now = inner.now();
        if let Err(error) = inner.registry.fan_out(F::NAME) {
            return Err(OutboxError::Invalid(error.message().to_owned()));
        }
        let command = serde_json::to_string(command)
            .map_err(|error| OutboxError::Invalid(error.to_string()))?;
        if command.len() > limits::MAX_PAYLOAD_BYTES {
            return Err(OutboxError::Invalid(format!(
                "the command has {} bytes; at most {} are accepted",
                command.len(),
                limits::MAX_PAYLOAD_BYTES
            )));
        }
        inner.rows.storage.transaction(|| {
            let id = fan_out::insert(&inner.rows.sql, F::NAME, &command, now)?;
            inner.rows.agenda_changes();
            self.carry_on(now, now)?;
            Ok(id)
        })
    }

    /// Fan-outs, newest first.
    pub fn fan_outs(&self, limit: usize) -> Result<Vec<FanOutRecord>> {
        fan_out::list(&self.0.rows.sql, limit.min(limits::MAX_PAGE))
    }

    /// Cancels a fan-out that is running or has failed. The messages that it has created remain.
    pub fn cancel_fan_out(&self, id: i64) -> Result<FanOutRecord, OutboxError> {
        fan_out::cancel(&self.0.rows.sql, id, self.0.now())
    }

    /// Continues a failed or canceled fan-out where it stopped.
    pub fn resume_fan_out(&self, id: i64) -> Result<FanOutRecord, OutboxError> {
        let now = self.0.now();
        self.0.rows.storage.transaction(|| {
            let record = fan_out::resume(&self.0.rows.sql, id, now)?;
            self.0.rows.agenda_changes();
            self.carry_on(now, now)?;
            Ok(record)
        })
    }

    /// Ends the pause of a destination, whether the destination asked for it or its circuit breaker has opened: due
    /// messages are sent to it. True if the destination is known.
    pub fn resume(&self, destination: &str) -> Result<bool> {
        let now = self.0.now();
        let known = destination::resume(&self.0.rows.sql, destination, now)?;
        self.0.rows.forget_destinations();
        self.carry_on(now, now)?;
        Ok(known)
    }

    /// The number of messages in each status.
    pub fn counts(&self) -> Result<Counts> {
        self.0.rows.counts()
    }

    /// Destinations, failing ones first.
    pub fn destinations(&self, limit: usize) -> Result<Vec<Destination>> {
        destination::list(&self.0.rows.sql, limit.min(limits::MAX_PAGE))
    }

    /// Failing destinations: those that have failed since their last response, or are paused.
    pub fn failing_destinations(&self, limit: usize) -> Result<Vec<Destination>> {
        let now = self.0.now();
        let mut found = destination::with_trouble(&self.0.rows.sql, limit.min(limits::MAX_PAGE))?;
        found.retain(|to| to.failures > 0 || to.paused_until.is_some_and(|until| until > now));
        Ok(found)
    }

    /// Wakes the task if something is due soon, and sets the alarm in case the task stops.
    fn carry_on(&self, at: i64, now: i64) -> Result<()> {
        let soon = at <= now.saturating_add(millis(worker::SOON));
        if soon {
            self.0.guard()?;
        } else {
            self.0.arm(at)?;
        }
        if soon || self.0.rows.changes.are_there() {
            self.0.kick();
        }
        Ok(())
    }
}
