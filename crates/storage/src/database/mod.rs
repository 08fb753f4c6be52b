//! One object's database: a SQLite connection on the engine's VFS, with the transaction of the current poll.
//!
//! The first write since the last [`ObjectDb::commit`] begins a transaction. `commit` ends it as one transaction of the
//! log and returns the position that must be durable before anyone outside may see the effect. Reads need no
//! transaction. After an error of `commit` the connection is unusable: drop it and open the object again to continue
//! from the committed state.

mod alarms;
mod bound;
mod changes;
mod deferral;
mod delete;
mod error;
mod import;
mod name;
mod open;
mod query;
mod restore;
mod statements;
#[cfg(test)]
mod tests;
mod text;
mod timeline;
mod tokens;

use crate::bookmark::Bookmark;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::ident::Lsn;
use crate::limits::{CONNECTION_BYTES, PAGE_BYTES};
use crate::pagefile::PageFile;
use crate::params::Params;
use crate::stored::Bound;
use crate::vfs::{self, Control, PageIo};
use alarms::KnownAlarms;
use changes::Changes;
use deferral::Stage;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Statement, TransactionState};
use statements::{Database, Known, Origin};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Ends each of the engine's own statements, so that a user's text never matches one in the statement cache.
const MARK: &str = "/*abide*/";

const SETUP: &str = "
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA journal_mode = MEMORY;
    PRAGMA synchronous = OFF;
    PRAGMA temp_store = FILE;
";

/// See the module's documentation. `!Send`: an object lives on one thread.
pub struct ObjectDb {
    // In this order: statements are finalized before their connection closes, and the connection before its file.
    begin: Control,
    commit: Control,
    connection: Database,
    file: Rc<PageFile>,
    guard: Guard,
    state: Cell<State>,
    /// The error with which SQLite rolled the transaction back, unless a statement reported it.
    lost_to: RefCell<Option<Error>>,
    /// Written with the object's first transaction.
    pending_name: RefCell<Option<String>>,
    vacuum: Cell<bool>,
    /// The transaction has touched an alarm of the object.
    alarm_touched: Cell<bool>,
    /// The object's alarms as they are in its rows, if known.
    pub(crate) known_alarms: RefCell<KnownAlarms>,
    was_new: bool,
    /// How far a new object has come. See [`deferral`].
    stage: Cell<Stage>,
    /// The tables of a new object that [`Self::set_up`] has created.
    set_up_tables: RefCell<BTreeSet<String>>,
    changes: Changes,
    memory: Cell<Measured>,
    /// The size to which the transaction may grow the database, unless it cannot exceed the limit.
    bound: Cell<Option<Bound>>,
    uses_reserve: Cell<bool>,
}

/// The connection's memory when it was last measured.
#[derive(Clone, Copy, Default)]
struct Measured {
    /// [`PageFile::growth`] at the time.
    growth: u64,
    statement_bytes: u64,
    times: u32,
    schema_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// What the object's constructor did is in an open transaction, and waits for the first write. See [`deferral`].
    Deferred,
    Transaction,
    /// SQLite rolled the transaction back on its own: the poll's writes are lost, so it must not be acknowledged.
    Lost,
}

/// How often one of the engine's statements runs while a database is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    Few,
    /// It is kept.
    Many,
}

impl std::fmt::Debug for ObjectDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectDb").finish_non_exhaustive()
    }
}

