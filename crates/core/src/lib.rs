//! Durable objects without components: the runtime, storage and, with the feature `server`, the host.
//!
//! Programs depend on `abide`, which adds the components; components depend on this crate.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

/// ```
/// use abide::prelude::*;
///
/// #[durable_object]
/// pub struct Greeter;
///
/// impl DurableObject for Greeter {
///     fn new(_ctx: Ctx, _env: Env) -> Result<Self> {
///         Ok(Self)
///     }
///
///     async fn fetch(&self, request: Request) -> Result<Response> {
///         Ok(Response::new(Body::from(format!("hello from {}", request.uri().path()))))
///     }
/// }
/// ```
///
/// On the `impl` block it makes handlers that are not `async` transactions:
///
/// ```
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Meter { ctx: Ctx }
/// #[durable_object]
/// impl DurableObject for Meter {
/// #   fn new(ctx: Ctx, _env: Env) -> Result<Self> { Ok(Self { ctx }) }
///     fn alarm(&self, _info: AlarmInfo) -> Result<()> {
///         let storage = self.ctx.storage();
///         storage.put("total", &0)?;
///         storage.put("since", &self.ctx.now())
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
///     /// The storage failed, or there was no answer.
///     Failed(Error),
/// }
///
/// impl From<Error> for SeatError {
///     fn from(error: Error) -> Self {
///         Self::Failed(error)
///     }
/// }
///
/// #[durable_object]
/// pub struct Seats {
///     ctx: Ctx,
/// }
/// # impl DurableObject for Seats {
/// #     fn new(ctx: Ctx, _env: Env) -> Result<Self> { Ok(Self { ctx }) }
/// # }
///
/// #[rpc]
/// impl Seats {
///     /// `stub.assign(…).await` gives the same `Result`.
///     pub async fn assign(&self, seat: String, who: String) -> Result<(), SeatError> {
///         match self.occupant(&seat) {
///             Some(by) => Err(SeatError::Taken { by }),
///             None => Ok(()),
///         }
///     }
///
///     // Not `pub`: for the object's own use.
///     fn occupant(&self, seat: &str) -> Option<String> {
///         self.ctx.storage().get(seat).ok().flatten()
///     }
/// }
/// ```
///
/// A method that cannot be called remotely is a compile error:
///
/// ```compile_fail
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Seats;
/// # impl DurableObject for Seats { fn new(_: Ctx, _: Env) -> Result<Self> { Ok(Self) } }
/// #[rpc]
/// impl Seats {
///     pub const fn count(&self) -> u32 { 0 } // `const`
/// }
/// ```
///
/// ```compile_fail
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Seats;
/// # impl DurableObject for Seats { fn new(_: Ctx, _: Env) -> Result<Self> { Ok(Self) } }
/// #[rpc]
/// impl Seats {
///     pub async fn assign(&self, seat: &str) {} // borrowed: use `String`
/// }
/// ```
///
/// A method that is not `pub` cannot be called through a stub, and a class has only one such block:
///
/// ```compile_fail,E0277
/// # use abide::prelude::*;
/// # #[durable_object]
/// # pub struct Seats;
/// # impl DurableObject for Seats { fn new(_: Ctx, _: Env) -> Result<Self> { Ok(Self) } }
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
/// # impl DurableObject for Seats { fn new(_: Ctx, _: Env) -> Result<Self> { Ok(Self) } }
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
    Activation, Alarm, AlarmInfo, AlarmListing, AlarmRetry, AlarmStatus, AnyNamespace, AnyStub,
    BlockConcurrency, Body, Call, CallerGone, Class, ClassOptions, ClockTime, CommitStall, Ctx,
    CutListing, CutPosition, DormantPage, DurableObject, Encoding, Env, Error, ErrorKind, Event,
    Fetching, ForkTarget, FoundObject, Instance, JsonResult, ListedObject, LocalFuture, Moment,
    Namespace, Native, NoRedirects, Node, NodeBuilder, NodeStats, ObjectClass, ObjectId,
    ObjectPage, Outbound, OutputLease, PutOptions, QuarantineListing, Registrar, Released, Remote,
    Reply, Request, Response, Result, Row, Rows, ScheduledTime, Snapshot, Sql, StallCause, Storage,
    Stub, Timeline, TimelineCause, TimelineListing, Timestamp, Whereabouts, clock, handed_over,
    random, socket,
    socket::{Audience, Close, Message, ReadyState, RequestResponsePair, WebSocket},
};
pub use abide_storage::{
    Bookmark, ListOptions, Param, Params, ParamsFromIter, SqlError, SqlErrorKind, TimelineId,
    ToSql, ToSqlError, Value, params, params_from_iter,
};

pub mod limits {
    //! The limits of objects, each with the source of its number.
    pub use abide_runtime::limits::*;

    pub mod storage {
        //! Limits of an object's database.
        pub use abide_storage::limits::*;
    }
}

pub mod storage {
    //! The storage of a node: the store, its disk, memory, log and archive.
    pub use abide_storage::{
        Afterwards, AlarmCursor, AlarmState, ArchiveOptions, Barrier, Cut, Disk, DiskFile,
        Incoming, Lsn, MemoryAccount, MemoryBudget, MemoryCharge, MemoryUsage, MemoryUse, OpenMode,
        RealDisk, Repair, Repaired, RestoreOptions, RestoreProgress, RestoredDirectory,
        ScratchDisk, SimDisk, SqlLimits, Store, StoreOptions, StoreStats, TimelinesEnd,
        restore_directory,
    };
}

pub use http;

/// The host: HTTP gateway, admin listener, settings, logs and metrics around a [`Node`].
#[cfg(feature = "server")]
pub use abide_server as server;
#[cfg(feature = "server")]
pub use abide_server::Host;

pub mod prelude {
    //! Common imports for files with objects: `use abide::prelude::*;`
    pub use crate::{
        Activation, AlarmInfo, AlarmRetry, Body, Bookmark, ClassOptions, Close, Ctx, DurableObject,
        Env, Error, ListOptions, Message, Namespace, ObjectId, PutOptions, Request,
        RequestResponsePair, Response, Result, Row, Rows, Snapshot, Sql, SqlErrorKind, Storage,
        Stub, Timeline, Timestamp, WebSocket, durable_object, params, rpc,
    };
}

#[doc(hidden)]
pub mod __private {
    //! Items that macro output refers to. Not a public API.
    pub use abide_runtime::{LocalFuture, ObjectClass, Remote, handler, rpc};

    use std::{borrow::Cow, rc::Rc};

    /// The dispatch of a class without an `#[rpc]` block.
    pub trait NoRpc: ObjectClass {
        fn __a_class_has_one_rpc_block_move_all_public_methods_into_it(
            this: Rc<Self>,
            _storage: &crate::Storage,
            method: Cow<'static, str>,
            _args: rpc::Args,
        ) -> LocalFuture<crate::Result<Vec<u8>>> {
            drop(this);
            rpc::unknown_method(Self::NAME, &method)
        }
    }

    impl<T: ObjectClass> NoRpc for T {}

    /// The bound of a stub method that the class defines without `pub`: no such method can be called.
    #[diagnostic::on_unimplemented(
        message = "this method is private: an `#[rpc]` block makes only its `pub` methods callable",
        label = "cannot be called through a stub",
        note = "write `pub` before it in the `#[rpc]` block to call the method through a stub"
    )]
    pub trait CallableThroughStub {}

    /// See [`CallableThroughStub`].
    #[derive(Debug)]
    pub struct MethodWithoutPub<'a>(std::marker::PhantomData<&'a ()>);
}
