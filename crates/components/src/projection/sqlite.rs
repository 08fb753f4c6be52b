//! A read model in an SQLite file.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use abide::Value;
use futures_util::future::BoxFuture;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, ToSql,
    types::{ToSqlOutput, ValueRef},
};
use serde_json::Value as Json;

use super::{
    Begun, Found, ProjectionError, ReadModel, Row, Table, Tables, Type, Written, limits, sql,
    worker::Worker,
};

/// A read model in an SQLite file, such as `read-model.db` in the data directory: one thread writes, another reads.
/// Writes are synced. A deleted file is created again, empty.
#[derive(Debug)]
pub struct SqliteModel {
    tables: Tables,
    writer: Worker<File>,
    reader: Worker<File>,
}

/// A connection that is opened when it is needed.
struct File {
    path: PathBuf,
    tables: Tables,
    /// The connection, and which file it is to.
    open: Option<(Connection, u64)>,
}

impl SqliteModel {
    /// The read model in this file, with these tables, which are created if they do not exist. Missing columns are
    /// added.
    ///
    /// # Errors
    /// If the file cannot be opened, or a column has another type than it is declared with.
    pub fn open(path: impl AsRef<Path>, tables: Tables) -> Result<Self, ProjectionError> {
        let make = || File {
            path: path.as_ref().to_owned(),
            tables: tables.clone(),
            open: None,
        };
        create_private(path.as_ref());
        drop(make().opened()?);
        let (writer, reader) = Worker::pair(make)?;
        Ok(Self {
            tables,
            writer,
            reader,
        })
    }
}

/// Creates the file for this user only, before SQLite would create it for all. SQLite gives its `-wal` and `-shm` the
/// same mode. SQLite reports errors when it opens the file.
fn create_private(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let _ = options.write(true).create_new(true).mode(0o600).open(path);
}

impl ReadModel for SqliteModel {
    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn apply(&self, rows: Vec<Row>) -> BoxFuture<'static, Result<Written, ProjectionError>> {
        self.writer.run(async move |file: &mut File| {
            let written = file.apply(&rows);
            if written.is_err() {
                // Whatever is wrong with the file, it is opened again.
                file.open = None;
            }
            written
        })
    }

    fn begin(&self, timeline: Begun) -> BoxFuture<'static, Result<(), ProjectionError>> {
        self.writer.run(async move |file: &mut File| {
            let done = file.begin(&timeline);
            if done.is_err() {
                file.open = None;
            }
            done
        })
    }

    fn query(
        &self,
        sql: &str,
        params: Vec<Value>,
    ) -> BoxFuture<'static, Result<Vec<Found>, ProjectionError>> {
        let sql = sql.to_owned();
        self.reader
            .run(async move |file: &mut File| file.query(&sql, &params))
    }

    fn wipe(&self) -> BoxFuture<'static, Result<(), ProjectionError>> {
        self.writer.run(async move |file: &mut File| file.wipe())
    }
}

