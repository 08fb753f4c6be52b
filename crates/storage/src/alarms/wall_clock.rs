//! The wall clock as the log's records show it, for recovery: where the clock was set back, waits come earlier.
//!
//! A process that sees its clock set back tells [`AlarmIndex::clock_set_back`](super::AlarmIndex::clock_set_back). The index
//! is saved by the next checkpoint; after a crash before that, and for a clock that was set back while no process ran, the times
//! of the records tell by how much. They tell at most what it was, since time passed between two records.

use crate::broken::{Variant, broken};
use crate::ident::Lsn;
use crate::limits::CLOCK_TOLERANCE;
use serde::{Deserialize, Serialize};

/// What the wall clock showed when the alarm index was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockReading {
    /// The end of the log at that moment: steps of the clock before it are in the saved index.
    pub(crate) position: u64,
    /// Milliseconds since 1970; 0 if nobody has read it yet.
    pub(crate) unix_millis: u64,
}

impl ClockReading {
    /// Takes the next reading. Returns by how many milliseconds the clock was set back since the one before, if it was.
    pub(crate) fn advance(&mut self, position: Lsn, unix_millis: u64) -> Option<i64> {
        if position.get() < self.position
            || unix_millis == 0
            || broken(Variant::ClockSetBackForgotten)
        {
            return None;
        }
        let back = self.unix_millis.saturating_sub(unix_millis);
        let is_step = u128::from(back) > CLOCK_TOLERANCE.as_millis();
        // Threads take their times one after the other and append in another order.
        if is_step || unix_millis > self.unix_millis {
            self.unix_millis = unix_millis;
        }
        is_step.then(|| i64::try_from(back).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_is_found_once_and_jitter_is_none() {
        let mut clock = ClockReading::default();
        for (lsn, millis) in [(0, 100_000), (8, 99_000), (16, 105_000)] {
            assert_eq!(clock.advance(Lsn(lsn), millis), None, "at {lsn}");
        }
        assert_eq!(clock.advance(Lsn(24), 60_000), Some(45_000));
        assert_eq!(clock.advance(Lsn(32), 60_001), None);
    }

    #[test]
    fn steps_before_the_saved_index_are_in_it() {
        let mut clock = ClockReading {
            position: 24,
            unix_millis: 60_000,
        };
        assert_eq!(clock.advance(Lsn(16), 105_000), None);
        assert_eq!(clock.advance(Lsn(24), 60_002), None);
        assert_eq!(clock.advance(Lsn(32), 20_000), Some(40_002));
    }
}