impl ObjectDb {
    pub(crate) fn open(file: Rc<PageFile>, cache_kib: usize) -> Result<Self> {
        let was_new = file.is_new();
        let opened = vfs::open_connection(file.vfs(), file.clone());
        let mut connection = opened.map_err(|error| {
            let why = file.take_error();
            why.unwrap_or_else(|| Error::input(format!("opening the database: {error}")))
        })?;
        let guard = Guard::default();
        let changes = Changes::default();
        let setup = |connection: &mut Connection| {
            let pages = file.max_page_count();
            connection.execute_batch(&format!(
                "{SETUP} PRAGMA cache_size = -{cache_kib}; PRAGMA max_page_count = {pages};"
            ))?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
            // Plans do not depend on parameter values. Otherwise a statement that might use a partial index is prepared
            // again each time it runs.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            changes.attach(connection)?;
            guard.attach(connection, file.sql_limits())
        };
        setup(&mut connection).map_err(|error| {
            let why = file.take_error();
            why.unwrap_or_else(|| {
                Error::damaged(format!("the object's database cannot be opened: {error}"))
            })
        })?;
        let control = |sql| {
            guard
                .trusted(|| Control::prepare(&connection, sql))
                .map_err(|e| Error::input(e.to_string()))
        };
        Ok(Self {
            begin: control(c"BEGIN")?,
            commit: control(c"COMMIT")?,
            connection: Database::new(connection),
            file,
            guard,
            state: Cell::new(State::Idle),
            lost_to: RefCell::default(),
            pending_name: RefCell::default(),
            vacuum: Cell::new(false),
            alarm_touched: Cell::new(false),
            known_alarms: RefCell::default(),
            was_new,
            stage: Cell::new(Stage::Other),
            set_up_tables: RefCell::default(),
            changes,
            memory: Cell::default(),
            bound: Cell::new(None),
            uses_reserve: Cell::new(false),
        })
    }

    /// The connection's memory in bytes; `None` if it cannot have grown much since the last call. Cheap enough to call
    /// after each poll.
    pub fn memory(&self) -> Option<u64> {
        let mut memory = self.memory.get();
        let growth = self.file.growth();
        let statement_bytes = self.connection.statement_bytes();
        if memory.times > 0 && (growth, statement_bytes) == (memory.growth, memory.statement_bytes)
        {
            return None;
        }
        memory.growth = growth;
        memory.statement_bytes = statement_bytes;
        memory.times = memory.times.saturating_add(1);
        // Tables are created early in an object's life, and examining all of them takes time.
        if memory.times.is_power_of_two() {
            memory.schema_bytes = vfs::schema_bytes(&self.connection);
        }
        self.memory.set(memory);
        // A page with its header does not fit the allocator's 4 KiB size class: the next is 5 KiB.
        let cache_bytes = vfs::cache_bytes(&self.connection) / 4 * 5;
        Some(CONNECTION_BYTES + memory.schema_bytes + statement_bytes + cache_bytes)
    }

    /// Returns whether the object had never been written when it was opened.
    pub fn is_new(&self) -> bool {
        self.was_new
    }

    /// Returns whether the object has been committed.
    pub fn is_stored(&self) -> bool {
        !self.file.is_new()
    }

    /// Begins the poll's transaction, if it has not begun.
    pub(crate) fn begin(&self) -> Result<()> {
        match self.state.get() {
            State::Idle => {}
            State::Deferred => {
                self.state.set(State::Transaction);
                return self.store_identity();
            }
            State::Transaction => return Ok(()),
            // Without a transaction SQLite would commit each statement alone.
            State::Lost => return Err(self.lost()),
        }
        self.control(&self.begin)?;
        self.state.set(State::Transaction);
        self.bound.set(self.file.bound());
        self.store_identity()
    }

    /// Records that the transaction touches the object's alarm.
    pub(crate) fn touch_alarm(&self) {
        self.alarm_touched.set(true);
    }

    /// The sum of the wall clock's steps back.
    pub(crate) fn set_back(&self) -> i64 {
        self.file.set_back()
    }

    /// The generation of the object's shard, which grows with each change of owner. Without
    /// [`StoreOptions::claims_shards`](crate::StoreOptions::claims_shards) it grows by one each time the data directory is opened.
    pub fn generation(&self) -> u32 {
        self.file.generation().0
    }

    /// Returns whether there are writes that neither `commit` nor [`Self::defer`] has ended.
    pub fn in_transaction(&self) -> bool {
        matches!(self.state.get(), State::Transaction | State::Lost)
    }

