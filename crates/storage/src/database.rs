//! One object's database: a SQLite connection on the engine's VFS, with the transaction of the current poll.
//!
//! The first write since the last [`ObjectDb::commit`] begins a transaction; `commit` ends it as one transaction of the
//! log and returns the position that must be durable before anyone outside may see the effect. Reading needs no
//! transaction. After an error of `commit` the connection is of no use: drop it, and open the object again to go on
//! from what is committed.

use crate::archive::bookmark::Bookmark;
use crate::broken::{Variant, broken};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::{Guard, NO_ATTACH, max_page_count, renames_to_reserved};
use crate::ident::Lsn;
use crate::limits::{
    CONNECTION_BYTES, MAX_BOUND_PARAMETERS, MAX_COLUMNS, MAX_OBJECT_BYTES, MAX_RESULT_BYTES,
    MAX_SQL_BYTES, MAX_VALUE_BYTES, PAGE_BYTES, STATEMENT_CACHE,
};
use crate::pagefile::PageFile;
use crate::rows::{Cells, Gathered, Row, Rows, Source};
use crate::vfs::{self, Control};
use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, ErrorCode, Params, Statement};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Ends each of the engine's own statements, so that none can be found in the statement cache by a user's text.
const MARK: &str = "/*abide*/";

const SETUP: &str = "
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA journal_mode = MEMORY;
    PRAGMA synchronous = OFF;
    PRAGMA temp_store = FILE;
";

/// See the module's documentation. `!Send`: an object lives on one thread.
pub struct ObjectDb {
    // In this order: statements are finalised before their connection closes, and that before its file.
    begin: Control,
    commit: Control,
    connection: Connection,
    file: Rc<PageFile>,
    guard: Guard,
    state: Cell<State>,
    /// Written with the object's first transaction.
    pending_name: RefCell<Option<String>>,
    vacuum: Cell<bool>,
    /// The transaction has touched the object's alarm.
    alarm_touched: Cell<bool>,
    was_new: bool,
    memory: Cell<Measured>,
}

/// What the connection takes of memory, as far as it was measured.
#[derive(Clone, Copy, Default)]
struct Measured {
    /// [`PageFile::growth`] at the time.
    growth: u64,
    times: u32,
    schema_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Transaction,
    /// SQLite rolled the transaction back by itself: what the poll wrote is lost, so it must not be acknowledged.
    Lost,
}

impl std::fmt::Debug for ObjectDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectDb").finish_non_exhaustive()
    }
}

