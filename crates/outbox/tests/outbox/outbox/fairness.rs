//! Fairness under load: no message waits longer than for its turn.

use std::time::Duration;

use abide::outbox::{Breaker, Limit, OutboxOptions, Pace, Priority, Rate, Status, limits};

use crate::outbox::support::{Act, World, at_a_time, note, plain, refused, run};

/// A destination takes 20 a second.
fn slow() -> OutboxOptions {
    plain().pace(Pace::AtOnce {
        outbox: Limit {
            rate: None,
            concurrency: 64,
        },
        destination: Limit {
            rate: Some(Rate::per_second(20, 20)),
            concurrency: 16,
        },
    })
}

#[test]
fn a_retry_does_not_wait_for_the_backlog() {
    run(async {
        let world = World::new(slow());
        world.script.say("unlucky", [refused()]);
        world.enqueue(note("bob", "unlucky")).await;
        let many = (0..600).map(|number| note("bob", &format!("b{number}")));
        world.enqueue_all(many).await;
        world.pass(Duration::from_secs(5)).await;
        let times = world.script.times("unlucky");
        // Its back-off, and 16 attempts of the destination.
        assert!(times.len() == 2 && times[1] <= 1_000 + 1_000, "{times:?}");
    });
}

#[test]
fn a_failure_does_not_hold_its_chain_for_the_length_of_the_backlog() {
    run(async {
        let world = World::new(slow());
        let mut messages = Vec::new();
        for place in 0..10 {
            for chain in 0..3 {
                let text = format!("chain {chain} {place}");
                if place % 3 == 0 {
                    world.script.say(&text, [refused()]);
                }
                messages.push(note("bob", &text).ordering_key(format!("key {chain}")));
            }
        }
        messages.extend((0..600).map(|number| note("bob", &format!("b{number}"))));
        world.enqueue_all(messages).await;
        world.pass(Duration::from_secs(15)).await;
        let effects = world.script.effects();
        let done = effects.iter().filter(|text| text.starts_with("chain"));
        assert_eq!(
            done.count(),
            30,
            "four back-offs of a second each, and turns"
        );
    });
}

#[test]
fn repetitions_leave_half_to_what_is_new() {
    run(async {
        let world = World::new(slow().breaker(Breaker::default().failures(0)));
        for number in 0..60 {
            let text = format!("bad {number}");
            world.script.say(&text, vec![refused(); 4]);
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_secs(6)).await;
        let many = (0..40).map(|number| note("bob", &format!("new {number}")));
        world.enqueue_all(many).await;
        world.pass(Duration::from_secs(5)).await;
        let new = world.script.effects();
        let new = new.iter().filter(|text| text.starts_with("new")).count();
        assert!(new >= 35, "{new} of 40, and 100 attempts were made");
    });
}

#[test]
fn no_priority_starves() {
    run(async {
        let world = World::new(slow());
        let id = world
            .enqueue(
                note("bob", "low")
                    .priority(Priority::Low)
                    .not_before(world.now() + 1_000),
            )
            .await;
        let normal = world
            .enqueue(note("bob", "normal").not_before(world.now() + 1_000))
            .await;
        let many =
            (0..400).map(|number| note("bob", &format!("h{number}")).priority(Priority::High));
        world.enqueue_all(many).await;
        world.pass(Duration::from_secs(3)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!(world.status(normal).await, Status::Sent);
        for text in ["low", "normal"] {
            let at = world.script.times(text)[0];
            assert!(at <= 1_000 + 2 * 50 * limits::TURNS, "{text} after {at} ms");
        }
    });
}

#[test]
fn less_urgent_messages_are_sent_although_each_attempt_kills() {
    run(async {
        let mut world = World::new(at_a_time(1, 1));
        let mut all = Vec::new();
        for number in 0..60 {
            let text = format!("t{number}");
            world.script.say(&text, [Act::Hang]);
            all.push(note("bob", &text).priority(Priority::High));
        }
        all.push(note("bob", "low").priority(Priority::Low));
        world.enqueue_all(all).await;
        for life in 1.. {
            assert!(life <= 40, "it is not asked for");
            while world.script.calls().len() < life {
                tokio::task::yield_now().await;
            }
            if world.script.calls().iter().any(|call| call.text == "low") {
                return;
            }
            world = world.killed();
            world.rest().await;
        }
    });
}
