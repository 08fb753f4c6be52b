//! The initial pages of every new object: an empty database with the reserved tables.
//!
//! They are built once for each store, so a new object costs neither schema statements nor a file; an object's first
//! commit writes them to the log.

use crate::error::{Error, Result};
use crate::ident::Page;
use crate::limits::PAGE_BYTES;
use rusqlite::{Connection, MAIN_DB};
use std::sync::Arc;

/// Tables, indexes, views and triggers with this prefix belong to the engine; users cannot touch them.
pub const RESERVED_PREFIX: &str = "_abide_";

/// The reserved tables of every object, unless the database has them.
pub(crate) const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS _abide_kv (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID/*abide*/",
    "CREATE TABLE IF NOT EXISTS _abide_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID/*abide*/",
];

pub(crate) fn build() -> Result<Vec<Arc<Page>>> {
    let failed =
        |error: rusqlite::Error| Error::input(format!("building the template database: {error}"));
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    let page_size = format!("PRAGMA page_size = {PAGE_BYTES}");
    for sql in [&*page_size].into_iter().chain(TABLES) {
        connection.execute_batch(sql).map_err(failed)?;
    }
    let bytes = connection.serialize(MAIN_DB).map_err(failed)?;
    let (pages, rest) = bytes.as_chunks::<PAGE_BYTES>();
    assert!(
        rest.is_empty() && !pages.is_empty(),
        "SQLite writes whole pages"
    );
    Ok(pages.iter().map(|page| Arc::new(*page)).collect())
}
