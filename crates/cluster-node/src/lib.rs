//! A store whose shards are those of its session in a cluster.
//!
//! [`abide_cluster`] decides what a session says to the database, [`abide_cluster_postgres`] says it, and [`abide_storage`] keeps the
//! objects. A [`Member`] brings them together: one start of one process.
//!
//! - Its **lane** (`lane`, a thread) copies the store's log to the database, a group at a time. The store holds back what others may not see
//!   before it is copied ([`Store::durable`](abide_storage::Store::durable)).
//! - Its **lease** and its **control** connection (`talk`) renew, look at the tables, fence, and claim.
//! - What it is granted it **adopts** (`adopt`): it lists the runs of history in the store (`runs`), reads what earlier owners have left in
//!   their logs (`logs`), has the store claim the shard, and serves it. What it has given away it forgets, once no object of it is open.
//! - It makes **runs** (`archive`, a thread): what it has inherited and what it has logged goes into the object store, and then leaves the
//!   database.
//! - One member at a time **merges** runs (`merges`, a thread), so that they stay few, removes what was replaced from the object store, and
//!   writes the list there (`catalogue`), from which [`rebuild`] makes the tables if the database is lost.
//!
//! The store's files are a cache (`home`): each start has a new directory, and its log is not synced. What counts is in the database and in
//! the runs.
//!
//! What a member inherits of the shards that it takes over is in memory while it is adopted or archived.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod adopt;
mod archive;
mod catalogue;
mod clock;
mod end;
mod home;
mod lane;
mod lease;
pub mod limits;
mod logs;
mod member;
mod merges;
mod namespaces;
mod owners;
mod runs;
mod settings;
mod shared;
mod talk;
mod unsynced_log;

pub use catalogue::{RebuildError, rebuild};
pub use clock::now;
pub use end::{End, JoinError};
pub use home::Home;
pub use lease::Lease;
pub use member::Member;
pub use owners::Owners;
pub use settings::Settings;
