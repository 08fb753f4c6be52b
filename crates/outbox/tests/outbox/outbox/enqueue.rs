//! Enqueuing: in the object's transaction, checked, once for each dedup key.

use std::time::Duration;

use abide::clock::TestClock;
use abide::outbox::{Breaker, Counts, OutboxError, OutboxMessage, Pace, Priority, Status, limits};
use futures_util::future::join_all;

use crate::outbox::support::{Act, World, note, plain, refused, run};

const START: i64 = TestClock::START_UNIX_MILLIS.cast_signed();

#[test]
fn a_message_is_delivered_and_its_history_says_so() {
    run(async {
        let world = World::new(plain());
        let id = world.enqueue(note("bob", "hello")).await;
        let sent = world.until_status(id, Status::Sent).await;
        assert_eq!((sent.attempts, sent.destination.as_str()), (1, "bob"));
        assert_eq!((sent.summary.as_str(), sent.next_at), ("hello", None));
        assert_eq!((sent.created_at, sent.finished_at), (START, Some(START)));
        assert_eq!(world.events(id).await, ["queued", "sending", "sent"]);
        assert_eq!(world.script.effects(), ["hello"]);
        assert_eq!(world.script.calls()[0].key, sent.idempotency_key);
        world.check_counts().await;
    });
}

#[test]
fn what_is_not_committed_was_not_enqueued() {
    run(async {
        let world = World::new(plain());
        let lost = world.sender().enqueue_and_panic(note("bob", "lost")).await;
        assert!(lost.is_err());
        let undone = world.sender().enqueue_and_roll_back(note("bob", "undone"));
        undone.await.unwrap();
        let failed = world.sender().enqueue_and_fail(note("bob", "failed"));
        assert!(failed.await.is_err());
        let id = world.enqueue(note("bob", "kept")).await;
        world.until_status(id, Status::Sent).await;
        assert_eq!(world.script.effects(), ["kept"]);
        assert_eq!(world.counts().await.sent, 1);
        world.check_counts().await;
    });
}

#[test]
fn a_message_is_not_sent_before_its_time() {
    run(async {
        let world = World::new(plain());
        let later = note("bob", "later").not_before(START + 60_000);
        let id = world.enqueue(later).await;
        world.pass(Duration::from_secs(59)).await;
        assert_eq!(world.status(id).await, Status::Queued);
        assert_eq!(world.get(id).await.next_at, Some(START + 60_000));
        world.pass(Duration::from_secs(1)).await;
        world.until_status(id, Status::Sent).await;
        assert_eq!(world.script.times("later"), [60_000]);
    });
}

#[test]
fn a_dedup_key_adds_one_message_and_refuses_a_different_one() {
    run(async {
        let world = World::new(plain());
        let keyed = note("bob", "hello").dedup_key("k");
        let first = world.sender().enqueue(keyed.clone()).await.unwrap();
        assert!(!first.duplicate);
        world.until_status(first.id, Status::Sent).await;
        let second = world.sender().enqueue(keyed).await.unwrap();
        assert!(second.duplicate && second.id == first.id);
        let other = note("bob", "good bye").dedup_key("k");
        let refused = world.sender().enqueue(other).await.unwrap_err();
        assert!(matches!(refused, OutboxError::KeyReused { id } if id == first.id));
        assert_eq!(world.script.effects(), ["hello"]);
    });
}

#[test]
fn high_priority_goes_first_and_low_last() {
    run(async {
        let world = World::new(plain().pace(abide::outbox::Pace::unlimited(1)));
        let at = START + 1_000;
        let all = [
            note("bob", "low").priority(Priority::Low),
            note("bob", "normal"),
            note("bob", "high").priority(Priority::High),
        ];
        world
            .enqueue_all(all.map(|message| message.not_before(at)))
            .await;
        world.pass(Duration::from_secs(1)).await;
        world.until_counts(|counts| counts.sent == 3).await;
        assert_eq!(world.script.effects(), ["high", "normal", "low"]);
    });
}

#[test]
fn invalid_input_is_refused_with_what_is_expected() {
    run(async {
        let world = World::new(plain().max_payload_bytes(1_000));
        let cases: Vec<(OutboxMessage, &str)> = vec![
            (
                OutboxMessage::from_json("letter", "{}"),
                "no handler for kind `letter`; there is one for `http`, `note`, `other`",
            ),
            (
                OutboxMessage::from_json("note", "{}"),
                "the payload does not match its kind: missing field `to`",
            ),
            (
                OutboxMessage::from_json("note", "{"),
                "the payload does not match its kind: EOF",
            ),
            (note("bob", ""), "a note has a text"),
            (note("bob", &"x".repeat(1_000)), "at most 1000 are accepted"),
            (note(&"x".repeat(400), "x"), "the destination has 400 bytes"),
            (note("bob", "x").dedup_key(""), "the dedup key has 0 bytes"),
            (
                note("bob", "x").ordering_key("k".repeat(256)),
                "the ordering key has 256 bytes",
            ),
            (note("bob", "x").deadline(START), "the deadline has passed"),
            (
                note("bob", "x").deadline(START + 5).not_before(START + 5),
                "not after not_before",
            ),
            (
                note("bob", "x").not_before(limits::MAX_TIME + 1),
                "later than the year 9999",
            ),
            (
                note("bob", "x").schedule(&[Duration::ZERO; 101]),
                "at most 100 waits",
            ),
        ];
        for (message, expected) in cases {
            let refused = world.sender().enqueue(message).await.unwrap_err();
            assert!(matches!(refused, OutboxError::Invalid(_)), "{refused:?}");
            let text = refused.to_string();
            assert!(
                text.contains(expected),
                "`{text}` does not say `{expected}`"
            );
        }
        assert_eq!(world.counts().await, Counts::default());
        world.check_counts().await;
    });
}

