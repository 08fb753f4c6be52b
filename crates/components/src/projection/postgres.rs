//! A read model in `PostgreSQL`.

use std::collections::BTreeMap;

use abide::Value;
use abide_postgres::{Address, Tls};
use futures_util::future::{BoxFuture, try_join_all};
use tokio_postgres::{
    Client, Config, Statement,
    types::{IsNull, ToSql, Type as Pg, private::BytesMut, to_sql_checked},
};

use super::{
    Begun, Found, ProjectionError, ReadModel, Row, Table, Tables, Type, Written, limits, sql,
    sqlite::too_many, worker::Worker,
};

/// A read model in `PostgreSQL`: one connection writes, another reads. They are opened when needed, and reopened when
/// they break. Rows are written with one statement for each table, all in one round trip.
///
/// Connections are encrypted according to the address's `sslmode`: `disable`, `prefer` (if the server can; the
/// default), `require`, or `verify-full`, the only one that authenticates the server.
#[derive(Debug)]
pub struct PostgresModel {
    tables: Tables,
    writer: Worker<Server>,
    reader: Worker<Server>,
}

/// The advisory lock for creating tables: two concurrent creations of the same table would fail.
const PREPARING: i64 = 0x6162_6964_6574_6162;

/// A connection that is opened when it is needed.
struct Server {
    config: Config,
    tls: Tls,
    tables: Tables,
    open: Option<Open>,
}

struct Open {
    client: Client,
    /// The statements that write rows, by table.
    upserts: BTreeMap<String, Statement>,
}

impl PostgresModel {
    /// The read model on a server, such as `host=/run/postgresql user=abide dbname=billing`, with these tables, which
    /// are created if they do not exist. Missing columns are added. The server need not be up yet.
    ///
    /// The password can also come from the file named by `passfile=FILE`, which contains nothing else, or from the
    /// environment variable `PGPASSWORD`. No error shows it.
    ///
    /// # Errors
    /// If the text names no server, or the file cannot be read.
    pub fn new(server: &str, tables: Tables) -> Result<Self, ProjectionError> {
        let address = Address::new(server);
        let Address { mut config, tls } =
            address.map_err(|error| ProjectionError::Invalid(error.to_string()))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(limits::CONNECT_TIMEOUT);
        }
        let (writer, reader) = Worker::pair(|| Server {
            config: config.clone(),
            tls: tls.clone(),
            tables: tables.clone(),
            open: None,
        })?;
        Ok(Self {
            tables,
            writer,
            reader,
        })
    }
}

impl ReadModel for PostgresModel {
    fn tables(&self) -> &Tables {
        &self.tables
    }

    fn apply(&self, rows: Vec<Row>) -> BoxFuture<'static, Result<Written, ProjectionError>> {
        self.writer.run(async move |server: &mut Server| {
            server
                .within(async |server: &mut Server| server.apply(&rows).await)
                .await
        })
    }

    fn begin(&self, timeline: Begun) -> BoxFuture<'static, Result<(), ProjectionError>> {
        self.writer.run(async move |server: &mut Server| {
            server
                .within(async |server: &mut Server| server.begin(&timeline).await)
                .await
        })
    }

    fn query(
        &self,
        sql: &str,
        params: Vec<Value>,
    ) -> BoxFuture<'static, Result<Vec<Found>, ProjectionError>> {
        let sql = sql.to_owned();
        self.reader.run(async move |server: &mut Server| {
            server
                .within(async |server: &mut Server| server.query(&sql, &params).await)
                .await
        })
    }

    fn wipe(&self) -> BoxFuture<'static, Result<(), ProjectionError>> {
        self.writer.run(async move |server: &mut Server| {
            server
                .within(async |server: &mut Server| server.wipe().await)
                .await
        })
    }
}

