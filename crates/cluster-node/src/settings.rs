//! What a member is told.

use std::time::Duration;

use abide_cluster::Reads;
use abide_cluster_postgres::Database;

/// Where the cluster has its tables and its history, and how the member uses them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The database with the tables and the logs.
    pub database: Database,
    /// The object store with the runs of history. Nothing else is in it.
    pub runs: abide_history::Store,
    /// When the answer to a read may leave. By default during a lease.
    pub reads: Reads,
    /// The least time between two runs of a member, unless it is behind. A run ends at a checkpoint
    /// ([`StoreOptions::checkpoint_interval`](abide_storage::StoreOptions::checkpoint_interval)). More runs leave less of the log to those
    /// who take over, and make more objects in the store. The member looks as often whether there are runs to merge. The default is 10 s.
    pub run_every: Duration,
    /// How long the object store keeps a run that was merged into another, at least: a database that is restored from a backup lists what
    /// was replaced since. The default is a day.
    pub keep_replaced: Duration,
    /// The URL at which clients reach the process, which other members tell them. By default none.
    pub address: Option<String>,
}

impl Settings {
    /// The default settings.
    pub fn new(database: Database, runs: abide_history::Store) -> Self {
        Self {
            database,
            runs,
            reads: Reads::Leased,
            run_every: Duration::from_secs(10),
            keep_replaced: Duration::from_hours(24),
            address: None,
        }
    }
}
