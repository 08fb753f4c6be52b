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

#![forbid(unsafe_code)]

pub use abide_macros::{durable_object, rpc};
pub use abide_runtime::{
    AnyNamespace, AnyStub, BlockConcurrency, Body, Call, Class, ClassOptions, DurableObject, Env, Error, ErrorKind, Event,
    Instance, LocalFuture, Namespace, Native, Node, NodeBuilder, NodeStats, ObjectClass, ObjectId, PutOptions, Released, Remote,
    Reply, Request, Response, Result, Sql, State, Storage, Stub, clock, limits, random,
};
pub use abide_storage::{
    Disk, ListOptions, Lsn, Params, RealDisk, Row, Rows, SimDisk, Store, StoreOptions, StoreStats, ToSql, Value, params,
};

/// The host: HTTP gateway, admin listener, settings, logs and metrics around a [`Node`].
#[cfg(feature = "server")]
pub use abide_server as server;
#[cfg(feature = "server")]
pub use abide_server::Host;

pub mod prelude {
    //! What nearly every file with an object needs: `use abide::prelude::*;`
    pub use crate::{
        Body, ClassOptions, DurableObject, Env, Error, ListOptions, Namespace, ObjectId, PutOptions, Request, Response, Result,
        Sql, State, Storage, Stub, durable_object, params, rpc,
    };
}

#[doc(hidden)]
pub mod __private {
    //! What the macros' output refers to. Not for people.
    pub use abide_runtime::{LocalFuture, ObjectClass, Remote, rpc};

    use std::{borrow::Cow, rc::Rc};

    /// The dispatch of a class without an `#[rpc]` block.
    pub trait NoRpc: ObjectClass {
        fn __a_class_has_one_rpc_block(
            this: Rc<Self>,
            method: Cow<'static, str>,
            _args: Vec<u8>,
        ) -> LocalFuture<crate::Result<Vec<u8>>> {
            drop(this);
            rpc::unknown_method(Self::NAME, &method)
        }
    }

    impl<T: ObjectClass> NoRpc for T {}
}
