//! The node's clock: every read of the wall clock detects whether it was set back, before anything is written with the
//! new time.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use abide_storage::limits::CLOCK_TOLERANCE;

use crate::{
    clock::{Clock, Sleep},
    router::{Router, drop_router},
};

/// A clock that notifies the alarm index when the wall clock was set back.
pub(crate) struct NodeClock {
    clock: Arc<dyn Clock>,
    router: Weak<Router>,
    /// The wall clock's time, in milliseconds, at the origin of the monotonic clock; the newest value seen, ignoring
    /// steps that are too small to count.
    origin: AtomicI64,
}

impl NodeClock {
    pub(crate) fn new(clock: Arc<dyn Clock>, router: Weak<Router>) -> Self {
        let origin = origin(&*clock, clock.unix_millis());
        Self {
            clock,
            router,
            origin: AtomicI64::new(origin),
        }
    }

    fn see(&self, wall: u64) {
        let origin = origin(&*self.clock, wall);
        let known = self.origin.load(Ordering::Relaxed);
        let back = known.saturating_sub(origin);
        let is_step = u128::try_from(back).is_ok_and(|back| back > CLOCK_TOLERANCE.as_millis());
        if origin == known || (back > 0 && !is_step) {
            return;
        }
        let known =
            self.origin
                .compare_exchange(known, origin, Ordering::Relaxed, Ordering::Relaxed);
        // Only the thread that changes it reports the step, so each step is reported once.
        if let (true, Ok(_), Some(router)) = (is_step, known, self.router.upgrade()) {
            tracing::warn!(
                by_millis = back,
                "the wall clock was set back: waiting alarms fire as if it had not been"
            );
            router.store.alarms().clock_set_back(back);
            drop_router(router);
        }
    }
}

fn origin(clock: &dyn Clock, wall: u64) -> i64 {
    let steady = i64::try_from(clock.now().as_millis()).unwrap_or(i64::MAX);
    wall.cast_signed().saturating_sub(steady)
}

impl Clock for NodeClock {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn unix_millis(&self) -> u64 {
        let wall = self.clock.unix_millis();
        self.see(wall);
        wall
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.clock.sleep_until(deadline)
    }

    fn stands_still(&self) -> bool {
        self.clock.stands_still()
    }
}
