//! The rows of a statement, with the error type of the public API.

use crate::Error;

/// The rows of a statement, all in memory.
///
/// A row deserializes into a struct by column names, into a tuple by position, and into a scalar if it has one column.
/// Integers are exact 64-bit integers, blobs are bytes (`serde_bytes`), NULL is `None`.
pub type Rows = abide_storage::Rows<Error>;

/// One row, as [`Sql::for_each`](crate::Sql::for_each) passes it.
pub type Row<'a> = abide_storage::Row<'a, Error>;
