//! Crashes at every point of a delivery.

use std::time::Duration;

use abide::outbox::Status;

use crate::outbox::support::{Act, World, note, plain, refused, run};

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

/// Moves the clock until this many messages had an effect, and touches no object meanwhile.
async fn until_effects(world: &World, count: usize) {
    for _ in 0..10_000 {
        if world.script.effects().len() >= count {
            return;
        }
        world.clock.advance(Duration::from_millis(100));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("no instance continues: {:?}", world.script.effects());
}

#[test]
fn an_outbox_continues_after_a_kill_at_any_point_without_any_call() {
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
fn a_handler_that_kills_its_process_ends_as_a_dead_letter() {
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
            Some(
                "the object or its process stopped before the response arrived; attempt 5 was the last"
            )
        );
        world.check_counts().await;
    });
}

#[test]
fn a_message_is_sent_after_a_kill_although_another_was_undone() {
    run(async {
        let world = World::new(plain());
        // What is known of bob is written, and then nothing is due to him.
        let first = world.enqueue(note("bob", "first")).await;
        world.until_status(first, Status::Sent).await;
        world.clock.set_wall(-86_400_000);
        let other = world.enqueue(note("eve", "other")).await;
        world.until_status(other, Status::Sent).await;
        let undone = world.sender().enqueue_and_roll_back(note("bob", "undone"));
        undone.await.unwrap();
        let later = note("bob", "hello").not_before(world.now() + 60_000);
        let id = world.enqueue(later).await;
        world.rest().await;
        let world = world.killed();
        world.pass(Duration::from_mins(2)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!(world.script.effects(), ["first", "other", "hello"]);
    });
}

#[test]
fn any_number_of_destinations_continue_after_a_kill() {
    run(async {
        let world = World::new(plain());
        let count: usize = 700;
        let all = (0..count).map(|number| {
            let text = format!("t{number}");
            if number % 3 == 0 {
                world.script.say(&text, [refused()]);
            }
            note(&format!("d{number}"), &text)
        });
        world.enqueue_all(all.collect::<Vec<_>>()).await;
        while world.script.effects().len() < 200 {
            tokio::task::yield_now().await;
        }
        let world = world.killed();
        // Some wait a second or two for another attempt, and none longer.
        world.pass(Duration::from_secs(10)).await;
        let counts = world.counts().await;
        assert_eq!((counts.sent, counts.queued), (700, 0));
        let once: std::collections::BTreeSet<String> = world.script.effects().into_iter().collect();
        assert_eq!(once.len(), count);
        // Some were known, and now and then one comes back.
        for number in [0, 3, 350, 699] {
            let id = world.enqueue(note(&format!("d{number}"), "again")).await;
            world.until_status(id, Status::Sent).await;
        }
        world.check_counts().await;
    });
}
