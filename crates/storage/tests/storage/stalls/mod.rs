//! Commits beside slow, failing and panicking maintenance: who waits for whom, and what is said of it.

mod history;
mod maintenance;
mod objects;
mod waits;

use crate::common::DIR;
use abide_storage::{FaultyDisk, ObjectDb, Store, StoreOptions};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Nothing here takes so long unless it waits for what never comes.
const LONG: Duration = Duration::from_mins(1);

/// Small segments, and a bound of the log that is far away. Checkpoints begin often.
fn options() -> StoreOptions {
    StoreOptions::small()
        .checkpoint_bytes(64 << 20)
        .checkpoint_interval(Duration::from_millis(20))
}

fn open(disk: &FaultyDisk, options: StoreOptions) -> Store {
    Store::open(Arc::new(disk.clone()), Path::new(DIR), options).expect("the store opens")
}

fn noise(n: u32, length: usize) -> Vec<u8> {
    let mut x = u64::from(n) * 7919 + 88_172_645_463_325_252;
    let step = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..length).map(step).collect()
}

fn put(db: &ObjectDb, n: u32, length: usize) {
    db.kv_put("noise", &noise(n, length)).expect("a value");
    db.commit().expect("a commit");
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "it did not happen: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
