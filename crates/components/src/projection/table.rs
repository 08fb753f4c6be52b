//! The tables of a read model, as the program declares them.

use std::{collections::BTreeMap, sync::Arc};

use abide::Value;
use serde_json::Value as Json;

use super::{ProjectionError, limits};

/// A table of a read model. Beside the declared columns each has `source`, the id of the object that the row is of; `id`, its
/// key among the rows of that object; `timeline` and `seq`, the change that the row shows; and `changed_at`, when that was,
/// in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    pub(super) indexes: Vec<Vec<String>>,
}

/// A declared column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) of: Type,
}

/// What a column holds, or NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A text. An array or object becomes its JSON.
    Text,
    /// A whole number of 64 bits. True becomes 1, false 0.
    Integer,
    /// A number of double precision.
    Real,
}

/// The columns that each table has, with their types.
pub(super) const OWN_COLUMNS: [(&str, Type); 5] = [
    ("id", Type::Text),
    ("source", Type::Text),
    ("timeline", Type::Text),
    ("seq", Type::Integer),
    ("changed_at", Type::Integer),
];

impl Table {
    /// A table without its own columns. Names are lower-case letters, digits and `_`.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            columns: Vec::new(),
            indexes: Vec::new(),
        }
    }

    /// Adds a column.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>, of: Type) -> Self {
        let name = name.into();
        self.columns.push(Column { name, of });
        self
    }

    /// Adds an index on columns, in this order.
    #[must_use]
    pub fn index<const N: usize>(mut self, columns: [&str; N]) -> Self {
        self.indexes.push(columns.map(str::to_owned).to_vec());
        self
    }

    /// The names of all columns, with their types.
    pub(super) fn all_columns(&self) -> impl Iterator<Item = (&str, Type)> {
        let declared = self.columns.iter();
        let declared = declared.map(|column| (column.name.as_str(), column.of));
        OWN_COLUMNS.into_iter().chain(declared)
    }

    fn check(&self) -> Result<(), ProjectionError> {
        let invalid = |text: String| Err(ProjectionError::Invalid(text));
        let table = &self.name;
        check_name("table", table)?;
        if self.columns.len() > limits::MAX_COLUMNS {
            return invalid(format!(
                "table `{table}` has {} columns; at most {} are allowed",
                self.columns.len(),
                limits::MAX_COLUMNS
            ));
        }
        let mut known: Vec<&str> = OWN_COLUMNS.map(|(name, _)| name).to_vec();
        for column in &self.columns {
            check_name("column", &column.name)?;
            if known.contains(&column.name.as_str()) {
                return invalid(format!("table `{table}` has two columns `{}`", column.name));
            }
            known.push(&column.name);
        }
        let mut indexed = self.indexes.iter().flatten();
        if let Some(unknown) = indexed.find(|name| !known.contains(&name.as_str())) {
            return invalid(format!(
                "an index of table `{table}` is on `{unknown}`, which is not a column of it"
            ));
        }
        Ok(())
    }
}

fn check_name(what: &str, name: &str) -> Result<(), ProjectionError> {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|c| c.is_ascii_lowercase());
    if begins
        && name.len() <= limits::MAX_NAME_BYTES
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    {
        return Ok(());
    }
    Err(ProjectionError::Invalid(format!(
        "`{name}` is not a valid name of a {what}: use 1 to {} lower-case letters, digits and `_`, a letter first",
        limits::MAX_NAME_BYTES
    )))
}

impl Column {
    /// A value in the column's type; the error says what is valid.
    pub(super) fn value(&self, json: &Json) -> Result<Value, String> {
        let value = match (self.of, json) {
            (_, Json::Null) => Some(Value::Null),
            (Type::Text, Json::String(text)) => Some(Value::Text(text.clone())),
            (Type::Text, Json::Array(_) | Json::Object(_)) => Some(Value::Text(json.to_string())),
            (Type::Integer, Json::Number(number)) => number.as_i64().map(Value::Integer),
            (Type::Integer, Json::Bool(is_so)) => Some(Value::Integer(i64::from(*is_so))),
            (Type::Real, Json::Number(number)) => number.as_f64().map(Value::Real),
            _ => None,
        };
        value.ok_or_else(|| {
            format!(
                "column `{}` is {:?} and cannot hold {json}",
                self.name, self.of
            )
        })
    }
}

/// The tables of a read model. Clones are the same tables.
#[derive(Clone, Debug)]
pub struct Tables(pub(super) Arc<BTreeMap<String, Table>>);

impl Tables {
    /// These tables.
    ///
    /// # Errors
    /// If a name is invalid or a duplicate.
    pub fn new(tables: impl IntoIterator<Item = Table>) -> Result<Self, ProjectionError> {
        let mut all = BTreeMap::new();
        for table in tables {
            table.check()?;
            if let Some(twice) = all.insert(table.name.clone(), table) {
                return Err(ProjectionError::Invalid(format!(
                    "there are two tables `{}`",
                    twice.name
                )));
            }
        }
        Ok(Self(Arc::new(all)))
    }

    pub(super) fn get(&self, name: &str) -> Result<&Table, ProjectionError> {
        self.0.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            ProjectionError::Invalid(format!(
                "there is no table `{name}`; there is `{}`",
                known.join("`, `")
            ))
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Table> {
        self.0.values()
    }
}
