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
//!
//! The store's files are a cache (`home`): each start has a new directory, and its log is not synced. What counts is in the database and in
//! the runs.
//!
//! Runs are not merged yet, so their number grows, by about one for each checkpoint of a member that writes. What a member inherits is in
//! memory while it is adopted or archived.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod adopt;
mod archive;
mod clock;
mod end;
mod home;
mod lane;
mod lease;
pub mod limits;
mod logs;
mod member;
mod namespaces;
mod owners;
mod runs;
mod settings;
mod shared;
mod talk;
mod unsynced_log;

pub use clock::now;
pub use end::{End, JoinError};
pub use home::Home;
pub use lease::Lease;
pub use member::Member;
pub use owners::Owners;
pub use settings::Settings;
