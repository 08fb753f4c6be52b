//! Long-running operations: a receiver accepts, and is polled until it has finished.

use std::time::Duration;

use abide::outbox::{Breaker, Failure, OutboxOptions, Polled, Polling, Status, Submitted};

use crate::outbox::support::{Act, World, note, plain, run};

fn accepted(after: Option<u64>) -> Act {
    Act::Submit(Ok(Submitted::Accepted {
        operation: "https://example.com/operations/1".into(),
        after: after.map(Duration::from_secs),
    }))
}

fn running(after: Option<u64>) -> Act {
    Act::Poll(Ok(Polled::Running {
        after: after.map(Duration::from_secs),
    }))
}

fn silent() -> Act {
    Act::Poll(Err(Failure::refused("503")))
}

fn options() -> OutboxOptions {
    plain().polling(
        Polling::default()
            .interval(Duration::from_secs(10))
            .deadline(Duration::from_secs(100))
            .max_errors(3),
    )
}

#[test]
fn an_operation_is_asked_about_until_it_has_succeeded() {
    run(async {
        let world = World::new(options());
        world.script.say(
            "hello",
            [accepted(Some(2)), running(None), running(Some(4))],
        );
        let id = world.enqueue(note("bob", "hello")).await;
        let record = world.until(id, |record| record.operation.is_some()).await;
        assert_eq!(record.status, Status::Sending);
        assert_eq!(
            record.operation.as_deref(),
            Some("https://example.com/operations/1")
        );
        world.pass(Duration::from_secs(20)).await;
        let record = world.get(id).await;
        assert_eq!(
            (record.status, record.attempts, record.polls),
            (Status::Sent, 1, 3)
        );
        assert_eq!(world.script.times("hello"), [0, 2_000, 12_000, 16_000]);
        assert_eq!(
            world.events(id).await,
            ["queued", "sending", "accepted", "sent"]
        );
        world.check_counts().await;
    });
}

#[test]
fn an_operation_that_failed_is_a_dead_letter_with_its_reason() {
    run(async {
        let world = World::new(options());
        let failed = Act::Poll(Ok(Polled::Failed {
            error: "the address is on the suppression list".into(),
            retry: false,
        }));
        world.script.say("hello", [accepted(None), failed]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(10)).await;
        let record = world.get(id).await;
        assert_eq!((record.status, record.unknown), (Status::Failed, false));
        assert_eq!(
            record.last_error.as_deref(),
            Some("the address is on the suppression list")
        );
    });
}

#[test]
fn an_operation_that_may_be_begun_anew_is_begun_under_a_new_key() {
    run(async {
        let world = World::new(options());
        let failed = Act::Poll(Ok(Polled::Failed {
            error: "try again".into(),
            retry: true,
        }));
        world.script.say("hello", [accepted(None), failed]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        let calls = world.script.calls();
        assert_eq!(calls.len(), 3);
        assert_eq!(calls[0].key, calls[1].key);
        assert_ne!(calls[0].key, calls[2].key);
        assert_eq!((calls[2].attempt, calls[2].at), (2, 11_000));
    });
}

#[test]
fn polls_that_fail_are_repeated_and_an_answer_forgives_them() {
    run(async {
        let world = World::new(options());
        let acts = [
            accepted(None),
            silent(),
            silent(),
            silent(),
            running(None),
            silent(),
            silent(),
            silent(),
        ];
        world.script.say("hello", acts);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(35)).await;
        let record = world.get(id).await;
        assert_eq!(
            (record.status, record.last_error.as_deref()),
            (Status::Sending, Some("503"))
        );
        world.pass(Duration::from_secs(50)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        let events = world.events(id).await;
        let expected = [
            "queued",
            "sending",
            "accepted",
            "poll failed",
            "poll failed",
            "sent",
        ];
        assert_eq!(
            events, expected,
            "an error is noted once, until another answer"
        );
    });
}

#[test]
fn an_operation_of_unknown_status_ends_as_an_unknown_dead_letter() {
    run(async {
        let world = World::new(options());
        world.script.say(
            "hello",
            [accepted(None), silent(), silent(), silent(), silent()],
        );
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_mins(1)).await;
        let record = world.get(id).await;
        assert_eq!((record.status, record.unknown), (Status::Failed, true));
        assert_eq!(
            record.last_error.as_deref(),
            Some("4 consecutive polls of the operation failed: 503")
        );
        let key = record.idempotency_key.clone();
        world.sender().redrive(id).await.unwrap();
        world.until_status(id, Status::Sent).await;
        assert_eq!(
            world.get(id).await.idempotency_key,
            key,
            "it may have had its effect"
        );
    });
}

