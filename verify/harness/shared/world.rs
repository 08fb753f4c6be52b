//! Common setup of the tests: a store on a disk in memory.

use std::{path::Path, sync::Arc};

use abide::{
    clock::{Clock as _, TestClock},
    storage::{SimDisk, Store, StoreOptions},
};

/// The store of a disk, with a test clock.
pub(crate) fn store(disk: &SimDisk, clock: &TestClock) -> Store {
    let time = clock.clone();
    let options = StoreOptions {
        unix_millis: Arc::new(move || time.unix_millis()),
        ..StoreOptions::small()
    };
    Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap()
}
