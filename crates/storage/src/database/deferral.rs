//! An object that has only created its tables is not stored.
//!
//! Most constructors create tables, so merely reading an object would write it, and it would stay forever. Until a new
//! object has a row, its tables are in a transaction that stays open from poll to poll. The first write commits it; if
//! the object leaves memory before that, nothing of it was ever on disk. The next constructor creates the tables again,
//! so nothing is lost that anybody has seen: only what a constructor does each time is deferred, and never a row.

use super::{ObjectDb, State};
use crate::error::Result;
use crate::limits::MAX_DEFERRED_TABLES;

/// The tables of the object. Virtual tables have rows of their own.
const TABLES: &str = "
    SELECT name, sql LIKE 'CREATE VIRTUAL %' FROM sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT LIKE '!_abide!_%' ESCAPE '!'/*abide*/";

impl ObjectDb {
    /// Ends a poll without a commit, if the object has never been committed and has only created empty tables: they
    /// stay in the open transaction. Returns false if there is more, or nothing.
    ///
    /// # Errors
    /// SQLite could not check this; the connection is unusable.
    pub fn defer(&self) -> Result<bool> {
        let is_more = || self.alarm_touched.get() || self.vacuum.get() || self.file.needs_commit();
        if self.state.get() != State::Transaction || is_more() {
            return Ok(false);
        }
        let deferred = self.deferred.get() || (self.file.is_new() && self.has_only_tables()?);
        self.deferred.set(deferred);
        Ok(deferred)
    }

    fn has_only_tables(&self) -> Result<bool> {
        if self.connection.total_changes() > self.changes_of_name.get() {
            return Ok(false);
        }
        let mut tables: Vec<(String, bool)> = Vec::new();
        self.internal_rows(TABLES, (), |row| {
            let table = (row.get(0), row.get(1));
            let (Ok(name), Ok(is_virtual)) = table else {
                return Ok(());
            };
            tables.push((name, is_virtual));
            Ok(())
        })?;
        if tables.len() > MAX_DEFERRED_TABLES || tables.iter().any(|(_, is_virtual)| *is_virtual) {
            return Ok(false);
        }
        for (name, _) in &tables {
            // `CREATE TABLE … AS` does not count the rows that it inserts.
            if self.has_rows(name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_rows(&self, table: &str) -> Result<bool> {
        let sql = format!("SELECT 1 FROM \"{}\" LIMIT 1", table.replace('"', "\"\""));
        self.guard.trusted(|| {
            let found = self
                .connection
                .prepare(&sql)
                .and_then(|mut statement| statement.exists(()));
            found.map_err(|error| self.sql_error(&error))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use crate::{ObjectDb, ObjectKey, SimDisk, Store, StoreOptions};

    fn store() -> Store {
        let options = StoreOptions {
            manual: true,
            ..StoreOptions::small()
        };
        Store::open(Arc::new(SimDisk::new()), Path::new("/data"), options).unwrap()
    }

    fn open(store: &Store) -> ObjectDb {
        let namespace = store.namespace("tests").unwrap();
        let id = [1; 32];
        let db = store.open_object(ObjectKey { namespace, id }).unwrap();
        db.set_name("ada").unwrap();
        db
    }

    const TABLES: &str =
        "CREATE TABLE IF NOT EXISTS t (n INTEGER); CREATE INDEX IF NOT EXISTS i ON t (n)";

    #[test]
    fn tables_wait_for_the_first_row_and_are_committed_with_it() {
        let store = store();
        let db = open(&store);
        db.exec(TABLES, ()).unwrap();
        assert!(db.defer().unwrap() && !db.in_transaction());
        let none: Vec<i64> = db
            .exec("SELECT n FROM t", ())
            .unwrap()
            .raw()
            .iter()
            .map(|_| 1)
            .collect();
        assert!(none.is_empty() && db.defer().unwrap());
        // What changes nothing changes nothing.
        db.kv_delete("k").unwrap();
        assert!(db.in_transaction() && db.defer().unwrap());
        db.exec("INSERT INTO t VALUES (7)", ()).unwrap();
        assert!(db.in_transaction() && !db.defer().unwrap());
        assert!(db.commit().unwrap().is_some());
        assert!(!db.defer().unwrap());
        drop(db);
        let db = open(&store);
        assert_eq!(db.exec("SELECT n FROM t", ()).unwrap().raw().len(), 1);
        assert_eq!(db.name().unwrap().as_deref(), Some("ada"));
        db.exec("CREATE TABLE more (n)", ()).unwrap();
        assert!(!db.defer().unwrap(), "the object is stored already");
    }

    #[test]
    fn an_object_that_is_dropped_before_its_first_row_leaves_nothing() {
        let store = store();
        let log = store.appended();
        let db = open(&store);
        db.exec(TABLES, ()).unwrap();
        assert!(db.defer().unwrap());
        drop(db);
        let db = open(&store);
        assert!(db.is_new() && db.exec("SELECT n FROM t", ()).is_err());
        assert_eq!(store.appended(), log);
        let namespace = store.namespace("tests").unwrap();
        assert!(store.objects(namespace).unwrap().is_empty());
    }

    #[test]
    fn whatever_is_more_than_empty_tables_is_not_deferred() {
        let writes: [fn(&ObjectDb); 5] = [
            |db| {
                drop(
                    db.exec("CREATE TABLE t AS SELECT random() AS n", ())
                        .unwrap(),
                );
            },
            |db| {
                drop(
                    db.exec(
                        "CREATE TABLE t (n); INSERT INTO t VALUES (1); DELETE FROM t",
                        (),
                    )
                    .unwrap(),
                );
            },
            |db| db.kv_put("k", b"v").unwrap(),
            |db| {
                db.begin().unwrap();
                db.bookmark();
            },
            |db| {
                db.begin().unwrap();
                db.touch_alarm();
            },
        ];
        for (number, write) in writes.into_iter().enumerate() {
            let store = store();
            let db = open(&store);
            write(&db);
            assert!(!db.defer().unwrap(), "{number}");
            assert!(db.commit().unwrap().is_some(), "{number}");
        }
    }
}
