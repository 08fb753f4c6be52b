//! The SQL functions `changes()` and `total_changes()`, which must not count the engine's own writes.
//!
//! SQLite counts per connection, and the engine writes on the user's. Both functions are therefore replaced: they return
//! the counts of the user's statements as of the beginning of the present one.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(super) struct Changes {
    /// Rows that the engine's statements have changed.
    engine: Cell<u64>,
    /// Rows changed so far that need not be stored: see [`super::deferral`].
    disregarded: Cell<u64>,
    told: Arc<Told>,
}

/// What the SQL functions return.
#[derive(Default)]
struct Told {
    last: AtomicU64,
    total: AtomicU64,
}

impl Changes {
    /// Replaces the SQL functions of a connection.
    pub(super) fn attach(&self, connection: &Connection) -> rusqlite::Result<()> {
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        let told = Arc::clone(&self.told);
        connection.create_scalar_function("changes", 0, flags, move |_| {
            Ok(told.last.load(Ordering::Relaxed))
        })?;
        let told = Arc::clone(&self.told);
        connection.create_scalar_function("total_changes", 0, flags, move |_| {
            Ok(told.total.load(Ordering::Relaxed))
        })
    }

    /// Counts what happens until the guard is dropped as the engine's.
    pub(super) fn of_engine<'a>(&'a self, connection: &'a Connection) -> OfEngine<'a> {
        OfEngine {
            changes: self,
            connection,
            before: connection.total_changes(),
        }
    }

    /// Called when a user's statement begins, and again when it has run. `is_dml`: it inserts, updates or deletes.
    pub(super) fn of_user(&self, connection: &Connection, is_dml: bool) {
        let total = connection.total_changes() - self.engine.get();
        self.told.total.store(total, Ordering::Relaxed);
        if is_dml {
            let last = connection.changes();
            self.told.last.store(last, Ordering::Relaxed);
        }
    }

    pub(super) fn disregarded(&self) -> u64 {
        self.disregarded.get()
    }

    pub(super) fn disregard(&self, rows: u64) {
        self.disregarded.set(self.disregarded.get() + rows);
    }
}

/// See [`Changes::of_engine`].
pub(super) struct OfEngine<'a> {
    changes: &'a Changes,
    connection: &'a Connection,
    before: u64,
}

impl Drop for OfEngine<'_> {
    fn drop(&mut self) {
        let rows = self.connection.total_changes() - self.before;
        self.changes.engine.set(self.changes.engine.get() + rows);
    }
}
