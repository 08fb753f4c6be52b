//! The clock of a simulated machine: time that only the schedule moves, and a wall clock that people set.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use abide::clock::{Clock, Sleep, TestClock};

/// Clones are the same clock. It outlives the node's lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimClock {
    time: TestClock,
    /// Milliseconds by which the wall clock was set forward, less those by which it was set back.
    set: Arc<AtomicI64>,
}

impl SimClock {
    /// Lets time pass.
    pub(crate) fn pass(&self, by: Duration) {
        self.time.advance(by);
    }

    /// Sets the wall clock forward, or back if negative, by so many milliseconds.
    pub(crate) fn set_wall(&self, by: i64) {
        self.set.fetch_add(by, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.time.now()
    }

    fn unix_millis(&self) -> u64 {
        self.time
            .unix_millis()
            .saturating_add_signed(self.set.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.time.sleep_until(deadline)
    }
}
