//! How rate limiters work.

use std::time::Duration;

use abide_macros::Setters;

use crate::patterns::limits::MAX_SAVE_AFTER;

/// How the rate limiters of a program work.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct LimiterOptions {
    /// How long after a change the counts are saved. A crash forgets what was admitted in that time. With zero, each
    /// admission is on disk before the caller is told, and nothing is forgotten. Default 1 s.
    pub save_after: Duration,
}

impl Default for LimiterOptions {
    fn default() -> Self {
        Self {
            save_after: Duration::from_secs(1),
        }
    }
}

impl LimiterOptions {
    pub(super) fn check(&self) {
        assert!(
            self.save_after <= MAX_SAVE_AFTER,
            "rate limiters save what they have admitted after at most {} s",
            MAX_SAVE_AFTER.as_secs()
        );
    }
}
