//! Steps back of the wall clock that show only in the times of commits.

use std::sync::atomic::Ordering;

use crate::recovery_points::world::{MINUTE, World, off};

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
        world.reopen();
        assert_eq!(world.store.alarms().set_back(), 0);
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
        world.reopen();
        assert_eq!(world.store.alarms().set_back(), MINUTE.cast_signed());
    }
    world.put(1, "later");
    world.keep();
    world.reopen();
    assert_eq!(world.store.alarms().set_back(), MINUTE.cast_signed());
}

#[test]
fn a_step_back_that_was_reported_is_not_counted_again() {
    let mut world = World::new(off());
    world.put(1, "before");
    world.clock.fetch_sub(MINUTE, Ordering::SeqCst);
    world.put(1, "between");
    world.store.clock_set_back(MINUTE.cast_signed()).unwrap();
    world.put(1, "after");
    for _ in 0..2 {
        world.reopen();
        assert_eq!(world.store.alarms().set_back(), MINUTE.cast_signed());
    }
}