    /// Ends the poll's transaction. `None` if nothing has changed, so there is nothing to wait for.
    ///
    /// # Errors
    /// The transaction is lost and the connection is unusable; see the module.
    pub fn commit(&self) -> Result<Option<Lsn>> {
        let alarm_touched = self.alarm_touched.take();
        match self.state.replace(State::Idle) {
            State::Idle => return Ok(None),
            State::Lost => {
                self.file.discard();
                return Err(self.lost());
            }
            State::Deferred | State::Transaction => {}
        }
        // Read at the end, so whatever a savepoint has undone is undone here too.
        let alarm = if alarm_touched {
            self.alarm_change().map(Some)
        } else {
            Ok(None)
        };
        let committed = alarm.and_then(|change| {
            self.file.set_alarm(change);
            self.control(&self.commit)?;
            // A bookmark was taken in the transaction, but SQLite had no page to write.
            if self.file.needs_commit() {
                self.file.commit()?;
            }
            Ok(())
        });
        self.file.set_alarm(None);
        if committed.is_ok() {
            self.stage.set(Stage::Other);
            self.shrink_if_full();
        }
        if let Err(error) = committed {
            self.known_alarms.take();
            let _ = self.internal("ROLLBACK/*abide*/", ());
            self.file.discard();
            return Err(error);
        }
        // The commit is kept either way; SQLite reuses the space if it cannot be freed.
        if self.vacuum.take() {
            if let Err(error) = self.internal("VACUUM/*abide*/", ()) {
                tracing::warn!(%error, "cannot free the space of a deleted object; its next writes reuse it");
                self.file.discard();
            }
            // If this cannot be read, the object keeps its file.
            self.file.set_ends(self.is_empty().unwrap_or(false));
        }
        Ok(self.file.take_committed())
    }

    /// The position after the object's newest commit, including commits of earlier connections. After an error of
    /// [`Self::commit`], another connection sees nothing newer than this.
    pub fn newest(&self) -> Lsn {
        self.file.newest()
    }

    /// The bookmark of the object's present state. In a transaction that has written it is the bookmark of the commit that
    /// ends the transaction, which then happens even if nothing has changed. That bookmark is invalid if the transaction
    /// is rolled back.
    pub fn bookmark(&self) -> Bookmark {
        let is_open = matches!(self.state.get(), State::Deferred | State::Transaction);
        if !is_open || !self.has_written() {
            return self.file.bookmark();
        }
        self.next_bookmark()
    }

    /// The bookmark of the commit that ends the open transaction, which then happens even if nothing has changed.
    pub(crate) fn next_bookmark(&self) -> Bookmark {
        self.state.set(State::Transaction);
        self.file.next_bookmark()
    }

    /// Returns whether the open transaction has begun to write.
    fn has_written(&self) -> bool {
        let state = self.connection.transaction_state(Some("main"));
        !matches!(state, Ok(TransactionState::None | TransactionState::Read))
    }

    /// Undoes everything since the last commit.
    pub fn rollback(&self) {
        self.vacuum.set(false);
        self.alarm_touched.set(false);
        self.known_alarms.take();
        let open = [State::Deferred, State::Transaction];
        if open.contains(&self.state.replace(State::Idle)) {
            let _ = self.internal("ROLLBACK/*abide*/", ());
        }
        self.file.discard();
    }

