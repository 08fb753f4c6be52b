//! The limits of SQL that settings can raise.

use crate::limits::{
    MAX_BOUND_PARAMETERS, MAX_COLUMNS, MAX_VALUE_BYTES, MOST_BOUND_PARAMETERS, MOST_COLUMNS,
    MOST_VALUE_BYTES, PAGE_BYTES,
};
use abide_macros::Setters;

/// Limits of SQL statements and values. By default those of Cloudflare's Durable Objects.
///
/// They can be raised, and not lowered below the default, which components rely on. A row that is longer than a limit that was
/// lowered again cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct SqlLimits {
    /// Parameters bound to one statement: at least [`MAX_BOUND_PARAMETERS`], at most [`MOST_BOUND_PARAMETERS`].
    pub parameters: usize,
    /// Columns of a table, and of a result: at least [`MAX_COLUMNS`], at most [`MOST_COLUMNS`].
    pub columns: usize,
    /// Bytes of a value of the key-value API, and of a string, blob or row in SQL: at least [`MAX_VALUE_BYTES`], at
    /// most [`MOST_VALUE_BYTES`].
    pub value_bytes: usize,
}

impl Default for SqlLimits {
    fn default() -> Self {
        Self {
            parameters: MAX_BOUND_PARAMETERS,
            columns: MAX_COLUMNS,
            value_bytes: MAX_VALUE_BYTES,
        }
    }
}

impl SqlLimits {
    /// These limits, or the nearest that are allowed.
    pub(crate) fn allowed(self) -> Self {
        Self {
            parameters: self
                .parameters
                .clamp(MAX_BOUND_PARAMETERS, MOST_BOUND_PARAMETERS),
            columns: self.columns.clamp(MAX_COLUMNS, MOST_COLUMNS),
            value_bytes: self.value_bytes.clamp(MAX_VALUE_BYTES, MOST_VALUE_BYTES),
        }
    }

    /// If the database is within this many pages of its limit, a statement that exceeds the limit is undone alone. From
    /// farther away, it ends its transaction: such a statement writes several values.
    pub(crate) fn near_bound_pages(self) -> u32 {
        u32::try_from(2 * self.value_bytes / PAGE_BYTES).unwrap_or(u32::MAX)
    }
}
