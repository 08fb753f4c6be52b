//! Durable objects for Rust.
//!
//! An object has a name, runs on one thread, and owns a private SQLite database. Its code is plain sequential Rust: all
//! writes between two awaits are one transaction, and nothing the object sends leaves before its earlier writes are
//! durable.
//!
//! ```
//! use abide::prelude::*;
//!
//! #[durable_object]
//! pub struct Counter {
//!     ctx: Ctx,
//! }
//!
//! impl DurableObject for Counter {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         Ok(Self { ctx })
//!     }
//! }
//!
//! #[rpc]
//! impl Counter {
//!     pub fn add(&self, amount: i64) -> Result<i64> {
//!         let storage = self.ctx.storage();
//!         let value = storage.get("value")?.unwrap_or(0) + amount;
//!         storage.put("value", &value)?;
//!         Ok(value)
//!     }
//! }
//!
//! async fn somewhere(env: &Env) -> Result<i64> {
//!     let counter: Stub<Counter> = env.object::<Counter>().get_by_name("visits");
//!     counter.add(1).await
//! }
//! ```
//!
//! - [`DurableObject`], [`Ctx`], [`Storage`], [`Sql`]: what an object is made of.
//! - [`Env`], [`Namespace`], [`Stub`], [`Call`]: finding and calling objects.
//! - [`Error`]: what went wrong and what to do.
//! - [`Node`]: runs objects on a [`Store`](storage::Store); [`Registrar`]: what classes are registered with.
//!
//! # What you need not do
//!
//! - **Lock.** An object's handlers run on one thread. While one waits at an `await`, another may run, and at no other
//!   time; [`Ctx::block_concurrency_while`] prevents even that.
//! - **Begin and commit.** All writes between two awaits are one transaction. A panic rolls it back and resets the
//!   object. An `Err` rolls back a method or handler that is not `async`, and a closure in [`Storage::transaction`]; what
//!   an `async` one has written remains.
//! - **Wait for the disk.** Storage calls return at once; responses, results and calls to other objects leave when the
//!   earlier writes are durable. [`PutOptions::allow_unconfirmed`] exempts a write.
//! - **Manage lifetimes.** An object is activated by its first event and leaves memory when it has been idle; its
//!   storage persists.
//!
//! # Testing
//!
//! A node runs on an in-memory disk, with a clock that stands still until the test advances it:
//!
//! ```
//! # use abide::prelude::*;
//! # #[durable_object]
//! # pub struct Counter { ctx: Ctx }
//! # impl DurableObject for Counter {
//! #     fn new(ctx: Ctx, _env: Env) -> Result<Self> { Ok(Self { ctx }) }
//! # }
//! # #[rpc]
//! # impl Counter {
//! #     pub async fn add(&self, amount: i64) -> Result<i64> {
//! #         let value = self.ctx.storage().get("value")?.unwrap_or(0) + amount;
//! #         self.ctx.storage().put("value", &value)?;
//! #         Ok(value)
//! #     }
//! # }
//! use abide::{Node, clock::TestClock, storage::{SimDisk, Store, StoreOptions}};
//! use std::{path::Path, sync::Arc, time::Duration};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! let clock = TestClock::new();
//! let store = Store::open(Arc::new(SimDisk::new()), Path::new("/data"), StoreOptions::small())?;
//! let node = Node::builder(store)
//!     .class::<Counter>(ClassOptions::default())
//!     .clock(Arc::new(clock.clone()))
//!     .start()?;
//!
//! let counter = node.env().object::<Counter>().get_by_name("visits");
//! assert_eq!(counter.add(2).await?, 2);
//! clock.advance(Duration::from_secs(10));
//! node.settle().await?; // what is due has run: the object has left memory …
//! assert_eq!(counter.add(3).await?, 5); // … and comes back from storage
//!
//! node.shutdown(Duration::from_secs(1)).await?;
//! node.store().close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | provides |
//! |---|---|
//! | `server` (by default) | [`Host`]: HTTP gateway, admin listener, settings, logs and metrics |
//! | `clap` | arguments of a host's command line |
//! | `outbox` | [`outbox`]: messages to the outside world, written with the object's state and delivered at least once |
//! | `smtp` | email for an outbox, through an SMTP relay or Azure Communication Services |
//! | `schedule` | [`schedule`]: many named timers: one-shot, at intervals, or cron, with retries |
//! | `queue` | [`queue`]: durable queues made of sharded objects, consumed in batches |
//! | `projection`, `postgres` | [`projection`]: rows of many objects in one read model, in SQLite or `PostgreSQL` |
//! | `workflow` | [`workflow`]: durable functions that run to completion, even across crashes |
//! | `outcomes` | [`outcomes`]: event sourcing: an object whose only authoritative table is its chain of outcomes |
//! | `patterns` | [`patterns`]: rate limiters, locks, sessions, shards, leaderboards, presence, retries, cleanup |
//! | `party` | [`party`]: rooms for the clients of `PartyKit`, such as `partysocket` |
//! | `yjs` | [`yjs`]: documents that several people edit at once, by the protocols of Yjs |
//! | `cluster` | the setting `cluster.postgres`: a node that shares its objects with others, through PostgreSQL and an object store |
//! | `history` | [`history`]: copies of a node's history in an object store |
//! | `component` | [`component`]: building blocks for custom components |
//! | `full` | all of these |
//!
//! `projection` includes `queue`, `postgres` includes `projection`, and `yjs` includes `party`.
//!
//! # Without a server
//!
//! With `default-features = false` objects and components run on a [`Node`] in the program's own process, and a build has about
//! half of the packages:
//!
//! ```toml
//! abide = { version = "0.1", default-features = false, features = ["outbox", "schedule"] }
//! ```
//!
//! Components then have all but what speaks HTTP: an outbox has the program's own handlers and
//! [`CallDelivery`](outbox::handlers::CallDelivery), but not those for HTTP requests and webhooks, no live pages and no
//! [service](outbox::service); queues have no [`ToHttp`](queue::ToHttp); and operators cannot ask them. `clap`, `smtp`,
//! `postgres`, `party` and `yjs` include `server`.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

#[cfg(doctest)]
mod guides;
pub mod limits;
pub mod testing;

#[doc(inline)]
pub use abide_core::*;

#[cfg(feature = "component")]
#[doc(inline)]
pub use abide_component as component;
#[cfg(feature = "outcomes")]
#[doc(inline)]
pub use abide_components::outcomes;
#[cfg(feature = "party")]
#[doc(inline)]
pub use abide_components::party;
#[cfg(feature = "patterns")]
#[doc(inline)]
pub use abide_components::patterns;
#[cfg(feature = "projection")]
#[doc(inline)]
pub use abide_components::projection;
#[cfg(feature = "queue")]
#[doc(inline)]
pub use abide_components::queue;
#[cfg(feature = "schedule")]
#[doc(inline)]
pub use abide_components::schedule;
#[cfg(feature = "workflow")]
#[doc(inline)]
pub use abide_components::workflow;
#[cfg(feature = "yjs")]
#[doc(inline)]
pub use abide_components::yjs;
#[cfg(feature = "history")]
#[doc(inline)]
pub use abide_history as history;
#[cfg(feature = "outbox")]
#[doc(inline)]
pub use abide_outbox as outbox;
