//! Components on durable objects, each behind the feature of its name and built on the public API of `abide` alone.
//!
//! - [`outcomes`]: event sourcing: an object whose only authoritative table is its chain of outcomes.
//! - [`party`]: rooms for the clients of `PartyKit`, such as `partysocket`.
//! - [`patterns`]: limiters, locks, sessions, shards, leaderboards, presence, retries, cleanup.
//! - [`projection`]: rows of many objects in one read model, in SQLite or `PostgreSQL`, that can be queried across them.
//! - [`queue`]: durable queues made of sharded objects, consumed in batches.
//! - [`schedule`]: many named timers: one-shot, at intervals, or cron, with retries.
//! - [`workflow`]: durable functions that run to completion, even across crashes.
//! - [`yjs`]: documents that several people edit at once, by the protocols of Yjs.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

// Examples name the core as users do: as the crate `abide`.
extern crate abide_core as abide;

pub mod limits;
#[cfg(feature = "outcomes")]
pub mod outcomes;
#[cfg(feature = "party")]
pub mod party;
#[cfg(feature = "patterns")]
pub mod patterns;
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
