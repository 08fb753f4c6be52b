//! A host's part in a cluster.

use std::{fmt, sync::Arc, time::Duration};

use abide_cluster_node::{End, Home, Lease, Member, Owners, Settings};
use abide_runtime::{
    Node, NodeBuilder, ObjectId, OutputLease, Whereabouts,
    clock::{Clock, Sleep, SystemClock},
};
use abide_storage::{Store, StoreOptions};
use tokio::runtime::Handle;

use super::place::cluster_database;
use crate::{Config, HostError, history::Place};

/// See the module. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Membership(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    member: Member,
    lease: Lease,
}

impl Membership {
    /// Joins the cluster of the settings; `None` without `cluster.postgres`. Blocks. `address` is the URL of the listener.
    pub(crate) fn join(
        config: &Config,
        place: Option<&Place>,
        address: Option<String>,
        options: &StoreOptions,
    ) -> Result<Option<Self>, HostError> {
        let Some(database) = cluster_database(&config.cluster)? else {
            return Ok(None);
        };
        let place = place.ok_or_else(|| failed("cluster.postgres needs archive.url"))?;
        let mut settings = Settings::new(database, place.copies().clone());
        settings.run_every = config.archive.upload_interval;
        settings.keep_replaced = config.archive.keep_uploads;
        settings.address = address;
        let home = Home::open(&config.data.dir).map_err(failed)?;
        let member = Member::join(home, settings, options.clone()).map_err(failed)?;
        let lease = member.lease().ok_or_else(|| failed("there is no lease"))?;
        Ok(Some(Self(Arc::new(Inner { member, lease }))))
    }

    pub(crate) fn store(&self) -> &Store {
        self.0.member.store()
    }

    /// Has a node show what it may show, and tell callers where other objects are. `clock` is the program's.
    pub(crate) fn configure(
        &self,
        node: NodeBuilder,
        clock: Option<Arc<dyn Clock>>,
    ) -> NodeBuilder {
        let machine = clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let clock = OfCluster {
            machine,
            store: self.store().clone(),
        };
        node.clock(Arc::new(clock))
            .output_lease(Arc::new(OfMember(self.0.lease.clone())))
            .whereabouts(Arc::new(Elsewhere(self.0.member.owners())))
    }

    /// Releases what waits for the lease whenever it is renewed, until the member is dropped. Called inside the async runtime.
    pub(crate) fn follow(&self, node: &Node) {
        let (mut lease, node) = (self.0.lease.clone(), node.clone());
        Handle::current().spawn(async move {
            while lease.changed().await {
                node.lease_regained();
            }
        });
    }

    pub(crate) fn is_leased(&self) -> bool {
        self.0.lease.is_held()
    }

    /// How many shards could not be taken over, and why one of them could not.
    pub(crate) fn unserved(&self) -> Option<String> {
        let unserved = self.0.member.unserved();
        let (shard, why) = unserved.first()?;
        let count = unserved.len();
        Some(format!(
            "{count} of the shards of this node could not be taken over and are tried again; shard {}: {why}",
            shard.0
        ))
    }

    /// Why what the node has committed does not leave the database.
    pub(crate) fn unarchived(&self) -> Option<String> {
        let why = self.0.member.unarchived()?;
        Some(format!(
            "what this node has committed cannot be put into the object store of archive.url, and the database of cluster.postgres \
             grows until it can: {why}"
        ))
    }

    /// Why the node is no longer a part of the cluster.
    pub(crate) fn end(&self) -> Option<String> {
        self.0.member.end().map(|end| told(&end))
    }

    /// Gives all shards away, unless the node is no longer a part of the cluster.
    pub(crate) async fn leave(&self) {
        if self.end().is_none() && !self.0.member.leave().await {
            tracing::warn!(
                "the database did not confirm that this node has left: others wait until it has been silent"
            );
        }
    }
}

fn told(end: &End) -> String {
    format!("this node is no longer a part of its cluster: {end}; restart it to join again")
}

#[allow(clippy::needless_pass_by_value, reason = "it maps an error")]
fn failed(error: impl fmt::Display) -> HostError {
    HostError::Cluster(format!("cannot join the cluster: {error}"))
}

/// The lease, for the output gate.
struct OfMember(Lease);

impl OutputLease for OfMember {
    fn is_held(&self) -> bool {
        self.0.is_held()
    }
}

/// The wall clock that all nodes have in common.
struct OfCluster {
    machine: Arc<dyn Clock>,
    store: Store,
}

impl Clock for OfCluster {
    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn unix_millis(&self) -> u64 {
        self.store.unix_millis()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.machine.sleep_until(deadline)
    }

    fn stands_still(&self) -> bool {
        self.machine.stands_still()
    }
}

struct Elsewhere(Owners);

impl Whereabouts for Elsewhere {
    fn url_of(&self, id: &ObjectId) -> Option<String> {
        let shard = abide_storage::Shard::of(id.as_bytes());
        self.0.address(abide_cluster::Shard(shard.get()))
    }
}
