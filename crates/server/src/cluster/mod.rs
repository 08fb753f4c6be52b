//! A node of a cluster: the setting `cluster.postgres`.
//!
//! Contract: a node that is no longer a part of its cluster ends, and a node that stops leaves it. Callers of objects that another
//! node has get 421 with its address.

#[cfg(not(feature = "cluster"))]
mod absent;
#[cfg(feature = "cluster")]
mod membership;
#[cfg(feature = "cluster")]
mod place;

#[cfg(feature = "cluster")]
pub use abide_cluster_node::{RebuildError, rebuild as rebuild_cluster};
#[cfg(feature = "cluster")]
pub use abide_cluster_postgres::{OwnedShards, Status as ClusterStatus};
#[cfg(not(feature = "cluster"))]
pub(crate) use absent::Membership;
#[cfg(feature = "cluster")]
pub(crate) use membership::Membership;
#[cfg(feature = "cluster")]
pub use place::cluster_database;
