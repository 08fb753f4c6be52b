//! The log and the tables of a cluster in `PostgreSQL`.
//!
//! [`abide_cluster`] decides what a session says to the database. This crate says it.
//!
//! - [`Database`]: where it is. Creates the tables, checks that commits are durable, begins sessions and reads their logs.
//! - [`Catalogue`]: what of the tables is copied elsewhere, should the database be lost.
//! - [`Lines`]: the connections of one session. They execute its [`Statement`](abide_cluster::Statement)s.
//!
//! # What counts as committed
//!
//! A statement is committed when the server has said so *without a warning*. If the wait for a synchronous standby is cancelled, the
//! server reports success, and before it a warning that the transaction may not have been replicated
//! (<https://www.postgresql.org/docs/current/warm-standby.html#SYNCHRONOUS-REPLICATION>). After any warning, error or timeout the
//! outcome is unknown, and the connection is not used again: the decisions settle it by a write.
//!
//! Each connection sets what its statements depend on, since an administrator may have set defaults for the role or the database:
//! `synchronous_commit`, the isolation level, timeouts, and the level of messages, which could hide the warning.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod catalogue;
mod database;
mod error;
pub mod limits;
mod line;
mod lines;
mod log;
mod name;
mod runs;
mod statement;
mod status;

pub use catalogue::{Catalogue, CataloguedRun};
pub use database::{Accept, Database};
pub use error::Error;
pub use lines::Lines;
pub use runs::Listed;
pub use status::{OwnedShards, SessionStatus, Status};
