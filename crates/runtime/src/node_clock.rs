//! The node's clock: every read of the wall clock detects whether it was set back, before anything is written with the
//! new time.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use abide_storage::limits::CLOCK_TOLERANCE;

use crate::{
    clock::{Clock, Sleep},
    router::{Router, drop_router},
};

/// A clock that tells the store when the wall clock was set back.
pub(crate) struct NodeClock {
    clock: Arc<dyn Clock>,
    router: Weak<Router>,
    /// The wall clock's time, in milliseconds, at the origin of the monotonic clock; the newest value seen, ignoring
    /// steps that are too small to count.
    origin: AtomicI64,
    /// One step at a time. Its time is used once the store has saved it.
    step: Mutex<()>,
}

impl NodeClock {
    pub(crate) fn new(clock: Arc<dyn Clock>, router: Weak<Router>) -> Self {
        let origin = fresh_origin(&*clock);
        Self {
            clock,
            router,
            origin: AtomicI64::new(origin),
            step: Mutex::new(()),
        }
    }

    fn see(&self, wall: u64) {
        let origin = origin(self.clock.now(), wall);
        let known = self.origin.load(Ordering::Acquire);
        if is_step(known, origin) {
            self.see_step();
        } else if origin > known {
            // If another thread has found a step meanwhile, this is out of date.
            let _ =
                self.origin
                    .compare_exchange(known, origin, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Looks again, because the thread may have been stopped for a while between its looks at the two clocks.
    fn see_step(&self) {
        let _one = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = fresh_origin(&*self.clock);
        let known = self.origin.load(Ordering::Acquire);
        if !is_step(known, origin) {
            return;
        }
        let back = known.saturating_sub(origin);
        if back > 0 {
            // It is being made, or has been dropped: nothing is written with this time.
            let Some(router) = self.router.upgrade() else {
                return;
            };
            tracing::warn!(
                by_millis = back,
                "the wall clock was set back: waiting alarms fire as if it had not been"
            );
            if let Err(error) = router.store.clock_set_back(back) {
                tracing::warn!(%error, "cannot save yet that the wall clock was set back");
            }
            drop_router(router);
        }
        self.origin.store(origin, Ordering::Release);
    }
}

/// Returns whether the wall clock was set, forward or back.
fn is_step(known: i64, origin: i64) -> bool {
    u128::from(known.abs_diff(origin)) > CLOCK_TOLERANCE.as_millis()
}

/// The origin by two clocks that were read at about the same time.
fn fresh_origin(clock: &dyn Clock) -> i64 {
    loop {
        let before = clock.now();
        let wall = clock.unix_millis();
        let after = clock.now();
        if after.saturating_sub(before) < CLOCK_TOLERANCE / 2 {
            return origin(after, wall);
        }
    }
}

fn origin(steady: Duration, wall: u64) -> i64 {
    let steady = i64::try_from(steady.as_millis()).unwrap_or(i64::MAX);
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