impl Server {
    /// Runs an operation with a timeout. A connection that fails, or is too slow, is not used again.
    async fn within<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, ProjectionError>,
    ) -> Result<T, ProjectionError> {
        let limit = limits::STATEMENT_TIMEOUT;
        #[allow(
            clippy::disallowed_methods,
            reason = "a server outside keeps the machine's time"
        )]
        let done = tokio::time::timeout(limit, work(self)).await;
        let result = done.unwrap_or_else(|_| {
            Err(ProjectionError::Unavailable(format!(
                "no response within {} s",
                limit.as_secs()
            )))
        });
        if matches!(result, Err(ProjectionError::Unavailable(_))) {
            self.open = None;
        }
        result
    }

    async fn connection(&mut self) -> Result<&mut Open, ProjectionError> {
        if !matches!(&self.open, Some(open) if !open.client.is_closed()) {
            self.open = Some(self.connect().await?);
        }
        match &mut self.open {
            Some(open) => Ok(open),
            None => Err(ProjectionError::Unavailable("it is not open".to_owned())),
        }
    }

    async fn connect(&self) -> Result<Open, ProjectionError> {
        let (client, connection) = self
            .config
            .connect(self.tls.clone())
            .await
            .map_err(failed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to the read model has ended");
            }
        });
        let limit = limits::STATEMENT_TIMEOUT.as_millis();
        let settings =
            format!("SET statement_timeout = {limit}; SET client_min_messages = warning");
        client.batch_execute(&settings).await.map_err(failed)?;
        self.prepare_all(&client).await?;
        let statements = self.tables.iter().map(async |table| {
            let statement = client.prepare(&upsert(table)).await.map_err(failed)?;
            Ok::<_, ProjectionError>((table.name.clone(), statement))
        });
        let upserts = try_join_all(statements).await?.into_iter().collect();
        Ok(Open { client, upserts })
    }

    /// Creates the tables under a lock. No row is to blame if that fails.
    async fn prepare_all(&self, client: &Client) -> Result<(), ProjectionError> {
        let lock = format!("BEGIN; SELECT pg_advisory_xact_lock({PREPARING})");
        client.batch_execute(&lock).await.map_err(failed)?;
        client
            .batch_execute(&sql::create_sources(type_name))
            .await
            .map_err(failed)?;
        for table in self.tables.iter() {
            prepare(client, table).await.map_err(|error| {
                ProjectionError::Unavailable(format!("its tables are not ready: {error}"))
            })?;
        }
        client.batch_execute("COMMIT").await.map_err(failed)
    }

    async fn apply(&mut self, rows: &[Row]) -> Result<Written, ProjectionError> {
        let tables = self.tables.clone();
        let mut parts: BTreeMap<&str, Columns> = BTreeMap::new();
        for row in rows {
            let table = tables.get(&row.table)?;
            let cells = row.cells(table).map_err(ProjectionError::Refused)?;
            let columns = parts
                .entry(&table.name)
                .or_insert_with(|| Columns::new(table));
            columns.push(cells);
        }
        let open = self.connection().await?;
        // All are sent before the first response is awaited.
        let writes = parts.iter().map(async |(name, columns)| {
            let statement = open.upserts.get(*name).ok_or_else(|| {
                ProjectionError::Unavailable(format!("table `{name}` is not prepared"))
            })?;
            let count = open.client.execute(statement, &columns.params()).await;
            let count = count.map_err(failed)?;
            Ok::<_, ProjectionError>(((*name).to_owned(), count))
        });
        Ok(try_join_all(writes).await?.into_iter().collect())
    }

    async fn begin(&mut self, begun: &Begun) -> Result<(), ProjectionError> {
        let tables = self.tables.clone();
        let open = self.connection().await?;
        let transaction = open.client.transaction().await.map_err(failed)?;
        let removals = tables.iter().map(sql::remove_earlier);
        for statement in [sql::begin_timeline()].into_iter().chain(removals) {
            let params: [&(dyn ToSql + Sync); 2] = [&begun.source, &begun.timeline];
            transaction
                .execute(&statement, &params)
                .await
                .map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    }

    async fn query(&mut self, text: &str, params: &[Value]) -> Result<Vec<Found>, ProjectionError> {
        let open = self.connection().await?;
        let whole = format!(
            "SELECT to_json(found)::text FROM ({}) AS found LIMIT {}",
            text.trim_end().trim_end_matches(';'),
            limits::MAX_RESULT_ROWS + 1
        );
        let params: Vec<Param<'_>> = params.iter().map(Param).collect();
        let params: Vec<&(dyn ToSql + Sync)> = params
            .iter()
            .map(|param| param as &(dyn ToSql + Sync))
            .collect();
        let rows = open.client.query(&whole, &params).await.map_err(refused)?;
        if rows.len() > limits::MAX_RESULT_ROWS {
            return Err(too_many());
        }
        let row = |row: &tokio_postgres::Row| {
            let text: &str = row.try_get(0).map_err(failed)?;
            serde_json::from_str(text)
                .map_err(|error| ProjectionError::Refused(format!("a row cannot be read: {error}")))
        };
        rows.iter().map(row).collect()
    }

    async fn wipe(&mut self) -> Result<(), ProjectionError> {
        let names: Vec<String> = self
            .tables
            .iter()
            .map(|table| sql::quoted(&table.name))
            .collect();
        let open = self.connection().await?;
        let truncate = format!("TRUNCATE {}", names.join(", "));
        open.client.batch_execute(&truncate).await.map_err(failed)
    }
}

