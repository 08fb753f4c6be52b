//! What the tests of each part begin with: a store on a disk in memory.

use std::{path::Path, sync::Arc};

use abide::{
    clock::{Clock as _, TestClock},
    storage::{SimDisk, Store, StoreOptions},
};

/// The store of a disk, at the time of a clock.
pub(crate) fn store(disk: &SimDisk, clock: &TestClock) -> Store {
    let time = clock.clone();
    let options = StoreOptions::small().unix_millis(Arc::new(move || time.unix_millis()));
    Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap()
}
