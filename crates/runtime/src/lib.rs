//! The object runtime of `abide`: ids, namespaces and stubs, the object event loop and its gates, and the interfaces
//! for classes, clocks and randomness. Programs use it through the crate `abide`.
//!
//! # The path of an event
//!
//! ```text
//! Stub ──Envelope──▶ worker's channel ──▶ Object ── input gate ──▶ Instance (a class's code)
//!                                           │ turn: one poll = one transaction = one log record
//!                                           ▼
//! Call ◀──Released── output gate (Lane) ◀── outbox, under the object's newest LSN
//!                          ▲
//!                          └── the log's writer thread: durable up to …
//! ```
//!
//! # Invariants
//!
//! 1. Code of an object runs on one thread, and only inside a *turn*: one poll of one of its futures.
//! 2. The writes of a turn are one transaction: after a crash, all or none of them are present.
//! 3. Nothing leaves an object before the log is durable up to the object's newest write. Tasks or threads that an
//!    object starts outside its handlers send nothing.
//! 4. Events of an object start in the order in which they arrived, never while its input gate is closed.
//! 5. A panic, an abort, a failed constructor or commit, and an exceeded time limit reset one object and no other.
//! 6. An alarm goes off at least once; an attempt is counted durably before any code of the object runs for it.
//! 7. Every queue is bounded ([`limits`]); beyond the bound, callers get an error that the object is overloaded.
//! 8. A WebSocket outlives its object in memory; its outgoing messages are bounded; it ends with one close event.
//! 9. All timing uses the [`clock::Clock`]; every random byte comes from a [`random::Randomness`].
//!
//! # Layers
//!
//! A module imports only from its own layer and from those below; a test of `verify/harness` checks that. From bottom to
//! top:
//!
//! 1. **Plain data**, errors and small tools: `error`, `limits`, `id`, `timestamp`, `timeline`, `snapshot`, `random`, `clock`, `waits`,
//!    `timers`, `backlog`, `stats`, `stall`, `census`, `poll_watch`, `unwind`, `sync`, `rows`, `answer`, `chain`, `creator`,
//!    `class_options`, `holder`, `visit`, `whereabouts`, `blocking`, `alarms`, `socket`, `gate::input`, `gate::released`.
//! 2. **Replies**, and how they reach their callers: `reply`, `body`, `outbound`, `call`.
//! 3. **Events and gates**: `event`, `instance`, `binding`, `envelope`, `gate`, `placement`, `router`, `node_clock`, `alarms::request`,
//!    `socket::websocket`, `socket::link`, `socket::delivery`, `socket::registry`.
//! 4. **Objects and workers**: `object`, `task`, `worker`, `context`, `creation`, `socket::endpoint`, `socket::client`,
//!    `socket::connector`.
//! 5. **Handles**, which the code of programs and objects uses: `ctx`, `storage`, `sql`, `env`, `namespace`, `stub`,
//!    `handle`, `handover`, `fetch`, `rpc`, `class`, `native`, `extract`, `alarms::named`, `socket::sending`, `socket::audience`.
//! 6. **The node**, and what operators and tests ask of it: `node`, `watchdog`, `admin`, `recovery`, `fork`, `exports`, `timelines`, `listing`,
//!    `find`, `settle`, `testing`, `alarms::scheduler`, `alarms::firer`, `alarms::suspects`.
//!
//! Within three layers modules import each other in circles, because their data does: a worker's mailbox has the gate that
//! holds messages to other mailboxes; a worker has its objects, each object its worker, and its tasks their object; and
//! an environment leads to stubs, with which the code of a class is typed.
//!
//! # Out of scope
//!
//! HTTP servers and clients (a request is a value here, and leaves through [`Outbound`]), and what a class is written
//! in ([`Class`], [`Instance`]).

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod admin;
mod alarms;
#[doc(hidden)]
pub mod answer;
mod backlog;
mod binding;
mod blocking;
mod body;
mod call;
mod census;
mod chain;
mod class;
mod class_options;
pub mod clock;
mod context;
pub mod creation;
mod creator;
mod ctx;
mod env;
mod envelope;
mod error;
mod event;
mod exports;
#[cfg(feature = "axum")]
mod extract;
mod fetch;
mod find;
mod fork;
mod gate;
mod handle;
mod handover;
mod holder;
mod id;
mod instance;
pub mod limits;
mod listing;
mod namespace;
mod native;
mod node;
mod node_clock;
mod object;
mod outbound;
mod placement;
mod poll_watch;
pub mod random;
mod recovery;
mod reply;
mod router;
mod rows;
#[doc(hidden)]
pub mod rpc;
mod settle;
mod snapshot;
pub mod socket;
mod sql;
mod stall;
mod stats;
mod storage;
mod stub;
mod sync;
mod task;
mod testing;
mod timeline;
mod timelines;
mod timers;
mod timestamp;
mod unwind;
mod visit;
mod waits;
mod watchdog;
mod whereabouts;
mod worker;

pub use abide_storage::ClockTime;
pub use axum_core::body::Body;

pub use crate::body::counted_bytes;

pub use crate::{
    alarms::{Alarm, AlarmInfo, AlarmListing, AlarmRetry, AlarmStatus, ScheduledTime},
    call::Call,
    class::Class,
    class_options::ClassOptions,
    ctx::{BlockConcurrency, Ctx},
    env::Env,
    error::{Error, ErrorKind, Result},
    event::{Event, MeteredBody},
    exports::{CutListing, CutPosition, ListedObject},
    find::FoundObject,
    fork::ForkTarget,
    gate::{OutputLease, Released},
    handover::handed_over,
    id::ObjectId,
    instance::{Instance, LocalFuture},
    listing::ObjectPage,
    namespace::{AnyNamespace, Namespace},
    native::{DurableObject, Native, ObjectClass, Remote, handler},
    node::{Node, NodeBuilder, Registrar},
    object::CallerGone,
    outbound::{Fetching, NoRedirects, Outbound},
    recovery::{Moment, QuarantineListing},
    reply::{Encoding, Reply, Request, Response},
    rows::{Row, Rows},
    rpc::JsonResult,
    snapshot::Snapshot,
    sql::Sql,
    stall::{CommitStall, StallCause},
    stats::NodeStats,
    storage::{PutOptions, Storage},
    stub::{AnyStub, Stub},
    timeline::{Activation, Timeline, TimelineCause},
    timelines::{DormantPage, TimelineListing},
    timestamp::Timestamp,
    visit::Visit,
    whereabouts::Whereabouts,
};