/// Creates a table as declared, or adds missing columns.
async fn prepare(client: &Client, table: &Table) -> Result<(), ProjectionError> {
    client
        .batch_execute(&sql::create(table, type_name))
        .await
        .map_err(failed)?;
    let has = client
        .query(
            "SELECT column_name::text, data_type::text FROM information_schema.columns
             WHERE table_schema = current_schema() AND table_name = $1",
            &[&table.name],
        )
        .await
        .map_err(failed)?;
    let column = |row: &tokio_postgres::Row| {
        let name = row.try_get(0).map_err(failed)?;
        Ok::<_, ProjectionError>((name, row.try_get(1).map_err(failed)?))
    };
    let has = has.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let missing = sql::missing(table, &has, type_name).map_err(ProjectionError::Refused)?;
    let mut statements: Vec<String> = missing
        .into_iter()
        .map(|(name, of)| sql::add_column(table, name, of, type_name))
        .collect();
    statements.extend(sql::create_indexes(table));
    client
        .batch_execute(&statements.join("; "))
        .await
        .map_err(failed)
}

/// The statement that writes rows, given one array for each column.
fn upsert(table: &Table) -> String {
    let arrays = table.all_columns().enumerate();
    let arrays: Vec<String> = arrays
        .map(|(index, (_, of))| format!("${}::{}[]", index + 1, type_name(of)))
        .collect();
    sql::upsert(
        table,
        &format!(
            "unnest({}) AS fed ({})",
            arrays.join(", "),
            sql::names(table)
        ),
    )
}

fn type_name(of: Type) -> &'static str {
    match of {
        Type::Text => "text",
        Type::Integer => "bigint",
        Type::Real => "double precision",
    }
}

/// Rows, column by column.
struct Columns(Vec<Array>);

enum Array {
    Text(Vec<Option<String>>),
    Integer(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
}

impl Columns {
    fn new(table: &Table) -> Self {
        let array = |of| match of {
            Type::Text => Array::Text(Vec::new()),
            Type::Integer => Array::Integer(Vec::new()),
            Type::Real => Array::Real(Vec::new()),
        };
        Self(table.all_columns().map(|(_, of)| array(of)).collect())
    }

