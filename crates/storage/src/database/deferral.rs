//! A new object that has only been constructed is not stored.
//!
//! Constructors create tables, so merely reading an object would write it, and it would stay forever. What a new object's
//! constructor does is therefore kept in a transaction that stays open from poll to poll. The first change by anything
//! else commits it; if the object leaves memory before that, nothing of it was ever on disk. The next constructor repeats
//! it, so nothing is lost that a client has seen.
//!
//! Only this is deferred, all of it done by a constructor ([`ObjectDb::begin_construction`] to
//! [`ObjectDb::end_construction`]):
//!
//! - tables, indexes, views, triggers and `user_version`;
//! - rows that [`ObjectDb::set_up`] writes, because they are the same each time.
//!
//! Other rows may differ each time, a random number or the time, so the object is stored with them at once. So it is with
//! an alarm, which must go off. After the constructor nothing is deferred that has changed anything.

use super::{ObjectDb, State};
use crate::error::{Error, Result};

/// How far a new object has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its constructor runs.
    Constructing,
    /// Its constructor has left this schema. The flag: its tables have been found to be without rows.
    Constructed(Schema, bool),
    /// It is stored, or has no constructor.
    Other,
}

/// What changes with the schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Schema {
    /// SQLite increments it with each change.
    version: i64,
    user_version: i64,
}

/// The ordinary tables of the object. Virtual ones, and those that belong to them, have rows from the beginning.
const TABLES: &str = "
    SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
        AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_abide_*'/*abide*/";

impl ObjectDb {
    /// Called before the object's constructor.
    pub fn begin_construction(&self) {
        if self.file.is_new() {
            self.stage.set(Stage::Constructing);
        }
    }

    /// Called before anything else than the object's constructor runs. The first call counts.
    ///
    /// # Errors
    /// SQLite could not read the schema's version; the connection is unusable.
    pub fn end_construction(&self) -> Result<()> {
        if self.stage.get() == Stage::Constructing {
            self.stage.set(Stage::Constructed(self.schema()?, false));
        }
        Ok(())
    }

    /// Like [`Self::transaction`], for what is the same in every new object: its tables, and their first rows. In a
    /// constructor it does not cause the object to be stored.
    pub fn set_up<R, E: From<Error>>(&self, f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        if self.stage.get() != Stage::Constructing {
            return self.transaction(f);
        }
        let before = self.changes_that_count();
        let tables = self.tables()?;
        let result = self.transaction(f)?;
        self.disregard_changes_since(before);
        let created = self
            .tables()?
            .into_iter()
            .filter(|name| !tables.contains(name));
        self.set_up_tables.borrow_mut().extend(created);
        Ok(result)
    }

    /// Ends a poll without a commit, if the object has never been committed and there is nothing but what its
    /// constructor did: that stays in the open transaction. Returns false if there is more, or nothing.
    ///
    /// # Errors
    /// SQLite could not check this; the connection is unusable.
    pub fn defer(&self) -> Result<bool> {
        if self.state.get() == State::Transaction && self.is_only_constructed()? {
            self.alarm_touched.set(false);
            self.state.set(State::Deferred);
        }
        Ok(self.state.get() == State::Deferred)
    }

    fn is_only_constructed(&self) -> Result<bool> {
        if self.changes_that_count() > 0
            || self.vacuum.get()
            || self.file.needs_commit()
            || !self.file.is_new()
            || self.sets_alarm()?
        {
            return Ok(false);
        }
        match self.stage.get() {
            Stage::Other => Ok(false),
            Stage::Constructing => self.tables_are_empty(),
            Stage::Constructed(schema, _) if schema != self.schema()? => Ok(false),
            Stage::Constructed(_, true) => Ok(true),
            Stage::Constructed(schema, false) => {
                let is_empty = self.tables_are_empty()?;
                self.stage.set(Stage::Constructed(schema, is_empty));
                Ok(is_empty)
            }
        }
    }

    /// Row changes of this connection, without those that need not be stored: the object's name, what [`Self::set_up`]
    /// wrote, and what was rolled back.
    pub(super) fn changes_that_count(&self) -> u64 {
        self.connection.total_changes() - self.changes.disregarded()
    }

