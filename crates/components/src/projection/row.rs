//! Rows between an object and a read model.

use abide::Value;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{ProjectionError, Table, limits};

/// A row as of a change. It is written if the stored one reflects an earlier change, or there is none: changes compare
/// by their timeline, then by their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The table.
    pub table: String,
    /// The row's key, among the rows of its object.
    pub id: String,
    /// The id of the object that the row is of.
    pub source: String,
    /// The [timeline](abide::Ctx::timeline) of that object.
    pub timeline: String,
    /// The number of the change: higher for later ones of the same row, on one timeline.
    pub seq: i64,
    /// When the change was, in milliseconds since 1970.
    pub at: i64,
    /// The columns. Those that are missing are NULL.
    pub values: Map<String, Json>,
}

impl Row {
    /// Validates the row against its table.
    pub(super) fn check(&self, table: &Table) -> Result<(), ProjectionError> {
        let wrong = |text: String| {
            let row = format!("row `{}` of table `{}`", self.id, self.table);
            Err(ProjectionError::Invalid(format!("{row}: {text}")))
        };
        if !(1..=limits::MAX_ID_BYTES).contains(&self.id.len()) {
            return wrong(format!(
                "its id has {} bytes: give it 1 to {}",
                self.id.len(),
                limits::MAX_ID_BYTES
            ));
        }
        for (name, value) in &self.values {
            let Some(column) = table.columns.iter().find(|column| column.name == *name) else {
                return wrong(format!("there is no column `{name}`"));
            };
            if let Err(text) = column.value(value) {
                return wrong(text);
            }
        }
        Ok(())
    }

    /// The change that it shows, to compare it with other changes of the row.
    pub(super) fn version(&self) -> (&str, i64) {
        (&self.timeline, self.seq)
    }

    /// The values of all columns of its table, in order. Columns that the table no longer has are left out.
    pub(super) fn cells(&self, table: &Table) -> Result<Vec<Value>, String> {
        let own = [
            Value::Text(self.id.clone()),
            Value::Text(self.source.clone()),
            Value::Text(self.timeline.clone()),
            Value::Integer(self.seq),
            Value::Integer(self.at),
        ];
        let declared = table.columns.iter().map(|column| {
            let value = self.values.get(&column.name);
            value.map_or(Ok(Value::Null), |value| column.value(value))
        });
        own.into_iter().map(Ok).chain(declared).collect()
    }
}

/// What a feed sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sent {
    /// A row.
    Row(Row),
    /// An object is on a new timeline: its rows of earlier ones, which it does not send again, are gone.
    Timeline(Begun),
}

/// The timeline on which an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Begun {
    /// The object's id.
    pub source: String,
    /// Its timeline.
    pub timeline: String,
}