    fn push(&mut self, cells: Vec<Value>) {
        for (array, cell) in self.0.iter_mut().zip(cells) {
            match (array, cell) {
                (Array::Text(array), Value::Text(text)) => array.push(Some(text)),
                (Array::Integer(array), Value::Integer(integer)) => array.push(Some(integer)),
                (Array::Real(array), Value::Real(real)) => array.push(Some(real)),
                (Array::Text(array), _) => array.push(None),
                (Array::Integer(array), _) => array.push(None),
                (Array::Real(array), _) => array.push(None),
            }
        }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        fn param(array: &Array) -> &(dyn ToSql + Sync) {
            match array {
                Array::Text(array) => array,
                Array::Integer(array) => array,
                Array::Real(array) => array,
            }
        }
        self.0.iter().map(param).collect()
    }
}

/// A query's parameter, as the type that the server expects.
#[derive(Debug)]
struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        ty: &Pg,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self.0, ty) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Text(text), _) => text.to_sql(ty, out),
            (Value::Integer(integer), &Pg::INT4) => i32::try_from(*integer)?.to_sql(ty, out),
            (Value::Integer(integer), &Pg::INT8) => integer.to_sql(ty, out),
            (Value::Integer(integer), &Pg::FLOAT8) => (*integer as f64).to_sql(ty, out),
            (Value::Real(real), &Pg::FLOAT8) => real.to_sql(ty, out),
            (value, ty) => Err(format!("{value:?} cannot be compared with a {ty}").into()),
        }
    }

    fn accepts(_: &Pg) -> bool {
        true
    }

    to_sql_checked!();
}

/// Classifies an error of our own statements.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn failed(error: tokio_postgres::Error) -> ProjectionError {
    let text = text_of(&error);
    if error.code().is_some_and(|code| is_of_the_row(code.code())) {
        ProjectionError::Refused(text)
    } else {
        ProjectionError::Unavailable(text)
    }
}

/// Classifies an error of a user's query: most are the query's fault.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn refused(error: tokio_postgres::Error) -> ProjectionError {
    let text = text_of(&error);
    if error
        .code()
        .is_some_and(|code| is_of_the_query(code.code()))
    {
        ProjectionError::Refused(text)
    } else {
        ProjectionError::Unavailable(text)
    }
}

fn text_of(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(server), _) => format!("{} ({})", server.message(), server.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// True for an SQLSTATE that is specific to the row. Every other one, even an unknown one, concerns the read model:
/// then rows wait, which loses none.
///
/// | class | is about | whose |
/// |---|---|---|
/// | 22 | data: a text with a zero character, a number out of range | the row's |
/// | 23, 44 | constraints and view checks | the row's |
/// | 54000 | a value that is too large, for an index for instance | the row's |
/// | P0001 | what a trigger refuses | the row's |
/// | 42 | privileges, and tables and columns that are not there | the model's |
/// | 08, 25, 28, 40, 53, 55, 57, 58, XX and the rest | connections, read-only servers, roles, conflicts, resources, damage | the model's |
fn is_of_the_row(code: &str) -> bool {
    let class = &code[..2];
    ["22", "23", "44"].contains(&class) || ["54000", "P0001"].contains(&code)
}

/// True for an SQLSTATE that the query would get from any read model with these tables.
fn is_of_the_query(code: &str) -> bool {
    // Missing tables and privileges are not the query's fault.
    is_of_the_row(code)
        || (["42", "54"].contains(&&code[..2]) && !["42501", "42P01"].contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_of_the_row_only_if_another_row_need_not_meet_it() {
        for code in [
            "22021", "22003", "23505", "23502", "23514", "44000", "54000", "P0001",
        ] {
            assert!(is_of_the_row(code), "{code}");
        }
        for code in [
            "08006", "0A000", "25006", "28000", "28P01", "3D000", "3F000", "40001", "40P01",
            "42501", "42703", "42P01", "42804", "53100", "53300", "54011", "55P03", "57014",
            "57P01", "57P03", "58030", "XX000", "XX001", "99999",
        ] {
            assert!(!is_of_the_row(code), "{code}");
        }
        for code in ["42601", "42703", "22P02", "54001"] {
            assert!(is_of_the_query(code), "{code}");
        }
        for code in ["42501", "42P01", "57014"] {
            assert!(!is_of_the_query(code), "{code}");
        }
    }
}
