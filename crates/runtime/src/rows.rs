//! The rows of a statement, with the errors that users' code meets everywhere else.

use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// The rows of a statement, all in memory.
///
/// A row becomes a struct by its columns' names, a tuple by their places, and a scalar if it has one column.
/// Integers are exact 64-bit integers, blobs are bytes (`serde_bytes`), NULL is `None`.
#[derive(Clone, Debug)]
pub struct Rows(pub(crate) abide_storage::Rows);

impl Rows {
    /// The only row. An error if there is none, or more than one.
    pub fn one<T: DeserializeOwned>(&self) -> Result<T> {
        self.0.one().map_err(Error::from)
    }

    /// The only row, or `None` if there is none. An error if there are more.
    pub fn optional<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.0.optional().map_err(Error::from)
    }

    /// All rows.
    pub fn to_array<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        self.0.to_array().map_err(Error::from)
    }

    /// One row after the other.
    pub fn iter<'a, T: DeserializeOwned + 'a>(&'a self) -> impl Iterator<Item = Result<T>> + 'a {
        self.0.iter().map(|row| row.map_err(Error::from))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values as SQLite has them.
    pub fn raw(&self) -> Vec<Vec<abide_storage::Value>> {
        self.0.raw()
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        self.0.columns()
    }

    /// Rows that the statements inserted, changed or deleted, those by triggers and foreign keys included.
    pub fn rows_written(&self) -> u64 {
        self.0.rows_written()
    }
}

/// One row, as [`Sql::for_each`](crate::Sql::for_each) hands it over.
#[derive(Debug)]
pub struct Row<'a>(pub(crate) abide_storage::Row<'a>);

impl Row<'_> {
    /// The row as a struct, tuple or scalar; see [`Rows`].
    pub fn get<T: DeserializeOwned>(&self) -> Result<T> {
        self.0.get().map_err(Error::from)
    }

    /// The values as SQLite has them. Text that is not UTF-8 is given as bytes.
    pub fn raw(&self) -> Vec<abide_storage::Value> {
        self.0.raw()
    }
}
