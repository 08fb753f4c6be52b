//! Retries: their waits, `Retry-After`, when a message is given up, deadlines.

use std::time::Duration;

use abide::clock::TestClock;
use abide::outbox::{Failure, RetryPolicy, Status};

use crate::outbox::support::{Act, World, gone, note, plain, refused, run};

const START: i64 = TestClock::START_UNIX_MILLIS.cast_signed();

fn submit(failure: Failure) -> Act {
    Act::Submit(Err(failure))
}

#[test]
fn a_refused_message_is_tried_again_by_its_schedule_with_the_same_key() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", [refused(), refused(), refused()]);
        let id = world.enqueue(note("bob", "hello")).await;
        let queued = world.until(id, |record| {
            record.attempts == 1 && record.next_at.is_some()
        });
        let queued = queued.await;
        assert_eq!(queued.next_at, Some(START + 1_000));
        assert_eq!(queued.last_error.as_deref(), Some("busy"));
        assert!(!queued.unknown);
        world.pass(Duration::from_secs(10)).await;
        let sent = world.get(id).await;
        assert_eq!(
            (sent.status, sent.attempts, sent.last_error),
            (Status::Sent, 4, None)
        );
        assert_eq!(world.script.times("hello"), [0, 1_000, 3_000, 7_000]);
        let keys: Vec<_> = world
            .script
            .calls()
            .into_iter()
            .map(|call| call.key)
            .collect();
        assert!(
            keys.iter().all(|key| *key == sent.idempotency_key),
            "{keys:?}"
        );
        world.check_counts().await;
    });
}

#[test]
fn a_message_without_attempts_left_is_a_dead_letter_with_the_reason() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", vec![refused(); 9]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_mins(1)).await;
        let failed = world.get(id).await;
        assert_eq!((failed.status, failed.attempts), (Status::Failed, 5));
        assert_eq!(
            failed.last_error.as_deref(),
            Some("busy; attempt 5 was the last")
        );
        assert_eq!(failed.next_at, None);
        assert_eq!(world.script.times("hello").len(), 5);
        assert_eq!(world.events(id).await.last().unwrap(), "failed");
        assert_eq!(world.counts().await.failed, 1);
        world.check_counts().await;
    });
}

#[test]
fn what_can_never_succeed_is_a_dead_letter_at_once() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", [gone()]);
        let id = world.enqueue(note("bob", "hello")).await;
        let failed = world.until_status(id, Status::Failed).await;
        assert_eq!(
            (failed.attempts, failed.last_error.as_deref()),
            (1, Some("gone"))
        );
    });
}

#[test]
fn a_message_may_have_its_own_schedule() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", vec![refused(); 9]);
        let waits = [Duration::from_secs(3), Duration::ZERO];
        let id = world.enqueue(note("bob", "hello").schedule(&waits)).await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.status(id).await, Status::Failed);
        assert_eq!(world.script.times("hello"), [0, 3_000, 3_000]);
    });
}

#[test]
fn waits_double_up_to_their_longest_and_are_up_to_a_quarter_longer() {
    run(async {
        let world = World::new(
            plain()
                .retry(RetryPolicy::Exponential {
                    base: Duration::from_secs(4),
                    max: Duration::from_secs(10),
                    max_attempts: 5,
                })
                .jitter(true)
                .breaker(abide::outbox::Breaker::default().failures(0)),
        );
        for number in 0..20 {
            let text = format!("note {number}");
            world.script.say(&text, vec![refused(); 9]);
            world.enqueue(note("bob", &text)).await;
        }
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(world.counts().await.failed, 20);
        let mut first = std::collections::BTreeSet::new();
        for number in 0..20 {
            let times = world.script.times(&format!("note {number}"));
            let waits: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!(waits.len(), 4);
            for (wait, plain) in waits.iter().zip([4_000, 8_000, 10_000, 10_000]) {
                // The clock of the test moves in steps of half a second.
                assert!((plain..=plain * 5 / 4 + 500).contains(wait), "{waits:?}");
            }
            first.insert(waits[1]);
        }
        assert!(first.len() > 2, "they part: {first:?}");
    });
}

