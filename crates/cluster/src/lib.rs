//! The decisions of a node of a cluster, without I/O.
//!
//! Nodes share a PostgreSQL server and an object store. Each start of a process is a *session* with a separate log in the
//! database, its *lane*. All durable objects are divided into 1,024 *shards*, and the database says which session owns each. This
//! crate decides what a session says to the database and what follows from the answers. It opens no connection, reads no clock and
//! draws no random number, so a simulation and a model checker run the code that a node runs.
//!
//! - [`Session`]: all decisions of one start of a process. A driver asks it for the next [`Statement`] of each idle
//!   [`Connection`], executes it, and reports the [`Outcome`].
//! - [`Lane`]: appends groups of records to the session's log, one at a time.
//! - [`Lease`]: until when a session may answer reads, and what was proven since.
//! - [`Peers`]: which other sessions are silent, and are to be fenced.
//! - [`Tenures`]: the shards that the session owns.
//! - [`share`](mod@share): which session should claim a shard without an owner.
//!
//! # What holds, and why
//!
//! 1. **A fenced session writes nothing.** An append moves the lane from the position where it begins, and requires that the lane is
//!    not fenced. A fence marks the lane in the same row, so it waits for an append that is being committed, and every later
//!    one changes nothing.
//! 2. **A fenced session answers nothing.** It answers reads for [`limits::LEASE`] after it *sent* the last renewal that was confirmed.
//!    Another session fences it only after it has seen no renewal for [`limits::FENCE_AFTER`], and the fence requires that
//!    there was none. Both are measured with clocks that do not stop while a process is suspended, and no two clocks are compared.
//! 3. **A statement whose answer is lost, or that is refused, is settled by a write.** A read may show what a failover of the database
//!    then loses, and so may the reason of a refusal. A write waits for earlier ones, and its own commit proves what is before it.
//! 4. **A statement that arrives late does no harm.** Each requires something that its own success, or a later statement, makes false for
//!    good: a position of the lane, the generation of a shard, the number of the last run, of a renewal, or of an attempt to begin. A
//!    statement is repeated unchanged until its outcome is known, and nothing that follows from it happens before.
//! 5. **No record of a shard is appended after its hand-over.** Positions in the lane are assigned, and a shard is closed, in
//!    the same place. The hand-over names the position at which the shard was closed and requires that the lane is durable up to it.
//! 6. **An owner knows all that its predecessors acknowledged.** Each tenure that ends leaves a *part*: its shard's records between two
//!    positions of one lane. The next owner reads all parts that are not archived, in the order of their generations, before its
//!    first event. It archives them before its own records of that shard.
//! 7. **A run of history has all records of the session's shards up to a position.** It is listed only if the session still owns, at
//!    the same generations, every shard it had owned before that position. So the lane's archived position never passes a record that
//!    is in no run and in no part.
//! 8. **A log is removed when it is archived.** The database computes the bound from the archived position and the parts in
//!    one statement; the log of a fenced session goes when it owns no shard and all its parts are archived.
//! 9. **Most lost commits are noticed.** A database that was restored, or failed over without synchronous replication, may be behind what
//!    it confirmed. A lane behind what was durable, a generation that went down, a tenure that begins elsewhere, or a run that is no longer
//!    listed ends the session. A claim that was lost is not noticed if others have used up the same generations before the next poll.
//!
//! Positions of different lanes are never compared: a position is a generation of a shard, then a position in the lane of the
//! generation's owner.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(test),
    warn(clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod ident;
mod lane;
mod lease;
pub mod limits;
mod peers;
#[cfg(test)]
mod samples;
mod session;
pub mod share;
mod statement;
mod tenure;
mod view;

pub use ident::{Generation, Lsn, SHARDS, SessionId, Shard, Tenancy};
pub use lane::Lane;
pub use lease::{Lease, Reads};
pub use peers::Peers;
pub use session::{Ended, Session};
pub use statement::{Answer, Connection, Grant, Outcome, Part, Run, Statement, Stored};
pub use tenure::{State, Tenure, Tenures};
pub use view::{Owner, Peer, View};
