//! Why a value cannot be a parameter.

use std::fmt::Display;

/// Why a value cannot be a parameter: SQLite cannot represent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToSqlError(Box<str>);

impl ToSqlError {
    /// An error with this reason. The caller of the statement reads it after the parameter, such as `parameter 2: …`.
    pub fn new(reason: impl Display) -> Self {
        Self(reason.to_string().into())
    }
}
