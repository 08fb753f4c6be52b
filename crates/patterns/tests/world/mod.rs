//! What the tests of each part begin with: a store on a disk in memory, and a clock that they move and set.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use abide::{
    SimDisk, Store, StoreOptions,
    clock::{Clock, Sleep, TestClock},
};

/// A clock whose wall time can be set, as people do.
#[derive(Clone, Default)]
pub(crate) struct Wall {
    clock: TestClock,
    set: Arc<AtomicI64>,
}

impl Wall {
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Sets the wall time forward, or back.
    pub(crate) fn set(&self, by_millis: i64) {
        self.set.fetch_add(by_millis, Ordering::SeqCst);
    }

    /// Milliseconds since 1970.
    pub(crate) fn millis(&self) -> i64 {
        self.unix_millis().cast_signed()
    }
}

impl Clock for Wall {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn unix_millis(&self) -> u64 {
        self.clock
            .unix_millis()
            .saturating_add_signed(self.set.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.clock.sleep_until(deadline)
    }
}

/// The store of a disk, at the time of a clock.
pub(crate) fn store(disk: &SimDisk, clock: &(impl Clock + Clone + 'static)) -> Store {
    let time = clock.clone();
    let options = StoreOptions {
        unix_millis: Arc::new(move || time.unix_millis()),
        ..StoreOptions::small()
    };
    Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap()
}
