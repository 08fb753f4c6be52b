//! The latest wall-clock time that an object has seen, to detect that the clock was set back.

use std::cell::Cell;

use abide::State;

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
