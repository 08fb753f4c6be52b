//! How far the read model is behind.

use abide::queue::Counts;
use serde::Serialize;

use crate::Time;

/// How far the read model is behind the resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lag {
    /// Changes that wait for it.
    pub waiting: i64,
    /// For how long the oldest of them has, in milliseconds; 0 if there is none.
    pub millis: i64,
    /// Changes that it does not take, and that wait for a person.
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
