//! Components on durable objects, each behind the feature of its name and built on the public API of `abide` alone.
//!
//! - [`outcomes`]: event sourcing, an object whose only table of truth is its chain of outcomes.
//! - [`party`]: rooms for the clients of `PartyKit`: connections with ids, tags and state, broadcasts.
//! - [`projection`]: rows of many objects in one read model, in SQLite or `PostgreSQL`, that can be queried across them.
//! - [`queue`]: durable queues made of sharded objects, consumed in batches.
//! - [`schedule`]: many named timers: once, at intervals, or as cron says, with retries.
//! - [`workflow`]: functions that are run to their end, whatever happens to the process meanwhile.
//! - [`yjs`]: documents that several people edit at once, by the protocols of Yjs, in the object's database.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

// Users see what components are built on, with the components, as the crate `abide`.
extern crate abide_core as abide;

#[doc(hidden)]
pub mod broken;
#[cfg(feature = "outcomes")]
pub mod outcomes;
#[cfg(feature = "party")]
pub mod party;
#[cfg(feature = "projection")]
pub mod projection;
#[cfg(feature = "queue")]
pub mod queue;
#[cfg(feature = "schedule")]
pub mod schedule;
#[cfg(feature = "workflow")]
pub mod workflow;
#[cfg(feature = "yjs")]
pub mod yjs;