impl ObjectDb {
    pub(crate) fn open(file: Rc<PageFile>, cache_kib: usize) -> Result<Self> {
        let was_new = file.is_new();
        let mut connection = vfs::open_connection(file.vfs(), &file)?;
        let guard = Guard::default();
        let setup = |connection: &mut Connection| {
            let pages = max_page_count();
            connection.execute_batch(&format!(
                "{SETUP} PRAGMA cache_size = -{cache_kib}; PRAGMA max_page_count = {pages};"
            ))?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
            // A plan does not depend on parameters' values: else a statement that might use a partial index is prepared
            // anew each time that it runs.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
            guard.attach(connection)
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
            connection,
            file,
            guard,
            state: Cell::new(State::Idle),
            pending_name: RefCell::default(),
            vacuum: Cell::new(false),
            alarm_touched: Cell::new(false),
            was_new,
            memory: Cell::default(),
        })
    }

    /// Bytes of memory that the connection takes; `None` if they cannot have grown much since this was last asked. Cheap
    /// enough to be asked after each poll.
    pub fn memory(&self) -> Option<u64> {
        let mut memory = self.memory.get();
        let growth = self.file.growth();
        if memory.times > 0 && growth == memory.growth {
            return None;
        }
        memory.growth = growth;
        memory.times = memory.times.saturating_add(1);
        // Statements are prepared early in an object's life, and looking at all of them takes its time.
        if memory.times.is_power_of_two() {
            memory.schema_bytes = vfs::schema_bytes(&self.connection);
        }
        self.memory.set(memory);
        // A page and its header do not fit an allocator's size of 4 KiB: the next is 5.
        let cache_bytes = vfs::cache_bytes(&self.connection) / 4 * 5;
        Some(CONNECTION_BYTES + memory.schema_bytes + cache_bytes)
    }

    /// True if the object had never been written when it was opened.
    pub fn is_new(&self) -> bool {
        self.was_new
    }

    /// Runs a user's SQL: one statement, or several separated by semicolons. Parameters bind to the first statement
    /// that has any. Returns the rows of the last statement.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] with SQLite's words, or with the right call for what is not available here;
    /// [`ErrorKind::Limit`] with the limit passed.
    pub fn exec(&self, sql: &str, params: impl Params) -> Result<Rows> {
        check_text(sql)?;
        match self.connection.prepare_cached(sql) {
            Ok(mut statement) => self.run(&mut statement, params).map(Rows::from),
            // A later statement may need what an earlier one makes, so each is prepared when its turn comes.
            Err(_) if sql.trim_end().trim_end_matches(';').contains(';') => {
                self.guard.take_refusal();
                self.run_batch(sql, params).map(Rows::from)
            }
            Err(error) => Err(self.sql_error(&error)),
        }
    }

    /// Runs one statement of a user's SQL and hands over its rows one by one, without gathering them. An error of `row`
    /// ends it; what the statement has written so far stays in the transaction.
    pub fn for_each<E: From<Error>>(
        &self,
        sql: &str,
        params: impl Params,
        mut row: impl FnMut(Row<'_, E>) -> Result<(), E>,
    ) -> Result<(), E> {
        check_text(sql)?;
        let prepared = self.connection.prepare_cached(sql);
        let mut statement = prepared.map_err(|e| self.sql_error(&e))?;
        self.begin_for(&statement)?;
        let columns = column_names(&statement);
        self.step(&mut statement, params, |values| {
            row(Row::new(&columns, Source::Live(values)))
        })
    }

    fn run_batch(&self, sql: &str, params: impl Params) -> Result<Gathered> {
        let mut params = Some(params);
        let mut rows = Gathered::default();
        let mut written = 0;
        let mut batch = Batch::new(&self.connection, sql);
        loop {
            let next = batch.next().map_err(|error| self.sql_error(&error))?;
            let Some(mut statement) = next else { break };
            rows = if statement.parameter_count() > 0 {
                let params = params.take();
                let params = params.ok_or_else(|| {
                    Error::input(
                        "only one of several statements may have parameters: call exec for each",
                    )
                })?;
                self.run(&mut statement, params)?
            } else {
                self.run(&mut statement, ())?
            };
            written += rows.written;
        }
        rows.written = written;
        Ok(rows)
    }

    fn run(&self, statement: &mut Statement<'_>, params: impl Params) -> Result<Gathered> {
        self.begin_for(statement)?;
        let columns: Arc<[String]> = match statement.column_count() {
            0 => Arc::default(),
            _ => column_names(statement).into(),
        };
        let before = self.connection.total_changes();
        let mut cells = Cells::default();
        let mut count = 0;
        self.step(statement, params, |row| {
            for column in 0..columns.len() {
                cells.push(row.get_ref(column).map_err(|e| self.sql_error(&e))?);
            }
            count += 1;
            if cells.size() > MAX_RESULT_BYTES {
                let most = MAX_RESULT_BYTES >> 20;
                return Err(Error::limit(format!(
                    "the result is over {most} MiB: read it with for_each, or add a LIMIT"
                )));
            }
            Ok(())
        })?;
        Ok(Gathered {
            columns,
            cells,
            count,
            written: self.connection.total_changes() - before,
        })
    }

    /// Steps a statement to its end, or to the first error of `take`.
    fn step<E: From<Error>>(
        &self,
        statement: &mut Statement<'_>,
        params: impl Params,
        mut take: impl FnMut(&rusqlite::Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rows = statement.query(params).map_err(|e| self.sql_error(&e))?;
        while let Some(row) = rows.next().map_err(|e| self.sql_error(&e))? {
            take(row)?;
        }
        Ok(())
    }

    fn begin_for(&self, statement: &Statement<'_>) -> Result<()> {
        if statement.readonly() {
            Ok(())
        } else {
            self.begin()
        }
    }

    /// Begins the poll's transaction, if it has not begun.
    pub(crate) fn begin(&self) -> Result<()> {
        match self.state.get() {
            State::Idle => {}
            State::Transaction => return Ok(()),
            // Without a transaction SQLite would commit each statement by itself.
            State::Lost => return Err(lost()),
        }
        self.control(&self.begin)?;
        self.state.set(State::Transaction);
        if let Some(name) = self.pending_name.take() {
            self.internal("INSERT INTO _abide_meta (key, value) VALUES ('name', ?1) ON CONFLICT DO NOTHING/*abide*/", [name])?;
        }
        Ok(())
    }

    /// Notes that the transaction touches the object's alarm.
    pub(crate) fn touch_alarm(&self) {
        self.alarm_touched.set(true);
    }

    /// True if something was written that `commit` has not ended.
    pub fn in_transaction(&self) -> bool {
        self.state.get() != State::Idle
    }

    /// Ends the poll's transaction. `None`: nothing has changed, so there is nothing to wait for.
    ///
    /// # Errors
    /// The transaction is lost and the connection of no use; see the module.
    pub fn commit(&self) -> Result<Option<Lsn>> {
        let alarm_touched = self.alarm_touched.take();
        match self.state.replace(State::Idle) {
            State::Idle => return Ok(None),
            State::Lost => {
                self.file.discard();
                return Err(lost());
            }
            State::Transaction => {}
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
            // A bookmark was taken in the transaction, and SQLite had no page to write.
            if self.file.needs_commit() {
                self.file.commit()?;
            }
            Ok(())
        });
        self.file.set_alarm(None);
        if let Err(error) = committed {
            let _ = self.internal("ROLLBACK/*abide*/", ());
            self.file.discard();
            return Err(error);
        }
        // What was committed is committed, whatever becomes of the space; SQLite uses it again.
        if self.vacuum.take()
            && let Err(error) = self.internal("VACUUM/*abide*/", ())
        {
            tracing::warn!(%error, "the space of a deleted object is kept for its next writes");
            self.file.discard();
        }
        Ok(self.file.take_committed())
    }

    /// The position behind the object's newest commit, whoever made it. After an error of [`Self::commit`] nothing
    /// newer than this can be seen by another connection.
    pub fn newest(&self) -> Lsn {
        self.file.newest()
    }

    /// The bookmark of the object as it is now. With a transaction open it is that of the commit that will end it, which
    /// is then made even if nothing has changed; it is of no use if the transaction is rolled back.
    pub fn bookmark(&self) -> Bookmark {
        match self.state.get() {
            State::Transaction => self.file.next_bookmark(),
            State::Idle | State::Lost => self.file.bookmark(),
        }
    }

    /// Commits what is staged beside SQLite: the pages of an earlier state. The object keeps its name and has the alarm of
    /// that state; a restore that was asked for is done.
    pub(crate) fn commit_restored(&self, name: Option<&str>) -> Result<()> {
        self.begin()?;
        self.touch_alarm();
        self.forget_requested_restore()?;
        if let Some(name) = name {
            self.store_name(name)?;
        }
        self.commit_staged()
    }

    /// As [`Self::commit_restored`], for a new object made of another's pages. It has no alarm.
    pub(crate) fn commit_forked(&self, name: Option<&str>) -> Result<()> {
        self.begin()?;
        match name {
            Some(name) => self.store_name(name)?,
            None => {
                self.internal("DELETE FROM _abide_meta WHERE key = 'name'/*abide*/", ())?;
            }
        }
        self.set_alarm(None)?;
        self.forget_requested_restore()?;
        self.commit_staged()
    }

    fn store_name(&self, name: &str) -> Result<()> {
        let upsert = "INSERT INTO _abide_meta (key, value) VALUES ('name', ?1)
            ON CONFLICT DO UPDATE SET value = excluded.value/*abide*/";
        self.internal(upsert, [name]).map(drop)
    }

    /// Asks for a restore, in the current transaction: whoever opens the object next finds it with
    /// [`Self::requested_restore`] and does it with [`crate::Store::restore_requested`]. Returns the bookmark that undoes it,
    /// which is that of the commit that ends the transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Input`] if the bookmark is of another object, or later than the present.
    pub fn request_restore(&self, to: &Bookmark) -> Result<Bookmark> {
        self.begin()?;
        self.file.must_be_own(to)?;
        let present = self.bookmark();
        if *to > present {
            return Err(Error::input(format!(
                "{to} is later than the object's present state, {present}"
            )));
        }
        let upsert = "INSERT INTO _abide_meta (key, value) VALUES ('restore', ?1)
            ON CONFLICT DO UPDATE SET value = excluded.value/*abide*/";
        self.internal(upsert, [to.to_string()])?;
        Ok(present)
    }

    /// The restore that was asked for and not done yet.
    pub fn requested_restore(&self) -> Result<Option<Bookmark>> {
        let text: Option<String> = self.internal_row(
            "SELECT value FROM _abide_meta WHERE key = 'restore'/*abide*/",
            (),
            |row| row.get(0),
        )?;
        text.map(|text| text.parse()).transpose()
    }

    /// Forgets a restore that was asked for, in the current transaction.
    pub(crate) fn forget_requested_restore(&self) -> Result<()> {
        self.begin()?;
        let delete = "DELETE FROM _abide_meta WHERE key = 'restore'/*abide*/";
        self.internal(delete, ()).map(drop)
    }

    fn commit_staged(&self) -> Result<()> {
        // Even a restore to the present state is a commit: it has a bookmark of its own.
        self.file.next_bookmark();
        self.commit().map(drop)
    }

    /// Undoes everything since the last commit.
    pub fn rollback(&self) {
        self.vacuum.set(false);
        self.alarm_touched.set(false);
        if self.state.replace(State::Idle) == State::Transaction {
            let _ = self.internal("ROLLBACK/*abide*/", ());
        }
        self.file.discard();
    }

    /// Runs `f` in a savepoint, which is undone if it returns an error or panics. Nests.
    pub fn transaction<R, E: From<Error>>(&self, f: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        struct Savepoint<'a>(Option<(&'a ObjectDb, bool)>);
        impl Drop for Savepoint<'_> {
            fn drop(&mut self) {
                if let Some((db, vacuum)) = self.0.take() {
                    db.vacuum.set(vacuum);
                    if !broken(Variant::RollbackForgotten) {
                        let _ = db.internal("ROLLBACK TO abide/*abide*/", ());
                    }
                    let _ = db.internal("RELEASE abide/*abide*/", ());
                }
            }
        }
        self.begin()?;
        let vacuum = self.vacuum.get();
        self.internal("SAVEPOINT abide/*abide*/", ())?;
        let mut savepoint = Savepoint(Some((self, vacuum)));
        let result = f()?;
        savepoint.0 = None;
        self.internal("RELEASE abide/*abide*/", ())?;
        Ok(result)
    }

    /// The size of the database in bytes, with what is not committed yet.
    pub fn database_size(&self) -> Result<u64> {
        let pages: u32 = self
            .internal_row("PRAGMA page_count/*abide*/", (), |row| row.get(0))?
            .unwrap_or(0);
        Ok(u64::from(pages) * PAGE_BYTES as u64)
    }

    /// The object's name, if the object was ever told.
    pub fn name(&self) -> Result<Option<String>> {
        if let Some(name) = &*self.pending_name.borrow() {
            return Ok(Some(name.clone()));
        }
        self.internal_row(
            "SELECT value FROM _abide_meta WHERE key = 'name'/*abide*/",
            (),
            |row| row.get(0),
        )
    }

    /// Tells the object its name; it is stored with the next transaction, once.
    pub fn set_name(&self, name: &str) -> Result<()> {
        if self.name()?.is_none() {
            *self.pending_name.borrow_mut() = Some(name.to_owned());
        }
        Ok(())
    }

    /// Removes every table, view, trigger, index and key, and the alarm, and gives the space back at the commit.
    /// If it fails, nothing is removed.
    pub fn delete_all(&self) -> Result<()> {
        self.begin()?;
        // Foreign keys would forbid some orders of dropping.
        let foreign_keys = |on| {
            self.connection
                .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, on)
        };
        let before = self
            .connection
            .db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY)
            .map_err(|e| self.sql_error(&e))?;
        foreign_keys(false).map_err(|e| self.sql_error(&e))?;
        let dropped = self.transaction(|| {
            self.set_alarm(None)?;
            self.guard
                .trusted(|| self.drop_everything())
                .map_err(|e| self.sql_error(&e))
        });
        foreign_keys(before).map_err(|e| self.sql_error(&e))?;
        dropped?;
        self.vacuum.set(true);
        Ok(())
    }

    fn drop_everything(&self) -> rusqlite::Result<()> {
        // A virtual table takes its shadow tables with it, so what is left is asked again each time.
        let next = "SELECT type, name FROM sqlite_schema
            WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_abide\\_%' ESCAPE '\\' AND type <> 'index'
            ORDER BY type = 'trigger' DESC, type = 'view' DESC, sql LIKE 'CREATE VIRTUAL%' DESC LIMIT 1";
        loop {
            let found = self.connection.query_row(next, (), |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            });
            match found {
                Ok((kind, name)) => {
                    let name = name.replace('"', "\"\"");
                    self.connection
                        .execute_batch(&format!("DROP {kind} \"{name}\""))?;
                }
                Err(rusqlite::Error::QueryReturnedNoRows) => break,
                Err(error) => return Err(error),
            }
        }
        for table in ["sqlite_sequence", "sqlite_stat1", "sqlite_stat4"] {
            let there = "SELECT count(*) FROM sqlite_schema WHERE name = ?1";
            if self
                .connection
                .query_row(there, [table], |row| row.get::<_, i64>(0))?
                > 0
            {
                self.connection
                    .execute_batch(&format!("DELETE FROM {table}"))?;
            }
        }
        self.connection
            .execute_batch("DELETE FROM _abide_kv; DROP TABLE IF EXISTS _abide_idempotency; PRAGMA user_version = 0")
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

    /// Hands over the rows of one of the engine's own statements. SQLite may prepare a statement again while it steps,
    /// so the engine's rights last until the end.
    pub(crate) fn internal_rows(
        &self,
        sql: &'static str,
        params: impl Params,
        mut take: impl FnMut(&rusqlite::Row<'_>) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(sql.ends_with(MARK), "{sql}");
        self.guard.trusted(|| {
            let mut statement = self
                .connection
                .prepare_cached(sql)
                .map_err(|e| self.sql_error(&e))?;
            let mut rows = statement.query(params).map_err(|e| self.sql_error(&e))?;
            while let Some(row) = rows.next().map_err(|e| self.sql_error(&e))? {
                take(row)?;
            }
            Ok(())
        })
    }

    /// What a user is told of an error of SQLite.
    pub(crate) fn sql_error(&self, error: &rusqlite::Error) -> Error {
        if self.state.get() == State::Transaction && self.connection.is_autocommit() {
            self.state.set(State::Lost);
            // SQLite may have been refused while it put pages back.
            self.file.discard();
        }
        if let Some(why) = self.file.take_error() {
            return why;
        }
        if let Some(why) = self.guard.take_refusal() {
            return Error::input(why);
        }
        let temporary = vfs::take_temporary_error();
        if let (
            Some(why),
            Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen),
        ) = (temporary, error.sqlite_error_code())
        {
            return why;
        }
        let text = match error {
            rusqlite::Error::SqliteFailure(_, Some(text)) if text.contains("cannot VACUUM") => {
                NO_ATTACH.to_owned()
            }
            rusqlite::Error::SqliteFailure(_, Some(text)) => text.clone(),
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            rusqlite::Error::InvalidParameterCount(given, wanted) => {
                format!("{given} parameters were given, the statement has {wanted}")
            }
            other => other.to_string(),
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => Error::limit(format!(
                "{text}: a string, blob or row has {} MiB at most",
                MAX_VALUE_BYTES >> 20
            )),
            Some(ErrorCode::DiskFull) => Error::limit(format!(
                "the object's database is full: it has {} GiB at most",
                MAX_OBJECT_BYTES >> 30
            )),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Error::damaged(format!("the object's database is damaged: {text}"))
            }
            Some(ErrorCode::SystemIoFailure) => Error::new(ErrorKind::Io, text),
            _ if text.contains("too many SQL variables")
                || text.contains("variable number must be") =>
            {
                Error::limit(format!(
                    "{text}: a statement has {MAX_BOUND_PARAMETERS} bound parameters at most"
                ))
            }
            _ if text.contains("too many columns") => Error::limit(format!(
                "{text}: a table or result has {MAX_COLUMNS} columns at most"
            )),
            _ => Error::input(text),
        }
    }
}

