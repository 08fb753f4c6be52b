//! Where the tables of a cluster are.

use abide_cluster_postgres::{Accept, Database};

use crate::{ClusterConfig, ConfigError, Replication};

/// The database of `cluster.postgres`; `None` without the setting. Sends no request.
///
/// # Errors
/// The address is not one of a PostgreSQL server.
pub fn cluster_database(config: &ClusterConfig) -> Result<Option<Database>, ConfigError> {
    let Some(address) = &config.postgres else {
        return Ok(None);
    };
    let accept = match config.replication {
        Replication::Standby => Accept::Replicated,
        Replication::None => Accept::Local,
    };
    let database = Database::new(address.as_str(), accept);
    let database = database.map_err(|error| ConfigError::new(format!("cluster.postgres: {error}")));
    database.map(Some)
}
