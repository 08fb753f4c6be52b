//! The lag of the read model.

use abide::queue::Counts;
use serde::Serialize;

use crate::Time;

/// The lag of the read model behind the resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lag {
    /// Pending changes.
    pub waiting: i64,
    /// The age of the oldest pending change in milliseconds; 0 if there is none.
    pub millis: i64,
    /// Changes that it rejects, and that wait for an operator.
    pub dead: i64,
}

impl Lag {
    pub(crate) fn new(counts: &Counts, now: Time) -> Self {
        let age = counts.oldest.map_or(0, |oldest| now.0 - oldest);
        Self {
            waiting: counts.messages,
            millis: age.max(0),
            dead: counts.dead,
        }
    }
}
