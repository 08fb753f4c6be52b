//! Silent destinations, and the messages to others meanwhile.

use std::time::Duration;

use abide::outbox::{OutboxOptions, Pace, Status};

use abide::clock::TestClock;

use crate::outbox::support::{Act, World, note, plain, run};

/// Lets seconds go by, without waiting until everything rests.
async fn seconds(world: &World, count: u32) {
    for _ in 0..count {
        world.clock.advance(Duration::from_secs(1));
        for _ in 0..20 {
            world.sender().fence().await.unwrap();
        }
    }
}

#[test]
fn destinations_that_are_silent_do_not_hold_up_others() {
    run(async {
        let world = World::new(plain().pace(Pace::default()));
        for who in 0..4 {
            for number in 0..16 {
                let text = format!("silent {who} {number}");
                world.script.say(&text, [Act::Hang]);
                world.enqueue(note(&format!("silent{who}"), &text)).await;
            }
        }
        world.rest().await;
        let id = world.enqueue(note("eve", "hello")).await;
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn silent_destinations_do_not_delay_answering_ones() {
    run(async {
        let world = World::new(plain().pace(Pace::default()));
        world.enqueue(note("eve", "first")).await;
        world.pass(Duration::from_secs(1)).await;
        for who in 0..60 {
            for number in 0..5 {
                let text = format!("silent {who} {number}");
                world.script.say(&text, [Act::Hang]);
                world.enqueue(note(&format!("silent{who}"), &text)).await;
            }
        }
        world.rest().await;
        let id = world.enqueue(note("eve", "hello")).await;
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn silent_receivers_delay_neither_a_known_nor_a_new_one_after_a_restart() {
    run(async {
        let mut world = World::new(OutboxOptions::default().jitter(false));
        for number in 0..3 {
            world.enqueue(note("eve", &format!("first {number}"))).await;
            seconds(&world, 1).await;
        }
        let silent = (0..1_600).map(|number| {
            let text = format!("silent {number}");
            world.script.say(&text, vec![Act::Hang; 9]);
            note(&format!("silent{}", number % 800), &text)
        });
        world.enqueue_all(silent.collect::<Vec<_>>()).await;
        for life in 0..3 {
            seconds(&world, 7 + 13 * life).await;
            world = world.killed();
            seconds(&world, 3).await;
            for to in ["eve", &format!("new {life}")] {
                let text = format!("to {to} in life {life}");
                let since = world.now() - TestClock::START_UNIX_MILLIS.cast_signed();
                let id = world.enqueue(note(to, &text)).await;
                seconds(&world, 3).await;
                assert_eq!(world.status(id).await, Status::Sent, "{text}");
                let waited = world.script.times(&text)[0] - since;
                assert!(waited <= 2_000, "{text}: {waited} ms");
            }
        }
        assert!(world.script.most() <= 64, "{}", world.script.most());
    });
}
