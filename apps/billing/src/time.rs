//! Timestamps.

use std::fmt;

use abide::clock::Clock;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Milliseconds of a second.
const SECOND: i64 = 1_000;

/// A timestamp in milliseconds since 1970, UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// The time of a clock.
    pub fn now(clock: &dyn Clock) -> Self {
        Self(i64::try_from(clock.unix_millis()).unwrap_or(i64::MAX))
    }

    /// The whole seconds since 1970, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(SECOND)
    }

    /// The timestamp truncated to the second.
    #[must_use]
    pub fn whole_second(self) -> Self {
        Self(self.seconds() * SECOND)
    }

    /// This many milliseconds later.
    #[must_use]
    pub fn plus(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// This many days of 24 hours later.
    #[must_use]
    pub fn plus_days(self, days: u32) -> Self {
        self.plus(i64::from(days) * 24 * 60 * 60 * SECOND)
    }
}

impl fmt::Display for Time {
    /// As `2026-01-31T12:00:00Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_millisecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{} ms since 1970", self.0),
        }
    }
}