    /// Runs `f`, and rolls its writes back if it returns an error or panics. Can be nested.
    ///
    /// The first call in a poll that has written nothing uses the poll's transaction itself; any other uses a savepoint
    /// in it.
    pub fn transaction<R, E: From<Error>>(&self, f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        struct Savepoint<'a>(Option<(&'a ObjectDb, bool, u64)>);
        impl Drop for Savepoint<'_> {
            fn drop(&mut self) {
                if let Some((db, vacuum, changes)) = self.0.take() {
                    db.vacuum.set(vacuum);
                    db.disregard_changes_since(changes);
                    db.known_alarms.take();
                    let _ = db.internal("ROLLBACK TO abide/*abide*/", ());
                    let _ = db.internal("RELEASE abide/*abide*/", ());
                }
            }
        }
        if self.state.get() == State::Idle {
            return self.first_transaction(f);
        }
        self.begin()?;
        let vacuum = self.vacuum.get();
        self.internal("SAVEPOINT abide/*abide*/", ())?;
        let mut savepoint = Savepoint(Some((self, vacuum, self.changes_that_count())));
        let result = f()?;
        savepoint.0 = None;
        self.internal("RELEASE abide/*abide*/", ())?;
        Ok(result)
    }

    fn first_transaction<R, E: From<Error>>(
        &self,
        f: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        struct Begun<'a>(Option<(&'a ObjectDb, Option<String>, u64)>);
        impl Drop for Begun<'_> {
            fn drop(&mut self) {
                if let Some((db, name, changes)) = self.0.take() {
                    db.undo_all(name);
                    db.disregard_changes_since(changes);
                }
            }
        }
        let name = self.pending_name.borrow().clone();
        self.begin()?;
        let mut begun = Begun(Some((self, name, self.changes_that_count())));
        let result = f()?;
        begun.0 = None;
        if self.state.get() != State::Transaction {
            return Err(self.lost().into());
        }
        Ok(result)
    }

    /// Rolls back a transaction in which the object's name may have been written. A bookmark taken in it stays valid.
    fn undo_all(&self, name: Option<String>) {
        if self.state.get() != State::Transaction {
            return;
        }
        let needs_commit = self.file.needs_commit();
        self.rollback();
        *self.pending_name.borrow_mut() = name;
        if needs_commit && self.begin().is_ok() {
            self.file.next_bookmark();
        }
    }

    /// The size of the database in bytes, including uncommitted changes.
    pub fn database_size(&self) -> Result<u64> {
        Ok(u64::from(self.page_count()?) * PAGE_BYTES as u64)
    }

    fn control(&self, statement: &Control) -> Result<()> {
        self.guard
            .trusted(|| statement.run())
            .map_err(|e| self.sql_error(&e))
    }

    /// Runs one of the engine's own statements.
    pub(crate) fn internal(&self, sql: &'static str, params: impl Params) -> Result<usize> {
        self.internal_rows(sql, params, |_| Ok(()))?;
        Ok(self.connection.changes() as usize)
    }

    /// The first row of one of the engine's own statements.
    pub(crate) fn internal_row<R>(
        &self,
        sql: &'static str,
        params: impl Params,
        take: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<R>,
    ) -> Result<Option<R>> {
        let mut first = None;
        self.internal_rows(sql, params, |row| {
            if first.is_none() {
                first = Some(take(row).map_err(|e| self.sql_error(&e))?);
            }
            Ok(())
        })?;
        Ok(first)
    }

    /// Calls `take` with each row of one of the engine's own statements. SQLite may prepare a statement again while
    /// stepping it, so the engine's privileges last until the end.
    pub(crate) fn internal_rows(
        &self,
        sql: &'static str,
        params: impl Params,
        mut take: impl FnMut(&rusqlite::Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.engine_rows(sql, params, Uses::Many, &mut take)
    }

    /// As [`Self::internal_rows`], for a statement that runs once or twice while the database is open: it takes no memory
    /// afterwards.
    pub(crate) fn rare_rows(
        &self,
        sql: &'static str,
        mut take: impl FnMut(&rusqlite::Row<'_>) -> Result<()>,
    ) -> Result<()> {
        self.engine_rows(sql, (), Uses::Few, &mut take)
    }

    fn engine_rows(
        &self,
        sql: &'static str,
        params: impl Params,
        uses: Uses,
        take: &mut dyn FnMut(&rusqlite::Row<'_>) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(sql.ends_with(MARK), "{sql}");
        let _engine = self.changes.of_engine(&self.connection);
        self.guard.trusted(|| match uses {
            Uses::Few => {
                let prepared = self.connection.prepare(sql);
                let mut statement = prepared.map_err(|e| self.sql_error(&e))?;
                self.step_rows(&mut statement, params, take)
            }
            Uses::Many => {
                let step = |statement: &mut Statement<'_>, _: &Known| {
                    self.step_rows(statement, params, take)
                };
                let ran = self.connection.with(sql, Origin::Engine, step);
                ran.unwrap_or_else(|error| Err(self.unprepared(error)))
            }
        })
    }
}
