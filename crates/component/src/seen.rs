//! The latest time that an object knows the wall clock to have shown, by which it finds that the clock was set back.

use std::cell::Cell;

use abide::State;

/// What the alarm that woke an object tells of the clock: it was set for a time that had come, by the clock that it was set by.
#[derive(Debug, Default)]
pub struct SeenByAlarm(Cell<i64>);

impl SeenByAlarm {
    /// To be called when the object's alarm goes off.
    pub fn note(&self, state: &State) {
        self.0.set(scheduled(state).max(self.0.get()));
    }

    /// The latest time that is known.
    pub fn or(&self, last_seen: i64) -> i64 {
        self.0.get().max(last_seen)
    }

    /// The same, for the one who makes good what has changed since.
    pub fn take_or(&self, last_seen: i64) -> i64 {
        self.0.take().max(last_seen)
    }
}

/// The time for which the alarm was set that is being handled; 0 if none is.
pub fn scheduled(state: &State) -> i64 {
    state
        .current_alarm()
        .map_or(0, |alarm| alarm.scheduled_time.unix_millis())
}
