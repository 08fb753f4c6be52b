//! The rows of a statement, with the errors that users' code meets everywhere else.

use crate::Error;

/// The rows of a statement, all in memory.
///
/// A row becomes a struct by its columns' names, a tuple by their places, and a scalar if it has one column.
/// Integers are exact 64-bit integers, blobs are bytes (`serde_bytes`), NULL is `None`.
pub type Rows = abide_storage::Rows<Error>;

/// One row, as [`Sql::for_each`](crate::Sql::for_each) hands it over.
pub type Row<'a> = abide_storage::Row<'a, Error>;