    /// The changes since then need not be stored.
    pub(super) fn disregard_changes_since(&self, before: u64) {
        self.changes
            .disregard(self.changes_that_count().saturating_sub(before));
    }

    /// Returns whether the transaction leaves the object with an alarm.
    fn sets_alarm(&self) -> Result<bool> {
        Ok(self.alarm_touched.get() && self.alarm_entry()?.is_some())
    }

    fn schema(&self) -> Result<Schema> {
        let version = self.internal_row("PRAGMA schema_version/*abide*/", (), |row| row.get(0))?;
        let user_version =
            self.internal_row("PRAGMA user_version/*abide*/", (), |row| row.get(0))?;
        Ok(Schema {
            version: version.unwrap_or_default(),
            user_version: user_version.unwrap_or_default(),
        })
    }

    /// `CREATE TABLE … AS` does not count the rows that it inserts.
    fn tables_are_empty(&self) -> Result<bool> {
        let set_up = self.set_up_tables.borrow();
        for name in self.tables()? {
            if !set_up.contains(&name) && self.has_rows(&name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tables(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.internal_rows(TABLES, (), |row| {
            names.push(row.get(0).map_err(|e| self.sql_error(&e))?);
            Ok(())
        })?;
        Ok(names)
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

    use crate::{AlarmRow, Error, ObjectDb, ObjectKey, Result, SimDisk, Store, StoreOptions};

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

    fn run(db: &ObjectDb, sql: &str) {
        db.exec(sql, ()).unwrap();
    }

    /// An object whose constructor does this.
    fn construct(store: &Store, constructor: impl FnOnce(&ObjectDb)) -> ObjectDb {
        let db = open(store);
        db.begin_construction();
        constructor(&db);
        db.end_construction().unwrap();
        db
    }

    const TABLES: &str = "CREATE TABLE IF NOT EXISTS t (n INTEGER); CREATE INDEX IF NOT EXISTS i ON t (n); PRAGMA user_version = 3";

    #[test]
    fn tables_wait_for_the_first_row_and_are_committed_with_it() {
        let store = store();
        let db = construct(&store, |db| run(db, TABLES));
        assert!(db.defer().unwrap() && !db.in_transaction());
        assert!(db.exec("SELECT n FROM t", ()).unwrap().is_empty() && db.defer().unwrap());
        run(&db, "INSERT INTO t VALUES (7)");
        assert!(db.in_transaction() && !db.defer().unwrap());
        assert!(db.commit().unwrap().is_some() && !db.defer().unwrap());
        drop(db);
        let db = construct(&store, |db| run(db, "CREATE TABLE more (n)"));
        assert!(!db.defer().unwrap(), "the object is stored already");
        assert_eq!(db.exec("SELECT n FROM t", ()).unwrap().len(), 1);
        assert_eq!(db.name().unwrap().as_deref(), Some("ada"));
    }

    #[test]
    fn an_object_that_is_dropped_before_its_first_row_leaves_nothing() {
        let store = store();
        let log = store.appended();
        let db = construct(&store, |db| run(db, TABLES));
        assert!(db.defer().unwrap());
        drop(db);
        let db = open(&store);
        assert!(db.is_new() && db.exec("SELECT n FROM t", ()).is_err());
        assert_eq!(store.appended(), log);
        let namespace = store.namespace("tests").unwrap();
        assert!(store.objects(namespace).unwrap().is_empty());
    }

    #[test]
    fn set_up_rows_and_virtual_tables_of_a_constructor_are_deferred() {
        let store = store();
        let db = construct(&store, |db| {
            run(db, "CREATE VIRTUAL TABLE f USING fts5(a)");
            run(
                db,
                "-- places\nCREATE VIRTUAL TABLE r USING rtree(id, x0, x1)",
            );
            db.set_up(|| {
                db.exec("CREATE TABLE m AS SELECT 1 AS version", ())?;
                db.exec("INSERT INTO m VALUES (2)", ()).map(drop)
            })
            .unwrap();
        });
        assert!(db.defer().unwrap());
        run(&db, "INSERT INTO f VALUES ('hello')");
        assert!(!db.defer().unwrap() && db.commit().unwrap().is_some());
        drop(db);
        let db = open(&store);
        assert_eq!(db.exec("SELECT * FROM f('hello')", ()).unwrap().len(), 1);
        assert_eq!(db.exec("SELECT * FROM m", ()).unwrap().len(), 2);
    }

    #[test]
    fn rows_and_alarms_of_a_constructor_are_stored_at_once() {
        let writes: [fn(&ObjectDb); 6] = [
            |db| run(db, "CREATE TABLE t AS SELECT random() AS n"),
            |db| {
                run(db, "CREATE TABLE t (n); INSERT INTO t VALUES (1)");
                run(db, "DELETE FROM t");
            },
            |db| db.kv_put("k", b"v").unwrap(),
            |db| {
                db.begin().unwrap();
                db.bookmark();
            },
            |db| db.set_alarm(Some(&AlarmRow::at(5))).unwrap(),
            |db| {
                db.set_up(|| db.exec("CREATE TABLE t (n)", ()).map(drop))
                    .unwrap();
                run(db, "INSERT INTO t VALUES (1)");
            },
        ];
        for (number, write) in writes.into_iter().enumerate() {
            let store = store();
            let db = construct(&store, write);
            assert!(!db.defer().unwrap(), "{number}");
            assert!(db.commit().unwrap().is_some(), "{number}");
        }
    }

    #[test]
    fn ddl_after_the_constructor_is_stored_at_once() {
        for constructor in [TABLES, "SELECT 1"] {
            for sql in [
                "CREATE TABLE u (n)",
                "CREATE TABLE u (n); DROP TABLE u",
                "CREATE TABLE u AS SELECT 1 AS n",
                "CREATE VIRTUAL TABLE u USING fts5(a)",
                "CREATE VIEW u AS SELECT 1",
                "PRAGMA user_version = 4",
            ] {
                let store = store();
                let db = construct(&store, |db| run(db, constructor));
                db.defer().unwrap();
                run(&db, sql);
                assert!(db.in_transaction() && !db.defer().unwrap(), "{sql}");
                assert!(db.commit().unwrap().is_some(), "{sql}");
            }
        }
        for sql in [
            "DROP TABLE t",
            "CREATE INDEX j ON t (n)",
            "ALTER TABLE t ADD COLUMN m",
            "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
        ] {
            let store = store();
            let db = construct(&store, |db| run(db, TABLES));
            assert!(db.defer().unwrap());
            run(&db, sql);
            assert!(
                !db.defer().unwrap() && db.commit().unwrap().is_some(),
                "{sql}"
            );
        }
    }

    #[test]
    fn what_changes_nothing_stores_nothing() {
        let no_changes: [fn(&ObjectDb); 6] = [
            |db| drop(db.kv_delete("k").unwrap()),
            |db| db.set_alarm(None).unwrap(),
            |db| run(db, "CREATE TABLE IF NOT EXISTS t (n)"),
            |db| run(db, "DELETE FROM t; UPDATE t SET n = 1"),
            |db| db.set_name("bea").unwrap(),
            |db| {
                let undone: Result<()> = db.transaction(|| {
                    run(db, "INSERT INTO t VALUES (1)");
                    Err(Error::input("undone"))
                });
                undone.unwrap_err();
            },
        ];
        for (number, change) in no_changes.into_iter().enumerate() {
            let store = store();
            let db = construct(&store, |db| run(db, TABLES));
            assert!(db.defer().unwrap(), "{number}");
            change(&db);
            assert!(db.defer().unwrap(), "{number}");
        }
        let db = construct(&store(), |_| {});
        db.kv_delete("k").unwrap();
        assert!(db.in_transaction() && db.defer().unwrap());
    }

    #[test]
    fn a_bookmark_of_a_deferred_object_is_a_write() {
        let store = store();
        let db = construct(&store, |db| run(db, TABLES));
        assert!(db.defer().unwrap());
        let bookmark = db.bookmark();
        assert!(db.in_transaction() && !db.defer().unwrap());
        assert!(db.commit().unwrap().is_some());
        assert_eq!(db.bookmark(), bookmark);
    }
}
