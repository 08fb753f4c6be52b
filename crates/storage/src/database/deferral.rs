//! A new object that has only been constructed is not stored.
//!
//! Constructors create tables, so merely reading an object would write it, and it would stay forever. What a new object's
//! constructor does is therefore kept in a transaction that stays open from poll to poll. The first change by anything
//! else commits it; if the object leaves memory before that, nothing of it was ever on disk. The next constructor repeats
//! it, so nothing is lost that a client has seen.
//!
//! Only this is deferred:
//!
//! - tables, indexes, views, triggers and `user_version` of a constructor, which runs between
//!   [`ObjectDb::begin_construction`] and [`ObjectDb::end_construction`];
//! - what [`ObjectDb::set_up`] writes, also rows, because it is the same each time.
//!
//! Other rows may differ each time, a random number or the time, so the object is stored with them at once. So it is with
//! an alarm, which must go off. After the constructor no other change is deferred.

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

    /// Like [`Self::transaction`], for what is the same in every new object: its tables, and their first rows. As long as
    /// a new object has nothing else, it does not cause the object to be stored.
    pub fn set_up<R, E: From<Error>>(&self, f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let is_first = match self.stage.get() {
            Stage::Constructing => true,
            Stage::Constructed(schema, _) => {
                self.changes_that_count() == 0 && schema == self.schema()?
            }
            Stage::Other => false,
        };
        if !is_first {
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
        if self.stage.get() != Stage::Constructing {
            self.stage.set(Stage::Constructed(self.schema()?, false));
        }
        Ok(result)
    }

    /// Has a new object stored by the next commit, with what its constructor did. Does nothing to a stored one.
    ///
    /// # Errors
    /// No transaction could begin.
    pub fn store_constructed(&self) -> Result<()> {
        if self.file.is_new() {
            self.begin()?;
            // A commit that must happen is not deferred.
            self.file.next_bookmark();
        }
        Ok(())
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
