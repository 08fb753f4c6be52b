//! Nodes of a cluster and their database, simulated from a seed.
//!
//! The decisions are those of `abide-cluster`, unchanged. The database is a model of what their statements do ([`Tables`]), with a
//! standby, failovers and cancelled waits ([`Server`]). Statements are delayed, lost, or executed long after their connection
//! broke; processes are killed and suspended. A seed determines a [`Plan`], and a plan always has the same run.
//!
//! What is checked, from outside: nothing acknowledged is lost; every shard is linearizable, so it has one owner at a time; runs of history
//! are in order and complete; in the end every shard is served, and logs that are archived are gone. With asynchronous
//! replication, sessions whose commits were lost have noticed.

#![forbid(unsafe_code)]

pub mod history;
pub mod lists;
mod node;
pub mod plan;
mod server;
mod stored;
mod tables;
mod world;

use lists::{InMemory, Lists};

pub use node::Node;
pub use plan::Plan;
pub use server::Server;
pub use stored::Stored;
pub use tables::{Record, Tables};

/// What has happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Requests of clients that were answered.
    pub answers: usize,
    /// Sessions that began.
    pub sessions: usize,
    /// Sessions that ended because another had fenced them.
    pub fenced: usize,
    /// Sessions that ended because the database had lost what it had confirmed.
    pub lost_commits: usize,
    /// Sessions that left.
    pub left: usize,
    /// Statements of which the outcome was unknown.
    pub unknown: usize,
    /// Statements that were executed after their connection was given up.
    pub late: usize,
    /// Commits that failovers have lost.
    pub lost: usize,
    /// Shards that were given away and taken.
    pub moves: usize,
    /// A hash of all replies, with their times.
    pub fingerprint: u64,
}

/// Runs a plan.
///
/// # Errors
/// The promise that does not hold.
pub fn simulate(plan: &Plan) -> Result<Report, String> {
    run::<InMemory>(plan)
}

/// Runs a plan, with each node's shards in the storage engine.
///
/// # Errors
/// The promise that does not hold.
pub fn simulate_with_stores(plan: &Plan) -> Result<Report, String> {
    run::<Stored>(plan)
}

fn run<L: Lists>(plan: &Plan) -> Result<Report, String> {
    let mut world = world::World::<L>::new(plan.clone());
    world.run()?;
    world.check()
}
