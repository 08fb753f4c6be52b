//! Patterns on durable objects, each built on the public API of `abide` alone.
//!
//! - [`alarm`]: when a component wants its object to be woken.
//! - [`deliver`]: handlers for what most outboxes send: HTTP requests, webhooks, mails, calls of other objects.
//! - [`outbox`]: what an object must tell the world, written with its state and delivered for certain.
//! - [`outcomes`]: event sourcing, an object whose only table of truth is its chain of outcomes.
//! - [`projection`]: rows of many objects in one read model, in SQLite or `PostgreSQL`, that can be queried across them.
//! - [`queue`]: durable queues made of sharded objects, consumed in batches.
//! - [`schedule`]: many named timers: once, at intervals, or as cron says, with retries.
//! - [`service`]: the same as a ready-made class with an HTTP API, for programs in any language.
//! - [`workflow`]: functions that are run to their end, whatever happens to the process meanwhile.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

#[cfg(doctest)]
mod guides;

pub mod alarm;
#[doc(hidden)]
pub mod broken;
pub mod deliver;
mod numbers;
mod operating;
pub mod outbox;
pub mod outcomes;
pub mod projection;
pub mod queue;
mod retry;
pub mod schedule;
mod seen;
pub mod service;
mod tables;
mod texts;
mod waits;
pub mod workflow;
