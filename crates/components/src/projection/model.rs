//! What a read model is.

use std::{collections::BTreeMap, sync::Arc};

use abide::Value;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::{Begun, ProjectionError, Row, Tables};

/// A row of a query: columns by their names.
pub type Found = Map<String, Json>;

/// How many of the rows were written, by table. The others were already up to date.
pub type Written = BTreeMap<String, u64>;

/// Tables that can be queried across objects. Share one as an `Arc<dyn ReadModel>`.
pub trait ReadModel: Send + Sync + 'static {
    /// The tables.
    fn tables(&self) -> &Tables;

    /// Writes rows, each if its timeline and number are higher than the stored ones, and its object has not left that
    /// timeline. No row occurs twice. After an error some may not have been written.
    fn apply(&self, rows: Vec<Row>) -> BoxFuture<'static, Result<Written, ProjectionError>>;

    /// An object is on a new timeline: removes its rows from earlier ones, and refuses those that arrive later.
    fn begin(&self, timeline: Begun) -> BoxFuture<'static, Result<(), ProjectionError>>;

    /// Runs a query whose parameters are `$1`, `$2`, …; at most
    /// [`MAX_RESULT_ROWS`](super::limits::MAX_RESULT_ROWS) rows.
    fn query(
        &self,
        sql: &str,
        params: Vec<Value>,
    ) -> BoxFuture<'static, Result<Vec<Found>, ProjectionError>>;

    /// Removes every row of every table.
    fn wipe(&self) -> BoxFuture<'static, Result<(), ProjectionError>>;
}

impl dyn ReadModel {
    /// Runs a query and reads each row as a value. Columns that are aggregates need a name (`AS`).
    pub async fn rows<T: DeserializeOwned>(
        &self,
        sql: &str,
        params: Vec<Value>,
    ) -> Result<Vec<T>, ProjectionError> {
        let found = self.query(sql, params).await?.into_iter();
        found
            .map(|row| {
                serde_json::from_value(Json::Object(row)).map_err(|error| {
                    ProjectionError::Invalid(format!("a row of the query does not fit: {error}"))
                })
            })
            .collect()
    }
}

impl<M: ReadModel + ?Sized> ReadModel for Arc<M> {
    fn tables(&self) -> &Tables {
        (**self).tables()
    }

    fn apply(&self, rows: Vec<Row>) -> BoxFuture<'static, Result<Written, ProjectionError>> {
        (**self).apply(rows)
    }

    fn begin(&self, timeline: Begun) -> BoxFuture<'static, Result<(), ProjectionError>> {
        (**self).begin(timeline)
    }

    fn query(
        &self,
        sql: &str,
        params: Vec<Value>,
    ) -> BoxFuture<'static, Result<Vec<Found>, ProjectionError>> {
        (**self).query(sql, params)
    }

    fn wipe(&self) -> BoxFuture<'static, Result<(), ProjectionError>> {
        (**self).wipe()
    }
}
