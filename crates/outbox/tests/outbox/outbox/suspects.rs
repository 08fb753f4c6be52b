//! A message that crashes the process: it is found, and no other is given up with it.

use std::time::Duration;

use abide::outbox::{OutboxOptions, Polling, RetryPolicy, Status, Submitted};

use crate::outbox::support::{Act, World, note, plain, run};

/// Passes time until a message is tried or asked about that ends the process, and kills it; or until this many seconds are over.
async fn kill_with(mut world: World, poison: &str, times: usize, seconds: u32) -> World {
    for _ in 0..times {
        let tried = world.script.calls().len();
        let mut left = 2 * seconds;
        let is_tried = |world: &World| {
            let calls = world.script.calls();
            calls[tried..].iter().any(|call| call.text == poison)
        };
        while left > 0 && !is_tried(&world) {
            world.pass(Duration::from_millis(500)).await;
            left -= 1;
        }
        if !is_tried(&world) {
            return world;
        }
        world = world.killed();
        world.rest().await;
    }
    world
}

#[test]
fn a_message_that_ends_the_process_is_buried_and_no_other() {
    for place in [0, 3] {
        run(async move {
            let world = World::new(plain());
            let mut texts = vec!["good 1", "good 2", "good 3"];
            texts.insert(place, "poison");
            for (number, text) in texts.iter().enumerate() {
                // The others only take a little longer than the process lives.
                let act = match *text {
                    "poison" => Act::Hang,
                    _ => Act::After(Duration::from_secs(2)),
                };
                world.script.say(text, vec![act; 50]);
                world.enqueue(note(&format!("to {number}"), text)).await;
            }
            let world = kill_with(world, "poison", 20, 60).await;
            world.pass(Duration::from_secs(30)).await;
            for (id, text) in (1..).zip(texts) {
                let expected = if text == "poison" {
                    Status::Failed
                } else {
                    Status::Sent
                };
                let record = world.get(id).await;
                assert_eq!(record.status, expected, "{record:?}");
            }
            assert_eq!(world.script.times("poison").len(), 5);
            world.check_counts().await;
        });
    }
}

/// With one attempt for each message.
fn once() -> OutboxOptions {
    plain().retry(RetryPolicy::Schedule(Vec::new()))
}

async fn with_suspects(count: usize) -> World {
    let world = World::new(once());
    for number in 0..count {
        let text = format!("m{number}");
        world.script.say(&text, [Act::Hang]);
        world.enqueue(note(&format!("to {number}"), &text)).await;
    }
    world.rest().await;
    assert_eq!(world.script.calls().len(), count);
    let world = world.killed();
    world.rest().await;
    world
}

#[test]
fn what_was_in_flight_at_a_crash_is_tried_alone_rather_than_buried() {
    run(async {
        let world = with_suspects(3).await;
        for number in 0..3 {
            let text = format!("m{number}");
            world.script.say(&text, [Act::Later(Box::new(Act::Well))]);
        }
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.script.calls().len(), 4, "one of them is tried");
        let other = world.enqueue(note("eve", "other")).await;
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(
            world.script.calls().len(),
            4,
            "and no other at the same time"
        );
        world.script.now();
        world.pass(Duration::from_mins(2)).await;
        for id in [1, 2, 3, other] {
            assert_eq!(world.status(id).await, Status::Sent, "{id}");
        }
        world.check_counts().await;
    });
}

#[test]
fn suspects_leave_half_of_the_time_to_others() {
    run(async {
        let world = with_suspects(3).await;
        for number in 0..3 {
            world.script.say(&format!("m{number}"), [Act::Hang]);
        }
        for number in 0..120 {
            world.enqueue(note("eve", &format!("other {number}"))).await;
            world.pass(Duration::from_secs(1)).await;
        }
        let others = world.script.calls();
        let mut times: Vec<i64> = others
            .iter()
            .filter(|call| call.text.starts_with("other"))
            .map(|call| call.at / 1_000)
            .collect();
        times.dedup();
        assert!(
            times.len() >= 40,
            "others went in {} of 120 seconds",
            times.len()
        );
    });
}

#[test]
fn a_question_that_ends_the_process_is_given_up_and_no_other() {
    run(async {
        let polling = Polling::default()
            .interval(Duration::from_secs(1))
            .max_errors(3);
        let world = World::new(plain().polling(polling));
        for text in ["poison", "good"] {
            let accepted = Submitted::Accepted {
                operation: text.to_owned(),
                after: None,
            };
            world.script.say(text, [Act::Submit(Ok(accepted))]);
            let act = match text {
                "poison" => Act::Hang,
                _ => Act::After(Duration::from_secs(2)),
            };
            world.script.say(text, vec![act; 50]);
            world.enqueue(note(text, text)).await;
        }
        world.rest().await;
        let world = kill_with(world, "poison", 20, 60).await;
        world.pass(Duration::from_mins(1)).await;
        let (poison, good) = (world.get(1).await, world.get(2).await);
        assert_eq!(
            (poison.status, poison.unknown),
            (Status::Failed, true),
            "{poison:?}"
        );
        assert_eq!(good.status, Status::Sent, "{good:?}");
        world.check_counts().await;
    });
}
