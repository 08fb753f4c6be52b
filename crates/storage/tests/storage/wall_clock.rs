//! Steps back of the wall clock that show only in the times of commits.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use abide_storage::{DiskOp, ErrorKind, FaultyDisk, Result, Store, StoreOptions, errno::ENOSPC};

use crate::{
    common::{DIR, open},
    recovery_points::world::{MINUTE, World, off},
};

impl World {
    /// Reports that the clock was set back by this much.
    fn set_back(&self, millis: u64) -> Result<()> {
        self.store.clock_set_back(millis.cast_signed())
    }

    /// The sum of the steps back after a kill and a start.
    fn restarted(&mut self) -> i64 {
        self.reopen();
        self.store.catch_up_with_clock().unwrap();
        self.store.alarms().set_back()
    }
}

/// A clock that was set back and then forward has gone forward: waits that begin afterwards must not be shortened.
#[test]
fn a_step_back_that_was_made_up_for_is_not_counted() {
    let mut world = World::new(off());
    world.pass(MINUTE);
    world.put(1, "before");
    world.clock.fetch_sub(MINUTE, Ordering::SeqCst);
    world.put(1, "between");
    world.pass(2 * MINUTE);
    world.put(1, "after");
    for _ in 0..3 {
        assert_eq!(world.restarted(), 0);
    }
}

#[test]
fn a_step_back_before_the_end_is_counted_once() {
    let mut world = World::new(off());
    world.pass(MINUTE);
    world.put(1, "before");
    world.clock.fetch_sub(MINUTE, Ordering::SeqCst);
    world.put(1, "after");
    for _ in 0..3 {
        assert_eq!(world.restarted(), MINUTE.cast_signed());
    }
    world.put(1, "later");
    world.keep();
    assert_eq!(world.restarted(), MINUTE.cast_signed());
}

#[test]
fn a_step_back_that_was_reported_is_not_counted_again() {
    let mut world = World::new(off());
    world.put(1, "before");
    world.clock.fetch_sub(MINUTE, Ordering::SeqCst);
    world.put(1, "between");
    world.set_back(MINUTE).unwrap();
    world.put(1, "after");
    for _ in 0..2 {
        assert_eq!(world.restarted(), MINUTE.cast_signed());
    }
}

#[test]
fn a_step_back_during_a_start_is_counted_once() {
    let mut world = World::new(off());
    world.put(1, "before");
    world.reopen();
    world.clock.fetch_sub(MINUTE, Ordering::SeqCst);
    for _ in 0..2 {
        world.store.catch_up_with_clock().unwrap();
        assert_eq!(world.store.alarms().set_back(), MINUTE.cast_signed());
    }
    world.put(1, "after");
    assert_eq!(world.restarted(), MINUTE.cast_signed());
}

/// Otherwise a kill would lose the step, or the part of it that has passed since, while waits count on it.
#[test]
fn no_commit_is_made_before_a_step_back_is_saved() {
    let mut world = World::new(off());
    world.put(1, "before");
    world.disk = world.disk.after_kill();
    let disk = FaultyDisk::new(world.disk.clone());
    let clock = Arc::clone(&world.clock);
    let options = StoreOptions::small()
        .manual(true)
        .archive(off())
        .unix_millis(Arc::new(move || clock.load(Ordering::SeqCst)));
    world.store = Store::open(Arc::new(disk.clone()), Path::new(DIR), options).unwrap();
    disk.fail(&[DiskOp::Open], "MANIFEST", ENOSPC);
    world.clock.fetch_sub(MINUTE, Ordering::SeqCst);
    let refused = world.set_back(MINUTE).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    let db = open(&world.store, 1);
    db.kv_put("k", b"after").unwrap();
    assert_eq!(db.commit().unwrap_err().kind(), ErrorKind::NoSpace);
    drop(db);
    disk.clear();
    world.put(1, "after");
    world.pass(MINUTE / 2);
    let set_back = world.restarted();
    assert_eq!(world.get(1).as_deref(), Some("after"));
    assert_eq!(set_back, MINUTE.cast_signed());
}

#[test]
fn commits_a_little_out_of_order_are_no_step() {
    let mut world = World::new(off());
    for (back, on) in [(0, 2_000), (4_000, 0), (0, 1_000)] {
        world.clock.fetch_sub(back, Ordering::SeqCst);
        world.pass(on);
        world.put(1, "a");
        assert_eq!(world.restarted(), 0);
    }
}
