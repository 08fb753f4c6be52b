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
//! - [`Node`]: runs objects on a [`Store`].
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
//! use abide::{Node, SimDisk, Store, StoreOptions, clock::TestClock};
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

#![forbid(unsafe_code)]

#[cfg(doctest)]
mod guides;

/// ```
/// use abide::prelude::*;
///
/// #[durable_object]
/// pub struct Greeter;
///
/// impl DurableObject for Greeter {
///     fn new(_state: State, _env: Env) -> Result<Self> {
///         Ok(Self)
///     }
///
///     async fn fetch(&self, request: Request) -> Result<Response> {
///         Ok(Response::new(Body::from(format!("hello from {}", request.uri().path()))))
///     }
/// }
/// ```
///
/// A class without `impl DurableObject` does not compile:
///
/// ```compile_fail,E0277
/// #[abide::durable_object]
/// pub struct Greeter;
/// ```
pub use abide_macros::durable_object;

/// ```
/// use abide::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, Serialize, Deserialize)]
/// pub enum SeatError {
///     Taken { by: String },
/// }
///
/// #[durable_object]
/// pub struct Seats {
///     state: State,
/// }
/// # impl DurableObject for Seats {
/// #     fn new(state: State, _env: Env) -> Result<Self> { Ok(Self { state }) }
/// # }
///
/// #[rpc]
/// impl Seats {
///     /// `stub.assign(…).await` gives `Result<Result<(), SeatError>, abide::Error>`: the inner error is the
///     /// object's answer, the outer one says that there was none.
///     pub async fn assign(&self, seat: String, who: String) -> Result<(), SeatError> {
///         match self.occupant(&seat) {
///             Some(by) => Err(SeatError::Taken { by }),
///             None => Ok(()),
///         }
///     }
///
///     // Not `pub`: for the object's own use.
///     fn occupant(&self, seat: &str) -> Option<String> {
///         self.state.storage().get(seat).ok().flatten()
///     }
/// }
/// ```
///
/// What cannot be called from elsewhere is refused when it is compiled:
///
/// ```compile_fail
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Seats;
/// # impl DurableObject for Seats { fn new(_: State, _: Env) -> Result<Self> { Ok(Self) } }
/// #[rpc]
/// impl Seats {
///     pub fn count(&self) -> u32 { 0 } // not `async`
/// }
/// ```
///
/// ```compile_fail
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Seats;
/// # impl DurableObject for Seats { fn new(_: State, _: Env) -> Result<Self> { Ok(Self) } }
/// #[rpc]
/// impl Seats {
///     pub async fn assign(&self, seat: &str) {} // borrowed: use `String`
/// }
/// ```
///
/// A method that is not `pub` cannot be called through a stub, and a class has one such block:
///
/// ```compile_fail,E0277
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Seats;
/// # impl DurableObject for Seats { fn new(_: State, _: Env) -> Result<Self> { Ok(Self) } }
/// #[rpc]
/// impl Seats {
///     async fn count(&self) -> u32 { 0 } // not `pub`
/// }
/// async fn count(seats: Stub<Seats>) -> Result<u32> {
///     seats.count().await
/// }
/// ```
///
/// ```compile_fail,E0592
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Seats;
/// # impl DurableObject for Seats { fn new(_: State, _: Env) -> Result<Self> { Ok(Self) } }
/// #[rpc]
/// impl Seats {
///     pub async fn count(&self) -> u32 { 0 }
/// }
/// #[rpc]
/// impl Seats {
///     pub async fn rows(&self) -> u32 { 0 } // move it into the block above
/// }
/// ```
pub use abide_macros::rpc;
pub use abide_runtime::{
    Alarm, AlarmInfo, AlarmListing, AlarmRetry, AlarmStatus, AlarmTime, AnyNamespace, AnyStub,
    BlockConcurrency, Body, Call, Class, ClassOptions, CommitStall, DurableObject, Encoding, Env,
    Error, ErrorKind, Event, Fetching, FoundObject, Instance, JsonResult, LocalFuture, Moment,
    Namespace, Native, NoRedirects, Node, NodeBuilder, NodeStats, ObjectClass, ObjectId, Outbound,
    PutOptions, QuarantineListing, Released, Remote, Reply, Request, Response, Result, Row, Rows,
    ScheduledTime, Sql, StallCause, State, Storage, Stub, clock, limits, random, socket,
    socket::{
        Message, ReadyState, RequestResponsePair, WebSocket, WebSocketPair, websocket_response,
    },
};
pub use abide_storage::{
    AlarmCursor, AlarmState, ArchiveOptions, Barrier, Bookmark, Disk, DiskFile, ListOptions, Lsn,
    MemoryAccount, MemoryBudget, MemoryCharge, MemoryUsage, MemoryUse, OpenMode, Params, RealDisk,
    Repair, Repaired, SimDisk, SqlError, SqlErrorKind, Store, StoreOptions, StoreStats, ToSql,
    Value, params,
};

/// Deliberately broken variants, by crate, for the tests that must catch them.
#[doc(hidden)]
pub mod broken {
    pub use abide_runtime::broken as runtime;
    pub use abide_storage::broken as storage;
}
#[doc(hidden)]
pub use abide_storage::broken_variants;

pub use http;

/// The host: HTTP gateway, admin listener, settings, logs and metrics around a [`Node`].
#[cfg(feature = "server")]
pub use abide_server as server;
#[cfg(feature = "server")]
pub use abide_server::Host;

pub mod prelude {
    //! What nearly every file with an object needs: `use abide::prelude::*;`
    pub use crate::{
        AlarmInfo, AlarmRetry, AlarmTime, Body, Bookmark, ClassOptions, DurableObject, Env, Error,
        ListOptions, Message, Namespace, ObjectId, PutOptions, Request, RequestResponsePair,
        Response, Result, Row, Rows, Sql, SqlErrorKind, State, Storage, Stub, WebSocket,
        WebSocketPair, durable_object, params, rpc, websocket_response,
    };
}

#[doc(hidden)]
pub mod __private {
    //! What the macros' output refers to. Not for people.
    pub use abide_runtime::{LocalFuture, ObjectClass, Remote, rpc};

    use std::{borrow::Cow, rc::Rc};

    /// The dispatch of a class without an `#[rpc]` block.
    pub trait NoRpc: ObjectClass {
        fn __a_class_has_one_rpc_block_move_all_public_methods_into_it(
            this: Rc<Self>,
            method: Cow<'static, str>,
            _args: rpc::Args,
        ) -> LocalFuture<crate::Result<Vec<u8>>> {
            drop(this);
            rpc::unknown_method(Self::NAME, &method)
        }
    }

    impl<T: ObjectClass> NoRpc for T {}

    /// What a stub's method is bound to if its class has it without `pub`: no such method can be called.
    #[diagnostic::on_unimplemented(
        message = "this method is private: an `#[rpc]` block makes only its `pub` methods callable",
        label = "cannot be called through a stub",
        note = "write `pub async fn` in the `#[rpc]` block to call the method through a stub"
    )]
    pub trait CallableThroughStub {}

    /// See [`CallableThroughStub`].
    #[derive(Debug)]
    pub struct MethodWithoutPub<'a>(std::marker::PhantomData<&'a ()>);
}
