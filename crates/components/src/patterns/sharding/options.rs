//! How shards report.

use std::time::Duration;

use abide_macros::Setters;

use crate::patterns::limits::MAX_REPORT_AFTER;

use super::ShardingError;

/// How the shards of a class report their figures.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct ShardingOptions {
    /// How long after a change a shard reports. Totals are behind by this time, and each shard reports at most once
    /// in it. Default 1 s.
    pub report_after: Duration,
}

impl Default for ShardingOptions {
    fn default() -> Self {
        Self {
            report_after: Duration::from_secs(1),
        }
    }
}

impl ShardingOptions {
    pub(super) fn check(&self) -> Result<(), ShardingError> {
        if self.report_after <= MAX_REPORT_AFTER {
            return Ok(());
        }
        Err(ShardingError::Invalid(format!(
            "a shard reports a change after at most {} h",
            MAX_REPORT_AFTER.as_secs() / 3_600
        )))
    }
}
