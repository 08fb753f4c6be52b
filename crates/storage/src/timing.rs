//! The machine's clock, for measurements and for waiting threads; and times as text.
//!
//! A store without threads (`manual`) makes no decisions based on it, so simulations are repeatable.

use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "see the module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Formats a time as RFC 3339.
pub(crate) fn time(unix_millis: u64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis.cast_signed())
        .map_or_else(|_| format!("{unix_millis} ms"), |time| time.to_string())
}
