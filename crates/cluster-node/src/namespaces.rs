//! The namespaces of a cluster.

use std::{io, thread};

use abide_cluster_postgres::Database;
use abide_storage::SharedNamespaces;

use crate::member::new_runtime;

/// Those of a database. Each call opens a connection: a store asks for each of its classes once.
pub(crate) struct Namespaces(pub(crate) Database);

impl SharedNamespaces for Namespaces {
    fn with(&self, unique_key: &str) -> io::Result<Vec<String>> {
        let ask = || {
            let runtime = new_runtime().map_err(io::Error::other)?;
            let asked = runtime.block_on(self.0.namespaces_with(unique_key));
            asked.map_err(io::Error::other)
        };
        // The calling thread may run tasks, and then cannot wait for others.
        thread::scope(|scope| {
            let asked = scope.spawn(ask).join();
            asked.unwrap_or_else(|_| Err(io::Error::other("the question panicked")))
        })
    }
}