#[test]
fn an_operation_that_never_ends_is_given_up_at_its_deadline() {
    run(async {
        let world = World::new(options());
        world.script.say("hello", [accepted(None)]);
        world
            .script
            .say("hello", std::iter::repeat_n(running(None), 50));
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_mins(2)).await;
        let record = world.get(id).await;
        assert_eq!(
            (record.status, record.unknown, record.polls),
            (Status::Failed, true, 10)
        );
        assert_eq!(
            record.last_error.as_deref(),
            Some("the operation did not finish within 100 s")
        );
    });
}

#[test]
fn polls_continue_after_a_crash_without_a_second_submission() {
    run(async {
        let world = World::new(options());
        world
            .script
            .say("hello", [accepted(None), running(None), Act::Hang]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.script.calls().len(), 3);
        let world = world.killed();
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        let submits = world
            .script
            .calls()
            .iter()
            .filter(|call| call.poll.is_none())
            .count();
        assert_eq!(submits, 1);
        world.check_counts().await;
    });
}

#[test]
fn a_receiver_that_asks_for_short_patience_does_not_end_an_operation() {
    run(async {
        let world = World::new(plain());
        let busy = |after| Act::Poll(Err(after));
        let throttled = Failure::throttled("429", Some(Duration::ZERO));
        let refused = Failure::refused("503").retry_after(Some(Duration::ZERO));
        for (text, failure) in [("throttled", throttled), ("refused", refused)] {
            world.script.say(text, [accepted(None)]);
            world.script.say(text, vec![busy(failure); 31]);
            world.enqueue(note(text, text)).await;
        }
        world.pass(Duration::from_mins(1)).await;
        for id in [1, 2] {
            let record = world.get(id).await;
            assert_eq!(record.status, Status::Sending, "{record:?}");
        }
    });
}

#[test]
fn an_operation_that_is_only_throttled_is_given_up_at_its_deadline() {
    run(async {
        let world = World::new(options());
        let throttled = Failure::throttled("429", Some(Duration::from_secs(5)));
        world.script.say("hello", [accepted(None)]);
        world
            .script
            .say("hello", vec![Act::Poll(Err(throttled)); 100]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(95)).await;
        assert_eq!(world.status(id).await, Status::Sending);
        world.pass(Duration::from_mins(1)).await;
        let record = world.get(id).await;
        assert_eq!((record.status, record.unknown), (Status::Failed, true));
    });
}

#[test]
fn nothing_is_asked_of_a_destination_that_wants_to_be_left_alone() {
    run(async {
        let world = World::new(plain());
        world.script.say("a", [accepted(None)]);
        world.script.say("a", vec![running(None); 100]);
        let throttled = Failure::throttled("429", Some(Duration::from_mins(1)));
        world.script.say("b", [Act::Submit(Err(throttled))]);
        world.enqueue(note("bob", "a")).await;
        world.enqueue(note("bob", "b")).await;
        let polls = || {
            let calls = world.script.calls().into_iter();
            calls.filter(|call| call.poll.is_some()).count()
        };
        world.pass(Duration::from_secs(55)).await;
        assert_eq!(polls(), 0);
        world.pass(Duration::from_secs(25)).await;
        assert!(polls() > 0);
    });
}

#[test]
fn nothing_is_asked_of_a_destination_whose_circuit_is_open() {
    run(async {
        let world = World::new(
            options().breaker(Breaker::default().failures(3).pause(Duration::from_mins(5))),
        );
        world.script.say("a", [accepted(None)]);
        world.script.say("a", vec![silent(); 100]);
        world.enqueue(note("bob", "a")).await;
        world.rest().await;
        for number in 0..3 {
            let text = format!("n{number}");
            world
                .script
                .say(&text, [Act::Submit(Err(Failure::refused("503")))]);
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_mins(4)).await;
        let polls = world.script.calls().into_iter();
        assert_eq!(polls.filter(|call| call.poll.is_some()).count(), 0);
        assert_eq!(world.status(1).await, Status::Sending);
    });
}
