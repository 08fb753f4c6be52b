//! Limits, and the verdict on a request under one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LimiterError;
use crate::patterns::limits::MAX_WINDOW;
use abide_component::numbers::{micros, millis};

/// How many requests are admitted in which time. The caller passes it with each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Limit {
    /// This many in any window of this length.
    Window {
        /// How many.
        limit: u32,
        /// The length, in whole milliseconds.
        window: Duration,
    },
    /// This many at once, and then one each interval.
    Bucket {
        /// How many at once.
        burst: u32,
        /// How long until one token comes back, in whole microseconds.
        every: Duration,
    },
}

/// The verdict on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is admitted and counted.
    Admitted {
        /// How many more would be admitted now.
        left: u32,
    },
    /// It is refused and does not count.
    Refused {
        /// After this time the request is admitted, unless another one is first.
        retry_after: Duration,
    },
}

impl Limit {
    /// A sliding window: `limit` in any `window`.
    pub const fn window(limit: u32, window: Duration) -> Self {
        Self::Window { limit, window }
    }

    /// A token bucket: `burst` at once, and one more each `every`.
    pub const fn bucket(burst: u32, every: Duration) -> Self {
        Self::Bucket { burst, every }
    }

    /// Refuses invalid limits and counts.
    pub(super) fn check(&self, count: u32) -> Result<(), LimiterError> {
        let (most, is_time) = match *self {
            Self::Window { limit, window } => (
                limit,
                millis(window) > 0 && millis(window) <= millis(MAX_WINDOW),
            ),
            Self::Bucket { burst, every } => {
                let full = micros(every).saturating_mul(i64::from(burst));
                (burst, micros(every) > 0 && full <= micros(MAX_WINDOW))
            }
        };
        let wrong = if !is_time {
            format!(
                "a window is 1 ms to {0} days long, and a bucket is full again after at most {0} days, a token each 1 µs \
                 or more",
                MAX_WINDOW.as_secs() / 86_400
            )
        } else if count == 0 || count > most {
            format!("a request takes 1 to {most} under a limit of {most}, not {count}")
        } else {
            return Ok(());
        };
        Err(LimiterError::Invalid(wrong))
    }
}