impl File {
    /// The connection, reopened if the file was replaced.
    fn connection(&mut self) -> Result<&mut Connection, ProjectionError> {
        let inode = match fs::metadata(&self.path) {
            Ok(metadata) => Some(metadata.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(ProjectionError::Unavailable(error.to_string())),
        };
        if !matches!(&self.open, Some((_, known)) if Some(*known) == inode) {
            self.open = None;
            // No row is to blame if that fails.
            let connection = self
                .opened()
                .map_err(|error| ProjectionError::Unavailable(error.to_string()))?;
            let inode = fs::metadata(&self.path)
                .map_err(|error| ProjectionError::Unavailable(error.to_string()))?
                .ino();
            self.open = Some((connection, inode));
        }
        match &mut self.open {
            Some((connection, _)) => Ok(connection),
            None => Err(ProjectionError::Unavailable("it is not open".to_owned())),
        }
    }

    fn opened(&self) -> Result<Connection, ProjectionError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(failed)?;
        connection
            .busy_timeout(limits::STATEMENT_TIMEOUT)
            .map_err(failed)?;
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(failed)?;
        // Messages are acknowledged after this write: it must be durable.
        connection
            .pragma_update(None, "synchronous", "FULL")
            .map_err(failed)?;
        let transaction = connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(failed)?;
        transaction
            .execute(&sql::create_sources(type_name), ())
            .map_err(failed)?;
        for table in self.tables.iter() {
            prepare(&transaction, table)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(connection)
    }

    fn apply(&mut self, rows: &[Row]) -> Result<Written, ProjectionError> {
        let tables = self.tables.clone();
        let transaction = self.connection()?.transaction().map_err(failed)?;
        let mut written = Written::new();
        for row in rows {
            let table = tables.get(&row.table)?;
            let cells = row.cells(table).map_err(ProjectionError::Refused)?;
            let cells_of = table.all_columns();
            let places: Vec<String> = cells_of
                .map(|(name, _)| format!("? AS {}", sql::quoted(name)))
                .collect();
            let fed = format!("(SELECT {}) AS fed", places.join(", "));
            let statement = sql::upsert(table, &fed);
            let mut statement = transaction.prepare_cached(&statement).map_err(failed)?;
            let count = statement
                .execute(rusqlite::params_from_iter(cells.iter().map(Param)))
                .map_err(failed)?;
            *written.entry(table.name.clone()).or_default() += count as u64;
        }
        transaction.commit().map_err(failed)?;
        Ok(written)
    }

    fn begin(&mut self, begun: &Begun) -> Result<(), ProjectionError> {
        let tables = self.tables.clone();
        let transaction = self.connection()?.transaction().map_err(failed)?;
        let run = |statement: &str| {
            let params = (&begun.source, &begun.timeline);
            transaction.execute(statement, params).map_err(failed)
        };
        run(&sql::begin_timeline())?;
        for table in tables.iter() {
            run(&sql::remove_earlier(table))?;
        }
        transaction.commit().map_err(failed)
    }

    fn query(&mut self, text: &str, params: &[Value]) -> Result<Vec<Found>, ProjectionError> {
        let connection = self.connection()?;
        let mut statement = connection.prepare(text).map_err(refused)?;
        if !statement.readonly() {
            return Err(ProjectionError::Invalid(
                "a query can only read: rows come from objects".to_owned(),
            ));
        }
        for (index, value) in params.iter().enumerate() {
            let name = format!("${}", index + 1);
            let place = statement.parameter_index(&name).map_err(refused)?;
            let place = place.ok_or_else(|| {
                ProjectionError::Invalid(format!("the query has no parameter {name}"))
            })?;
            statement
                .raw_bind_parameter(place, Param(value))
                .map_err(refused)?;
        }
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut rows = statement.raw_query();
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(refused)? {
            if found.len() == limits::MAX_RESULT_ROWS {
                return Err(too_many());
            }
            let mut next = Found::new();
            for (index, column) in columns.iter().enumerate() {
                let value = match row.get_ref(index).map_err(refused)? {
                    ValueRef::Null => Json::Null,
                    ValueRef::Integer(integer) => integer.into(),
                    ValueRef::Real(real) => real.into(),
                    ValueRef::Text(text) | ValueRef::Blob(text) => {
                        String::from_utf8_lossy(text).into()
                    }
                };
                next.insert(column.clone(), value);
            }
            found.push(next);
        }
        Ok(found)
    }

    fn wipe(&mut self) -> Result<(), ProjectionError> {
        let tables = self.tables.clone();
        let transaction = self.connection()?.transaction().map_err(failed)?;
        for table in tables.iter() {
            let delete = format!("DELETE FROM {}", sql::quoted(&table.name));
            transaction.execute(&delete, ()).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}

/// A value as a parameter.
struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(integer) => ValueRef::Integer(*integer),
            Value::Real(real) => ValueRef::Real(*real),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// The error of a query whose result is too large.
pub(super) fn too_many() -> ProjectionError {
    ProjectionError::Invalid(format!(
        "the query has more than {} rows: ask for a page of them (LIMIT)",
        limits::MAX_RESULT_ROWS
    ))
}

/// Creates a table as declared, or adds missing columns.
fn prepare(connection: &Connection, table: &Table) -> Result<(), ProjectionError> {
    let run = |statement: &str| connection.execute(statement, ()).map_err(failed);
    run(&sql::create(table, type_name))?;
    let mut info = connection
        .prepare("SELECT name, type FROM pragma_table_info(?1)")
        .map_err(failed)?;
    let has = info
        .query_map((&table.name,), |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect::<Result<Vec<(String, String)>, _>>)
        .map_err(failed)?;
    let missing = sql::missing(table, &has, type_name).map_err(ProjectionError::Refused)?;
    for (name, of) in missing {
        run(&sql::add_column(table, name, of, type_name))?;
    }
    for index in sql::create_indexes(table) {
        run(&index)?;
    }
    Ok(())
}

fn type_name(of: Type) -> &'static str {
    match of {
        Type::Text => "TEXT",
        Type::Integer => "INTEGER",
        Type::Real => "REAL",
    }
}

/// Classifies an error of our own statements. A problem with the file can be fixed.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn failed(error: rusqlite::Error) -> ProjectionError {
    let of_the_row = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
    );
    let text = error.to_string();
    if of_the_row {
        ProjectionError::Refused(text)
    } else {
        ProjectionError::Unavailable(text)
    }
}

/// Classifies an error of a user's query: most are the query's fault.
fn refused(error: rusqlite::Error) -> ProjectionError {
    match error.sqlite_error_code() {
        Some(ErrorCode::Unknown) | None => ProjectionError::Refused(error.to_string()),
        _ => failed(error),
    }
}
