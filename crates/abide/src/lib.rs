//! Durable objects for Rust.
//!
//! An object has a name, runs on one thread, and owns a private SQLite database. Its code is plain: what it
//! writes between two awaits is one transaction, and nothing it says leaves before what it wrote is durable.
//!
//! ```
//! use abide::prelude::*;
//!
//! #[durable_object]
//! pub struct Counter {
//!     state: State,
//! }
//!
//! impl DurableObject for Counter {
//!     fn new(state: State, _env: Env) -> Result<Self> {
//!         Ok(Self { state })
//!     }
//! }
//!
//! #[rpc]
//! impl Counter {
//!     pub async fn add(&self, amount: i64) -> Result<i64> {
//!         let storage = self.state.storage();
//!         let value = storage.get("value")?.unwrap_or(0) + amount;
//!         storage.put("value", &value)?;
//!         Ok(value)
//!     }
//! }
//!
//! async fn somewhere(env: &Env) -> Result<i64> {
//!     let counter: Stub<Counter> = env.object::<Counter>().get_by_name("visits");
//!     counter.add(1).await?
//! }
//! ```
//!
//! - [`DurableObject`], [`State`], [`Storage`], [`Sql`]: what an object is made of.
//! - [`Env`], [`Namespace`], [`Stub`], [`Call`]: how one finds objects and calls them.
//! - [`Error`]: what went wrong and what to do.
//! - [`Node`]: runs objects on a [`Store`](storage::Store).
//!
//! # What you need not do
//!
//! - **Lock.** An object's handlers run on one thread. Another handler may run while one waits at an `await`, and at
//!   no other time; [`State::block_concurrency_while`] shuts even that.
//! - **Begin and commit.** What is written between two awaits is one transaction. A panic undoes it and resets the
//!   object; an `Err` undoes nothing, unless [`Storage::transaction_sync`] is asked.
//! - **Wait for the disk.** Storage calls return at once; responses, results and calls to other objects leave when
//!   what was written before them is durable. [`PutOptions::allow_unconfirmed`] exempts a write.
//! - **Keep objects alive, or let them go.** An object comes to life with its first event and leaves memory when it has
//!   been idle; what it stored it finds again.
//!
//! # Testing
//!
//! A node runs on a disk in memory, with a clock that stands still until the test moves it:
//!
//! ```
//! # use abide::prelude::*;
//! # #[durable_object]
//! # pub struct Counter { state: State }
//! # impl DurableObject for Counter {
//! #     fn new(state: State, _env: Env) -> Result<Self> { Ok(Self { state }) }
//! # }
//! # #[rpc]
//! # impl Counter {
//! #     pub async fn add(&self, amount: i64) -> Result<i64> {
//! #         let value = self.state.storage().get("value")?.unwrap_or(0) + amount;
//! #         self.state.storage().put("value", &value)?;
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
//!     .class::<Counter>("COUNTER", ClassOptions::default())
//!     .clock(Arc::new(clock.clone()))
//!     .start()?;
//!
//! let counter = node.env().object::<Counter>().get_by_name("visits");
//! assert_eq!(counter.add(2).await??, 2);
//! clock.advance(Duration::from_secs(10)); // the object leaves memory …
//! assert_eq!(counter.add(3).await??, 5); // … and comes back from storage
//!
//! node.shutdown(Duration::from_secs(1)).await?;
//! node.store().close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | what it gives |
//! |---|---|
//! | `server` (by default) | [`Host`]: HTTP gateway, admin listener, settings, logs and metrics |
//! | `clap` | arguments of a host's command line |
//! | `outbox` | [`outbox`]: what an object must tell the world, written with its state and delivered for certain |
//! | `smtp` | e-mails of an outbox, through an SMTP relay or Azure Communication Services |
//! | `schedule` | [`schedule`]: many named timers: once, at intervals, or as cron says, with retries |
//! | `queue` | [`queue`]: durable queues made of sharded objects, consumed in batches |
//! | `projection`, `postgres` | [`projection`]: rows of many objects in one read model, in SQLite or `PostgreSQL` |
//! | `workflow` | [`workflow`]: functions that are run to their end, whatever happens to the process meanwhile |
//! | `outcomes` | [`outcomes`]: event sourcing, an object whose only table of truth is its chain of outcomes |
//! | `party` | [`party`]: rooms for the clients of `PartyKit`, such as `partysocket` |
//! | `yjs` | [`yjs`]: documents that several people edit at once, by the protocols of Yjs |
//! | `component` | [`component`]: what a component of one's own needs |
//! | `full` | all of these |

#![forbid(unsafe_code)]

#[cfg(doctest)]
mod guides;

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
#[cfg(feature = "outbox")]
#[doc(inline)]
pub use abide_outbox as outbox;
