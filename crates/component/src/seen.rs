//! The latest wall-clock time that an object has seen, to detect that the clock was set back.

use std::cell::Cell;

use abide::State;

use crate::{limits, numbers::millis};

/// By how much the wall clock was set back since a time that was seen, if it was.
pub fn went_back(seen: i64, now: i64) -> Option<i64> {
    let by = seen.saturating_sub(now);
    (by > millis(limits::CLOCK_TOLERANCE)).then_some(by)
}

/// Whether the stored last-seen time is to be renewed.
pub fn is_old(seen: i64, now: i64) -> bool {
    now.saturating_sub(seen) >= millis(limits::CLOCK_STEP)
}

/// Evidence from the alarm that woke an object: the time for which it was set had come, by the clock with which it was
/// set.
#[derive(Debug, Default)]
pub struct SeenByAlarm(Cell<i64>);

impl SeenByAlarm {
    /// Call this when the object's alarm goes off.
    pub fn note(&self, state: &State) {
        self.0.set(scheduled(state).max(self.0.get()));
    }

    /// The latest known time.
    pub fn or(&self, last_seen: i64) -> i64 {
        self.0.get().max(last_seen)
    }

    /// The same, for the caller that corrects waits after a clock change.
    pub fn take_or(&self, last_seen: i64) -> i64 {
        self.0.take().max(last_seen)
    }
}

/// The time for which the current alarm was set; 0 if none is being handled.
pub fn scheduled(state: &State) -> i64 {
    state
        .current_alarm()
        .map_or(0, |alarm| alarm.scheduled_time.unix_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_set_back_if_it_is_behind_by_more_than_the_tolerance() {
        assert_eq!(went_back(10_000, 5_000), None);
        assert_eq!(went_back(10_000, 4_999), Some(5_001));
        assert_eq!(went_back(10_000, 90_000), None);
        assert_eq!(went_back(i64::MAX, i64::MIN), Some(i64::MAX));
        assert!(is_old(0, 1_000) && !is_old(1, 1_000) && !is_old(i64::MAX, 0));
    }
}
