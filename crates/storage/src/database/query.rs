//! Users' SQL: checks and runs statements, and collects or streams their rows.

use super::ObjectDb;
use super::statements::{Known, Origin, Unprepared};
use super::text::{self, Piece, Write};
use crate::error::{Error, Result};
use crate::limits::MAX_RESULT_BYTES;
use crate::params::{Binder, Params, Unbound};
use crate::rows::{Cells, Gathered, Row, Rows, Source};
use rusqlite::Statement;
use std::sync::Arc;

impl ObjectDb {
    /// Runs a user's SQL: one statement, or several separated by semicolons, of which one may have parameters. They run in
    /// turn, up to the first error. Returns the rows of the last statement.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](crate::ErrorKind::Input) with SQLite's message, or with the call to use instead if the
    /// statement is not available here; [`ErrorKind::Limit`](crate::ErrorKind::Limit) if a limit is exceeded.
    pub fn exec(&self, sql: &str, params: impl Params) -> Result<Rows> {
        let mut params = Some(params);
        let run = |statement: &mut Statement<'_>, known: &Known| match params.take() {
            Some(params) => self.run(statement, known, params),
            None => Ok(Gathered::default()),
        };
        match self.connection.with(sql, Origin::User, run) {
            Ok(rows) => rows.map(Rows::from),
            Err(Unprepared::Several) => self.run_several(sql, params).map(Rows::from),
            Err(error) => Err(self.unprepared(error)),
        }
    }

    /// Runs one statement of a user's SQL and passes its rows to `row` one by one, without collecting them. An error of
    /// `row` ends it; the statement's writes so far stay in the transaction.
    pub fn for_each<E: From<Error>>(
        &self,
        sql: &str,
        params: impl Params,
        mut row: impl FnMut(Row<'_, E>) -> Result<(), E>,
    ) -> Result<(), E> {
        let ran = self.connection.with(sql, Origin::User, |statement, known| {
            let write = self.begin_for(statement, known)?;
            let step = || {
                self.step(statement, known, write, params, |columns, values| {
                    row(Row::new(columns, Source::Live(values)))
                })
                .map(drop)
            };
            if may_grow(write) {
                self.bounded(step)
            } else {
                step()
            }
        });
        ran.unwrap_or_else(|error| Err(self.unprepared(error).into()))
    }

    pub(super) fn unprepared(&self, error: Unprepared) -> Error {
        match error {
            Unprepared::Refused(error) => error,
            Unprepared::Several => {
                Error::input("for_each runs one statement, but the text has several: call exec")
            }
            Unprepared::Sqlite(error) => self.sql_error(&error),
        }
    }

    /// Runs the statements of a text. A later one may need what an earlier one creates, and a `PRAGMA` has its effect when it
    /// is prepared, so each is prepared just before it runs.
    fn run_several(&self, sql: &str, mut params: Option<impl Params>) -> Result<Gathered> {
        let pieces: Vec<Piece<'_>> = text::pieces(sql).collect();
        let mut takers = (0..).zip(&pieces).filter(|(_, piece)| piece.has_parameters);
        let taker = takers.next().map(|(at, _)| at);
        if takers.next().is_some() {
            return Err(Error::input(
                "only one of several statements may have parameters: call exec for each",
            ));
        }
        // If none takes values, the first one refuses them.
        let taker = taker.unwrap_or(0);
        let mut rows = Gathered::default();
        let mut written = 0;
        for (at, piece) in pieces.iter().enumerate() {
            let prepared = self.connection.prepare(piece.text);
            let mut statement = prepared.map_err(|error| self.sql_error(&error))?;
            let known = Known::of(piece.text);
            rows = match params.take_if(|_| at == taker) {
                Some(params) => self.run(&mut statement, &known, params)?,
                None => self.run(&mut statement, &known, ())?,
            };
            written += rows.written;
        }
        rows.written = written;
        Ok(rows)
    }

    fn run(
        &self,
        statement: &mut Statement<'_>,
        known: &Known,
        params: impl Params,
    ) -> Result<Gathered> {
        let write = self.begin_for(statement, known)?;
        let gather = || self.gather(statement, known, write, params);
        if may_grow(write) {
            self.bounded(gather)
        } else {
            gather()
        }
    }

    /// Runs a statement and gathers its rows.
    fn gather(
        &self,
        statement: &mut Statement<'_>,
        known: &Known,
        write: Option<Write>,
        params: impl Params,
    ) -> Result<Gathered> {
        let before = self.connection.total_changes();
        let mut cells = Cells::default();
        let mut count = 0;
        let columns = self.step(statement, known, write, params, |columns, row| {
            for column in 0..columns.len() {
                cells.push(row.get_ref(column).map_err(|e| self.sql_error(&e))?);
            }
            count += 1;
            if cells.size() > MAX_RESULT_BYTES {
                let most = MAX_RESULT_BYTES >> 20;
                return Err(Error::limit(format!(
                    "the result exceeds {most} MiB: read it with for_each, or add a LIMIT"
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

    /// Steps a statement to its end, or to the first error of `take`. Returns the names of its columns.
    fn step<E: From<Error>>(
        &self,
        statement: &mut Statement<'_>,
        known: &Known,
        write: Option<Write>,
        params: impl Params,
        mut take: impl FnMut(&[String], &rusqlite::Row<'_>) -> Result<(), E>,
    ) -> Result<Arc<[String]>, E> {
        let before = self.changes_that_count();
        self.changes.of_user(&self.connection, false);
        let mut columns: Option<Arc<[String]>> = None;
        let stepped = self.step_rows(statement, params, |row| {
            let columns = columns.get_or_insert_with(|| known.columns(row.as_ref()));
            take(columns, row)
        });
        if let Some(write) = write {
            // Creating a virtual table inserts rows, too.
            let counts = (write.is_dml && (stepped.is_ok() || self.can_be_prepared(&known.text)))
                || self.changes_that_count() > before;
            self.changes.of_user(&self.connection, counts);
            if write.creates_virtual_table {
                self.disregard_changes_since(before);
            }
        }
        stepped?;
        Ok(columns.unwrap_or_else(|| known.columns(statement)))
    }

    /// After an error: whether the statement has run. After a change of the schema, SQLite prepares a cached statement again;
    /// if that fails, its count of changed rows is still that of the statement before.
    fn can_be_prepared(&self, sql: &str) -> bool {
        let can = self.connection.prepare(sql.trim()).is_ok();
        self.guard.take_refusal();
        can
    }

    pub(super) fn step_rows<E: From<Error>>(
        &self,
        statement: &mut Statement<'_>,
        params: impl Params,
        mut take: impl FnMut(&rusqlite::Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.bind(statement, params)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(|e| self.sql_error(&e))? {
            take(row)?;
        }
        Ok(())
    }

    #[inline]
    fn bind(&self, statement: &mut Statement<'_>, params: impl Params) -> Result<()> {
        match params.bind_to(&mut Binder::new(statement)) {
            Ok(()) => Ok(()),
            Err(Unbound::Misfit(error)) => Err(error),
            Err(Unbound::Sqlite(error)) => Err(self.sql_error(&error)),
        }
    }

    /// Begins a transaction, if there is none and the statement writes. Returns what it writes, if it does.
    fn begin_for(&self, statement: &Statement<'_>, known: &Known) -> Result<Option<Write>> {
        if statement.readonly() && !known.write.needs_transaction {
            return Ok(None);
        }
        self.begin()?;
        Ok(Some(known.write))
    }
}

/// True if a statement may add pages, and has to stay within the storage limits.
fn may_grow(write: Option<Write>) -> bool {
    write.is_some_and(|write| !write.uses_reserve)
}
