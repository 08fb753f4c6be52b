//! Crashes at every point of a delivery.

use std::time::Duration;

use abide_patterns::outbox::Status;

use crate::support::{Act, World, note, plain, refused, run};

#[test]
fn a_message_that_was_enqueued_is_sent_after_a_kill() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", [refused()]);
        let id = world.enqueue(note("bob", "hello")).await;
        let world = world.killed();
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        world.check_counts().await;
    });
}

/// Moves the clock until so many messages had an effect, and touches no object meanwhile.
async fn until_effects(world: &World, count: usize) {
    for _ in 0..10_000 {
        if world.script.effects().len() >= count {
            return;
        }
        world.clock.advance(Duration::from_millis(100));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("nobody goes on: {:?}", world.script.effects());
}

#[test]
fn an_outbox_goes_on_after_a_kill_at_any_point_although_nobody_calls_its_object() {
    run(async {
        // Killed before the first attempt, while one is on its way, and while one waits for its next time.
        for point in 0..3 {
            let world = World::new(plain());
            match point {
                0 => {}
                1 => world.script.say("hello", [Act::Hang]),
                _ => world.script.say("hello", [refused()]),
            }
            let id = world.enqueue(note("bob", "hello")).await;
            match point {
                0 => {}
                1 => {
                    while world.script.calls().is_empty() {
                        tokio::task::yield_now().await;
                    }
                }
                _ => {
                    world.until(id, |record| record.last_error.is_some()).await;
                    // The alarm is set to the next attempt when nothing else is left to do.
                    world.rest().await;
                }
            }
            let before = world.script.effects().len();
            let world = world.killed();
            until_effects(&world, before.max(1)).await;
            // What had its effect just before the kill may be due once more.
            while world.status(id).await != Status::Sent {
                world.pass(Duration::from_millis(500)).await;
            }
        }
    });
}

#[test]
fn an_attempt_whose_process_dies_counts_so_that_a_handler_that_kills_ends_as_a_dead_letter() {
    run(async {
        let mut world = World::new(plain());
        world.script.say("bad", std::iter::repeat_n(Act::Hang, 9));
        let id = world.enqueue(note("bob", "bad")).await;
        for attempt in 1..=5 {
            loop {
                let record = world.get(id).await;
                if record.attempts == attempt && world.script.calls().len() as u32 == attempt {
                    break;
                }
                world.pass(Duration::from_millis(500)).await;
            }
            world = world.killed();
        }
        let record = world.until_status(id, Status::Failed).await;
        assert_eq!((record.attempts, record.unknown), (5, true));
        assert_eq!(
            record.last_error.as_deref(),
            Some("the object or its process ended before the answer came; attempt 5 was the last")
        );
        world.check_counts().await;
    });
}
