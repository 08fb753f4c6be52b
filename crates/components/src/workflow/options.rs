//! How instances are run.

use derive_setters::Setters;
use std::time::Duration;

use abide::{Error, ErrorKind, Result};

/// How the instances of a program are run.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct Options {
    /// How long an instance is kept after it has ended, with its history, and with it its id. Default 30 days.
    pub keep_finished: Duration,
    /// If the process or the object ends while an instance runs, how long until it goes on. Default 5 s.
    pub recovery: Duration,
    /// Whether the function is run anew, aside, after each result that it was given, and its instance is stuck at once if it does
    /// not ask for the same: for tests of workflows. It takes time that grows with the square of the steps. Default false.
    pub rehearse: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_finished: Duration::from_hours(30 * 24),
            recovery: Duration::from_secs(5),
            rehearse: false,
        }
    }
}

impl Options {
    /// Refuses what makes no sense.
    pub(super) fn check(&self) -> Result<()> {
        if self.recovery.is_zero() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "workflows cannot be run like this: the time of recovery is 0",
            ));
        }
        Ok(())
    }
}