#[test]
fn a_full_outbox_refuses_more_until_some_were_sent() {
    run(async {
        let world = World::new(plain().max_queued(2));
        let later = |text| note("bob", text).not_before(START + 1_000);
        world.enqueue(later("one")).await;
        world.enqueue(later("two")).await;
        let refused = world.sender().enqueue(later("three")).await;
        assert!(matches!(refused, Err(OutboxError::Full { max: 2 })));
        world.pass(Duration::from_secs(1)).await;
        world.until_counts(|counts| counts.sent == 2).await;
        world.enqueue(later("three")).await;
        world.check_counts().await;
    });
}

#[test]
fn an_outbox_with_nothing_to_do_sets_no_alarm_and_leaves_memory() {
    run(async {
        let world = World::new(plain());
        let id = world.enqueue(note("bob", "hello")).await;
        world.until_status(id, Status::Sent).await;
        world.rest().await;
        // The next thing to do is to forget the message.
        let alarm = world.sender().alarm_time().await.unwrap();
        let week_and_hour = (7 * 24 + 1) * 3_600_000;
        assert_eq!(alarm, Some(world.now() + week_and_hour));
        world.clock.advance(Duration::from_secs(10));
        while world.node.stats().resident > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn no_more_are_queued_than_allowed_but_for_what_comes_back_from_its_way() {
    run(async {
        let world = World::new(
            plain()
                .pace(Pace::unlimited(4))
                .max_queued(10)
                .breaker(Breaker::default().failures(0)),
        );
        world.enqueue(note("bob", "first")).await;
        world.until_counts(|counts| counts.sent == 1).await;
        let texts: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        for text in &texts {
            world.script.say(text, [Act::Later(refused().into())]);
        }
        let sender = world.sender();
        let enqueue = |text: &String| sender.enqueue(note("bob", text));
        let answers = join_all(texts.iter().map(enqueue)).await;
        let mut taken = 0;
        for answer in answers {
            match answer {
                Ok(_) => taken += 1,
                Err(OutboxError::Full { max: 10 }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert!((10..=14).contains(&taken), "{taken}");
        world.rest().await;
        // New messages find room for those that have left.
        while world.sender().enqueue(note("bob", "more")).await.is_ok() {
            taken += 1;
        }
        let counts = world.counts().await;
        assert_eq!((counts.queued, counts.sending, taken), (10, 4, 14));

        world.script.now();
        let counts = world.until_counts(|counts| counts.sending == 0).await;
        assert!((10..=14).contains(&counts.queued), "{counts:?}");
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.counts().await.sent, 1 + 14);
        world.check_counts().await;
    });
}

#[test]
fn what_was_sent_is_forgotten_after_its_time_and_its_dedup_key_with_it() {
    run(async {
        let world = World::new(plain().keep_finished(Duration::from_mins(1)));
        let keyed = note("bob", "hello").dedup_key("k");
        let id = world.enqueue(keyed.clone()).await;
        world.until_status(id, Status::Sent).await;
        world.pass(Duration::from_secs(59)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        world.pass(Duration::from_secs(10)).await;
        world.until_counts(|counts| counts.sent == 0).await;
        assert_eq!(world.sender().get(id).await.unwrap(), None);
        assert!(world.events(id).await.is_empty());
        let again = world.sender().enqueue(keyed).await.unwrap();
        assert!(!again.duplicate && again.id > id);
        world.check_counts().await;
    });
}

#[test]
fn a_message_that_is_refused_leaves_nothing_of_what_was_written_with_it() {
    run(async {
        let world = World::new(plain().max_queued(1));
        let later = |text: &str| note("bob", text).not_before(world.now() + 60_000);
        let order = async |message| world.sender().order(message).await;
        assert_eq!(order(later("first").dedup_key("k")).await.unwrap(), 1);
        let invalid = order(later("")).await;
        assert!(matches!(invalid, Err(OutboxError::Invalid(_))));
        let reused = order(later("other").dedup_key("k")).await;
        assert!(matches!(reused, Err(OutboxError::KeyReused { .. })));
        let full = order(later("second")).await;
        assert!(matches!(full, Err(OutboxError::Full { max: 1 })));
        // Also after the object has begun anew.
        let world = world.killed();
        let orders = world.sender().orders().await.unwrap();
        assert_eq!((orders, world.counts().await.queued), (Some(1), 1));
        world.check_counts().await;
    });
}
