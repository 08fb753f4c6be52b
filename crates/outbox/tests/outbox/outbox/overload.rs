//! An overloaded node gets less work.

use std::time::Duration;

use abide::outbox::{Failure, Limit, Pace, Rate, Submitted};

use crate::outbox::support::{Act, World, note, plain, run};

fn busy_here() -> Act {
    Act::Submit(Err(Failure::not_sent("busy here")))
}

#[test]
fn a_node_that_is_too_busy_is_asked_more_and_more_rarely() {
    run(async {
        let world = World::new(plain());
        let mut many = Vec::new();
        for number in 0..800 {
            let text = format!("n{number}");
            world.script.say(&text, vec![busy_here(); 1_000]);
            many.push(note("bob", &text));
        }
        world.enqueue_all(many).await;
        world.rest().await;
        let at_once = world.script.calls().len();
        assert!(at_once <= 32, "{at_once} attempts at once, 16 at a time");
        world.pass(Duration::from_mins(2)).await;
        let later = world.script.calls().len() - at_once;
        assert!(later <= 12, "{later} attempts in two minutes");
    });
}

#[test]
fn what_could_not_leave_keeps_its_place_and_goes_when_there_is_room() {
    run(async {
        let world = World::new(plain());
        world.script.say("first", vec![busy_here(); 3]);
        world.enqueue(note("bob", "first")).await;
        world.rest().await;
        let others = (0..20).map(|number| note("bob", &format!("later {number}")));
        world.enqueue_all(others).await;
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.counts().await.sent, 21);
        let calls = world.script.calls();
        assert!(
            calls[..4].iter().all(|call| call.text == "first"),
            "{calls:#?}"
        );
    });
}

#[test]
fn what_could_not_leave_gives_its_tokens_back() {
    run(async {
        let limit = Limit {
            rate: Some(Rate::per_minute(1, 4)),
            concurrency: 4,
        };
        let world = World::new(plain().pace(Pace::AtOnce {
            outbox: limit,
            destination: limit,
        }));
        for number in 0..4 {
            let text = format!("n{number}");
            world.script.say(&text, vec![busy_here(); 2]);
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_secs(50)).await;
        assert_eq!(
            world.counts().await.sent,
            4,
            "four tokens for four messages"
        );
    });
}

#[test]
fn an_operation_is_not_asked_about_while_the_node_is_too_busy() {
    run(async {
        let world = World::new(plain());
        let accepted = Act::Submit(Ok(Submitted::Accepted {
            operation: "op".into(),
            after: Some(Duration::from_secs(1)),
        }));
        let busy = Act::Poll(Err(Failure::not_sent("busy here")));
        for number in 0..40 {
            let text = format!("n{number}");
            world.script.say(&text, [accepted.clone()]);
            world.script.say(&text, vec![busy.clone(); 1_000]);
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_mins(1)).await;
        let polls = world.script.calls().into_iter();
        let polls = polls.filter(|call| call.poll.is_some()).count();
        assert!(polls <= 16 + 12, "{polls} questions in a minute");
    });
}
