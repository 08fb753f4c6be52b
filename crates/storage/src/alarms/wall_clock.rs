//! The wall clock and its steps back.
//!
//! A wait must not get longer when the wall clock is set back, so waits are measured in *steady time*: the wall clock
//! plus the sum of all steps back so far ([`ClockTime`]). Rows and the index hold steady times, which a step does not
//! change. Only the sum changes, and the manifest has it.
//!
//! A process that sees its clock set back calls [`Store::clock_set_back`](crate::Store::clock_set_back), which saves the
//! new sum before any wait is written with the new time. A step that no process saw shows when recovery reads the clock:
//! it is earlier than the newest time in the log ([`ClockReading`]). The derived step is at most the real one, since time
//! passed in between. Whatever time is stored, with a wait, a commit or a checkpoint, the process has seen the clock at
//! that time ([`Store::watch_clock`](crate::Store::watch_clock)): otherwise recovery would count a step before a wait
//! began that the wait does not know of.

use crate::broken::{Variant, broken};
use crate::ident::Lsn;
use crate::limits::CLOCK_TOLERANCE;
use serde::{Deserialize, Serialize};

/// A time of the wall clock, with the sum of its steps back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockTime {
    /// Milliseconds since 1970.
    pub unix_millis: i64,
    /// The sum of all steps back before this time, in milliseconds.
    pub set_back: i64,
}

impl ClockTime {
    /// The same time in milliseconds of steady time.
    pub fn steady(self) -> i64 {
        self.unix_millis.saturating_add(self.set_back)
    }
}

/// The newest known time of the wall clock, and the sum of its steps back, as the manifest has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockReading {
    /// The end of the log at that time: earlier steps of the clock are in the sum.
    pub(crate) position: u64,
    /// Milliseconds since 1970; 0 if it has not been read yet.
    pub(crate) unix_millis: u64,
    /// The sum of the steps back, in milliseconds.
    pub(crate) set_back: i64,
}

impl ClockReading {
    /// Takes the time of a record. Those before the saved position are in the reading already.
    pub(crate) fn saw(&mut self, lsn: Lsn, unix_millis: u64) {
        if lsn.get() >= self.position {
            self.unix_millis = self.unix_millis.max(unix_millis);
        }
    }

    /// Takes the time now, after all records. If the clock was set back since the newest time, adds the step to the sum
    /// and returns it in milliseconds.
    pub(crate) fn end(&mut self, end: Lsn, unix_millis: u64) -> Option<i64> {
        self.position = end.get();
        if unix_millis == 0 || broken(Variant::ClockSetBackForgotten) {
            return None;
        }
        let back = self.unix_millis.saturating_sub(unix_millis);
        let is_step = u128::from(back) > CLOCK_TOLERANCE.as_millis();
        if is_step || unix_millis > self.unix_millis {
            self.unix_millis = unix_millis;
        }
        is_step.then(|| {
            let back = i64::try_from(back).unwrap_or(i64::MAX);
            self.set_back = self.set_back.saturating_add(back);
            back
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_is_found_once_and_jitter_is_none() {
        let mut clock = ClockReading::default();
        for (lsn, millis) in [(0, 100_000), (8, 99_000), (16, 105_000)] {
            clock.saw(Lsn(lsn), millis);
        }
        assert_eq!(clock.end(Lsn(24), 101_000), None);
        assert_eq!(clock.end(Lsn(24), 60_000), Some(45_000));
        assert_eq!(clock.end(Lsn(24), 60_001), None);
        assert_eq!(clock.set_back, 45_000);
    }

    #[test]
    fn a_step_back_followed_by_one_forward_is_none() {
        let mut clock = ClockReading::default();
        for (lsn, millis) in [(0, 100_000), (8, 40_000), (16, 101_000)] {
            clock.saw(Lsn(lsn), millis);
        }
        assert_eq!(clock.end(Lsn(24), 101_000), None);
        assert_eq!(clock.set_back, 0);
    }

    #[test]
    fn steps_before_the_saved_position_are_in_the_sum() {
        let mut clock = ClockReading {
            position: 24,
            unix_millis: 60_000,
            set_back: 45_000,
        };
        clock.saw(Lsn(16), 105_000);
        clock.saw(Lsn(24), 60_002);
        assert_eq!(clock.end(Lsn(32), 20_000), Some(40_002));
        assert_eq!(clock.set_back, 85_002);
    }
}
