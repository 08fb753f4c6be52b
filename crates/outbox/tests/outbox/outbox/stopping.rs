//! A message can be stopped in every state: by its deadline, and by an operator.

use std::time::Duration;

use abide::outbox::{
    GiveUp, OutboxOptions, Polled, Polling, Record, RetryPolicy, Status, Submitted,
};

use crate::outbox::support::{Act, World, at_a_time, note, plain, refused, run};

fn accepted() -> Act {
    Act::Submit(Ok(Submitted::Accepted {
        operation: "op".to_owned(),
        after: None,
    }))
}

/// The receiver accepts a text and never finishes.
fn never_finishes(world: &World, text: &str) {
    world.script.say(text, [accepted()]);
    let running = Act::Poll(Ok(Polled::Running { after: None }));
    world.script.say(text, vec![running; 2_000]);
}

fn policies() -> [OutboxOptions; 2] {
    let polling = Polling::default().interval(Duration::from_secs(5));
    [GiveUp::DeadLetter, GiveUp::Never].map(|give_up| plain().give_up(give_up).polling(polling))
}

fn polls(world: &World, text: &str) -> usize {
    let calls = world.script.calls().into_iter();
    let polls = calls.filter(|call| call.text == text && call.poll.is_some());
    polls.count()
}

/// Enqueues a message and another that waits behind it.
async fn chain(world: &World, text: &str) -> (i64, i64) {
    let first = world.enqueue(note("bob", text).ordering_key("k")).await;
    let behind = note("bob", &format!("behind {text}")).ordering_key("k");
    (first, world.enqueue(behind).await)
}

#[test]
fn the_deadline_ends_an_accepted_operation() {
    for options in policies() {
        run(async {
            let world = World::new(options);
            never_finishes(&world, "hello");
            let message = note("bob", "hello").ordering_key("k");
            let deadline = world.now() + 40_000;
            let id = world.enqueue(message.deadline(deadline)).await;
            let behind = world.enqueue(note("bob", "behind").ordering_key("k")).await;
            world.pass(Duration::from_secs(39)).await;
            assert_eq!(world.status(id).await, Status::Sending);
            world.pass(Duration::from_secs(2)).await;
            let record = world.get(id).await;
            assert_eq!((record.status, record.unknown), (Status::Failed, true));
            assert_eq!(
                record.last_error.as_deref(),
                Some("the deadline passed while the receiver was processing it")
            );
            assert_eq!(record.finished_at, Some(deadline));
            world.sender().discard(id).await.unwrap();
            world.until_status(behind, Status::Sent).await;
            world.check_counts().await;
        });
    }
}

#[test]
fn the_deadline_ends_a_poll_without_a_response() {
    run(async {
        let world = World::new(plain().timeout(Duration::from_mins(5)));
        world.script.say("hello", [accepted(), Act::Hang]);
        let deadline = world.now() + 20_000;
        let id = world.enqueue(note("bob", "hello").deadline(deadline)).await;
        world.pass(Duration::from_secs(19)).await;
        assert_eq!(world.status(id).await, Status::Sending);
        world.pass(Duration::from_secs(2)).await;
        let record = world.get(id).await;
        assert_eq!((record.status, record.unknown), (Status::Failed, true));
        world.check_counts().await;
    });
}