#[test]
fn policy_waits_have_jitter_and_a_message_s_own_waits_are_exact() {
    run(async {
        let ten = [Duration::from_secs(10)];
        let world = World::new(
            plain()
                .retry(RetryPolicy::Schedule(ten.to_vec()))
                .jitter(true),
        );
        let mut waits = std::collections::BTreeSet::new();
        for number in 0..9 {
            let text = format!("note {number}");
            world.script.say(&text, [refused()]);
            let own = number == 8;
            let message = note(&text, &text);
            let message = if own { message.schedule(&ten) } else { message };
            let id = world.enqueue(message).await;
            let again = world.until(id, |record| {
                record.attempts == 1 && record.next_at.is_some()
            });
            let wait = again.await.next_at.unwrap() - START;
            assert!((10_000..=11_000).contains(&wait), "{wait}");
            assert!(!own || wait == 10_000, "{wait}");
            waits.insert(wait);
        }
        assert!(waits.len() > 3, "they part: {waits:?}");
    });
}

#[test]
fn retry_after_holds_back_that_destination_only() {
    run(async {
        let world = World::new(plain());
        let asked = Failure::throttled("slow down", Some(Duration::from_secs(5)));
        world.script.say("first", [submit(asked)]);
        let first = world.enqueue(note("bob", "first")).await;
        world
            .until(first, |record| record.last_error.is_some())
            .await;
        world.enqueue(note("bob", "second")).await;
        world.enqueue(note("eve", "third")).await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.script.times("first"), [0, 5_000]);
        // After the first has shown that the destination takes messages again.
        assert_eq!(world.script.times("second"), [5_000]);
        assert_eq!(world.script.times("third"), [0]);
        assert_eq!(world.counts().await.sent, 3);
    });
}

#[test]
fn a_lost_answer_is_unknown_and_tried_again_with_the_same_key() {
    run(async {
        let world = World::new(plain());
        world.script.say(
            "hello",
            [submit(Failure::temporary("connection reset")), refused()],
        );
        let id = world.enqueue(note("bob", "hello")).await;
        let lost = world.until(id, |record| record.last_error.is_some()).await;
        assert!(lost.unknown);
        assert_eq!(world.events(id).await, ["queued", "sending", "unknown"]);
        world.pass(Duration::from_secs(1)).await;
        // A later refusal does not tell how the first attempt ended.
        assert!(world.get(id).await.unknown);
        world.pass(Duration::from_secs(5)).await;
        let sent = world.get(id).await;
        assert_eq!((sent.status, sent.unknown), (Status::Sent, false));
        let calls = world.script.calls();
        assert!(calls.iter().all(|call| call.key == sent.idempotency_key));
        let unknown: Vec<bool> = calls.iter().map(|call| call.unknown).collect();
        assert_eq!(unknown, [false, true, true]);
    });
}

#[test]
fn what_this_node_was_too_busy_to_send_was_no_attempt() {
    run(async {
        let world = World::new(plain());
        world
            .script
            .say("hello", vec![submit(Failure::not_sent("busy here")); 5]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_mins(1)).await;
        let sent = world.get(id).await;
        assert_eq!((sent.status, sent.attempts), (Status::Sent, 1));
        assert_eq!(world.script.times("hello").len(), 6);
        let destinations = world.sender().destinations().await.unwrap();
        assert_eq!((destinations[0].failures, destinations[0].opened), (0, 0));
    });
}

#[test]
fn no_attempt_begins_after_the_deadline() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", vec![refused(); 9]);
        let id = world
            .enqueue(note("bob", "hello").deadline(START + 5_000))
            .await;
        world.pass(Duration::from_secs(10)).await;
        let failed = world.get(id).await;
        assert_eq!(failed.status, Status::Failed);
        assert_eq!(
            failed.last_error.as_deref(),
            Some("the deadline passed after 3 attempts; the last error: busy")
        );
        assert_eq!(world.script.times("hello"), [0, 1_000, 3_000]);
        assert_eq!(failed.finished_at, Some(START + 5_000));
        world.check_counts().await;
    });
}

#[test]
fn the_schedule_of_webhooks_is_the_fields() {
    let RetryPolicy::Schedule(waits) = RetryPolicy::webhooks() else {
        panic!("it is a schedule");
    };
    let seconds: Vec<u64> = waits.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000]);
}

#[test]
fn what_a_receiver_remembers_as_failed_is_sent_under_another_key() {
    run(async {
        let world = World::new(plain());
        let remembered = Failure::refused("not now").remembered();
        world.script.say("hello", [submit(remembered), refused()]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        let keys = world.script.calls().into_iter().map(|call| call.key);
        let keys: Vec<String> = keys.collect();
        assert_ne!(keys[0], keys[1]);
        assert_eq!(keys[1], keys[2], "what is not remembered has the same");
    });
}
