//! A store whose shards are those of its session in a cluster.
//!
//! [`abide_cluster`] decides what a session says to the database, [`abide_cluster_postgres`] says it, and [`abide_storage`] keeps the
//! objects. A [`Member`] brings them together: one start of one process.
//!
//! - Its **lane** (`lane`, a thread) copies the store's log to the database, a group at a time. The store holds back what others may not see
//!   before it is copied ([`Store::durable`](abide_storage::Store::durable)).
//! - Its **lease** and its **control** connection (`talk`) renew, look at the tables, fence, and claim.
//! - What it is granted it **adopts** (`adopt`): it reads what earlier owners have left in their logs, has the store claim the shard, and
//!   serves it. What it has given away it forgets, once no object of it is open.
//!
//! The store's files are a cache (`home`): each start has a new directory, and its log is not synced. What counts is in the database.
//!
//! A member publishes no runs of history yet. So no log is ever trimmed, and who takes a shard over reads all that its earlier owners have
//! logged, into memory.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod adopt;
mod clock;
mod end;
mod home;
mod lane;
mod lease;
pub mod limits;
mod member;
mod namespaces;
mod shared;
mod talk;
mod unsynced_log;

pub use clock::now;
pub use end::{End, JoinError};
pub use home::Home;
pub use lease::Lease;
pub use member::Member;