#[test]
fn an_attempt_that_began_before_the_deadline_may_deliver_after_it() {
    run(async {
        let world = World::new(plain());
        let late = Act::After(Duration::from_secs(10));
        world.script.say("hello", [late]);
        let deadline = world.now() + 5_000;
        let id = world.enqueue(note("bob", "hello").deadline(deadline)).await;
        world.pass(Duration::from_secs(12)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn canceling_an_accepted_operation_ends_its_polls() {
    for options in policies() {
        run(async {
            let world = World::new(options);
            never_finishes(&world, "hello");
            let (id, behind) = chain(&world, "hello").await;
            world.pass(Duration::from_secs(12)).await;
            let canceled = world.sender().cancel(id).await.unwrap();
            assert_eq!(
                (canceled.status, canceled.unknown, canceled.polls),
                (Status::Canceled, true, 2)
            );
            world.until_status(behind, Status::Sent).await;
            world.pass(Duration::from_mins(1)).await;
            assert_eq!(polls(&world, "hello"), 2);
            assert_eq!(world.events(id).await.last().unwrap(), "canceled");
            world.check_counts().await;
        });
    }
}

#[test]
fn canceling_an_attempt_or_a_poll_in_flight_interrupts_it() {
    for acts in [vec![Act::Hang], vec![accepted(), Act::Hang]] {
        run(async {
            // Nothing else can be in flight.
            let world = World::new(at_a_time(1, 1));
            world.script.say("hello", acts);
            let (id, behind) = chain(&world, "hello").await;
            let in_flight =
                |record: &Record| record.status == Status::Sending && record.next_at.is_none();
            world.pass(Duration::from_secs(10)).await;
            let record = world.until(id, in_flight).await;
            assert!(!record.unknown);
            let canceled = world.sender().cancel(id).await.unwrap();
            assert_eq!(
                (canceled.status, canceled.unknown),
                (Status::Canceled, true)
            );
            world.until_status(behind, Status::Sent).await;
            world.pass(Duration::from_mins(2)).await;
            assert_eq!(world.status(id).await, Status::Canceled);
            world.check_counts().await;
        });
    }
}

#[test]
fn a_response_that_arrives_with_the_cancellation_changes_nothing() {
    run(async {
        let world = World::new(plain());
        for text in ["taken", "refused"] {
            let act = match text {
                "taken" => Act::Well,
                _ => refused(),
            };
            world.script.say(text, [Act::Later(Box::new(act))]);
            world.enqueue(note("bob", text)).await;
        }
        world.rest().await;
        let sender = world.sender();
        let (taken, refused, ()) = tokio::join!(sender.cancel(1), sender.cancel(2), async {
            world.script.now();
        });
        world.pass(Duration::from_secs(10)).await;
        for (id, canceled) in [(1, taken), (2, refused)] {
            // A response that was first leaves nothing to cancel.
            let is_canceled = canceled.is_ok();
            assert_eq!(world.status(id).await == Status::Canceled, is_canceled);
        }
        world.check_counts().await;
    });
}

#[test]
fn a_cancellation_that_is_rolled_back_interrupts_nothing() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", [Act::Later(Box::new(Act::Well))]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.rest().await;
        let sender = world.sender();
        sender.cancel_and_roll_back(id).await.unwrap();
        world.pass(Duration::from_secs(1)).await;
        world.script.now();
        world.until_status(id, Status::Sent).await;
        assert_eq!(world.script.calls().len(), 1);
        world.check_counts().await;
    });
}

#[test]
fn a_message_that_is_given_up_can_be_redriven_at_once() {
    for acts in [vec![Act::Hang], vec![accepted(), Act::Hang]] {
        run(async {
            let world = World::new(plain());
            world.script.say("hello", acts);
            let (id, behind) = chain(&world, "hello").await;
            world.pass(Duration::from_secs(11)).await;
            let before = world.get(id).await;
            let given_up = world.sender().give_up_and_redrive(id).await.unwrap();
            assert_eq!((given_up.status, given_up.unknown), (Status::Failed, true));
            assert_eq!(
                given_up.last_error.as_deref(),
                Some("an operator gave it up")
            );
            let after = world.until_status(id, Status::Sent).await;
            assert_eq!(after.idempotency_key, before.idempotency_key);
            world.until_status(behind, Status::Sent).await;
            world.pass(Duration::from_mins(2)).await;
            assert_eq!(world.status(id).await, Status::Sent);
            world.check_counts().await;
        });
    }
}

#[test]
fn what_has_ended_cannot_be_ended_again() {
    run(async {
        let world = World::new(plain());
        let id = world.enqueue(note("bob", "hello")).await;
        world.until_status(id, Status::Sent).await;
        let refused = world.sender().cancel(id).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "message 1 is sent: only one that is queued or sending can be canceled"
        );
        let refused = world.sender().give_up(id).await;
        assert!(refused.is_err());
    });
}

#[test]
fn polls_that_end_the_process_become_rarer_and_are_counted() {
    run(async {
        let policy = RetryPolicy::Exponential {
            base: Duration::from_secs(2),
            max: Duration::from_mins(1),
            max_attempts: 5,
        };
        let polling = Polling::default().interval(Duration::from_secs(1));
        let options = plain().give_up(GiveUp::Never).retry(policy);
        let mut world = World::new(options.polling(polling));
        world.script.say("hello", [accepted()]);
        world.script.say("hello", vec![Act::Hang; 500]);
        let id = world.enqueue(note("bob", "hello")).await;
        let mut made = 0;
        for _ in 0..240 {
            world.pass(Duration::from_secs(1)).await;
            if polls(&world, "hello") > made {
                made = polls(&world, "hello");
                world = world.killed();
            }
        }
        // After 2, 4, 8 and 16 s, and then every 16 s.
        assert!((14..=18).contains(&made), "{made} crashes in 4 minutes");
        let record = world.get(id).await;
        assert_eq!(record.polls as usize, made, "{record:?}");
        assert!(record.failing_since.is_some());
        world.sender().cancel(id).await.unwrap();
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(polls(&world, "hello"), made);
    });
}