fn lost() -> Error {
    Error::input(
        "SQLite rolled the transaction back (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), or no memory): nothing of it was kept, \
         and nothing more can be written in this poll",
    )
}

fn check_text(sql: &str) -> Result<()> {
    if sql.len() > MAX_SQL_BYTES {
        return Err(Error::limit(format!(
            "the SQL text has {} bytes; {MAX_SQL_BYTES} is the most: bind values as parameters",
            sql.len()
        )));
    }
    let trimmed = sql.trim();
    if trimmed.is_empty() {
        return Err(Error::input("the SQL text is empty"));
    }
    if trimmed.ends_with(MARK) || renames_to_reserved(sql) {
        return Err(Error::input("names that begin with _abide_ are reserved"));
    }
    Ok(())
}

fn column_names(statement: &Statement<'_>) -> Vec<String> {
    statement.column_names().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use rusqlite::StatementStatus;

    use crate::{ObjectKey, SimDisk, Store, StoreOptions};

    #[test]
    fn a_statement_beside_a_partial_index_is_prepared_once() {
        let disk = Arc::new(SimDisk::new());
        let options = StoreOptions {
            manual: true,
            ..StoreOptions::small()
        };
        let store = Store::open(disk, Path::new("/data"), options).unwrap();
        let namespace = store.namespace("tests").unwrap();
        let id = [1; 32];
        let db = store.open_object(ObjectKey { namespace, id }).unwrap();
        db.exec("CREATE TABLE t (at INTEGER, state TEXT)", ())
            .unwrap();
        db.exec("CREATE INDEX due ON t (at) WHERE at IS NOT NULL", ())
            .unwrap();
        let due = "SELECT at FROM t WHERE at IS NOT NULL AND at <= ?1 ORDER BY at LIMIT ?2";
        for at in 0..5 {
            db.exec(due, (at, 10)).unwrap();
        }
        let statement = db.connection.prepare_cached(due).unwrap();
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}
