//! Options of instances.

use std::time::Duration;

use abide_macros::Setters;

use abide::{Error, ErrorKind, Result};

/// Options of a program's instances.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct WorkflowOptions {
    /// How long a finished instance is kept, with its history and its id. Default 30 days.
    pub keep_finished: Duration,
    /// How soon a running instance continues after its process or object has stopped. Default 5 s.
    pub recovery: Duration,
    /// Whether the function is also replayed separately after each result, and its instance becomes stuck at once if
    /// the replay differs: for tests of workflows. The time grows with the square of the number of steps. Default
    /// false.
    pub rehearse: bool,
}

impl Default for WorkflowOptions {
    fn default() -> Self {
        Self {
            keep_finished: Duration::from_hours(30 * 24),
            recovery: Duration::from_secs(5),
            rehearse: false,
        }
    }
}

impl WorkflowOptions {
    /// Refuses invalid options.
    pub(super) fn check(&self) -> Result<()> {
        if self.recovery.is_zero() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "invalid options of workflows: the recovery time is 0",
            ));
        }
        Ok(())
    }
}
