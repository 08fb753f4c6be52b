//! Conversions to SQL integers.

use std::time::Duration;

/// Saturates at the largest number.
pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Saturating, as [`millis`].
pub fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// A number of rows.
pub fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
