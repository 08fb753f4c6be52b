//! The wall clock as the log's records show it, for recovery: where the clock was set back, waits are due earlier.
//!
//! A process that sees its clock set back calls [`AlarmIndex::clock_set_back`](super::AlarmIndex::clock_set_back). The
//! next checkpoint saves the index. After a crash before that, and for a clock that was set back while no process ran,
//! recovery derives the step from the timestamps of the records. The derived step is at most the real one, since time
//! passed between two records.

use crate::broken::{Variant, broken};
use crate::ident::Lsn;
use crate::limits::CLOCK_TOLERANCE;
use serde::{Deserialize, Serialize};

/// The wall clock's time when the alarm index was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockReading {
    /// The end of the log at that time: earlier steps of the clock are in the saved index.
    pub(crate) position: u64,
    /// Milliseconds since 1970; 0 if it has not been read yet.
    pub(crate) unix_millis: u64,
}

impl ClockReading {
    /// Takes the next reading. Returns the milliseconds by which the clock was set back since the previous one, if it
    /// was.
    pub(crate) fn advance(&mut self, position: Lsn, unix_millis: u64) -> Option<i64> {
        if position.get() < self.position
            || unix_millis == 0
            || broken(Variant::ClockSetBackForgotten)
        {
            return None;
        }
        let back = self.unix_millis.saturating_sub(unix_millis);
        let is_step = u128::from(back) > CLOCK_TOLERANCE.as_millis();
        // Threads read their times in one order and append in another.
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
