//! Operations on dead letters and on queued messages.

use std::time::Duration;

use abide::outbox::{
    BulkResult, DeadLetterFilter, Failure, MessageFilter, OutboxError, OutboxMessage, Status,
};

use crate::outbox::support::{Act, World, gone, note, plain, refused, run};

async fn with_dead(texts: &[(&str, &str)]) -> World {
    let world = World::new(plain());
    for (to, text) in texts {
        world.script.say(text, [gone()]);
        world.enqueue(note(to, text)).await;
    }
    let count = i64::try_from(texts.len()).unwrap();
    world.until_counts(|counts| counts.failed == count).await;
    world
}

#[test]
fn a_redriven_dead_letter_is_sent_under_a_new_key_with_all_its_attempts() {
    run(async {
        let world = with_dead(&[("bob", "hello")]).await;
        let before = world.get(1).await;
        world.script.say("hello", [refused()]);
        let record = world.sender().redrive(1).await.unwrap();
        assert_eq!((record.status, record.attempts), (Status::Queued, 0));
        world.pass(Duration::from_secs(2)).await;
        let after = world.get(1).await;
        assert_eq!((after.status, after.attempts), (Status::Sent, 2));
        assert_ne!(after.idempotency_key, before.idempotency_key);
        let events = world.events(1).await;
        let expected = [
            "queued", "sending", "failed", "redriven", "sending", "queued", "sending", "sent",
        ];
        assert_eq!(events, expected);
        world.check_counts().await;
    });
}

#[test]
fn a_dead_letter_is_mended_and_sent() {
    run(async {
        let world = with_dead(&[("bob", "helo")]).await;
        let payload = note("eve", "hello").payload;
        let record = world.sender().edit(1, payload.clone()).await.unwrap();
        assert_eq!(
            (record.destination.as_str(), record.summary.as_str()),
            ("eve", "hello")
        );
        assert_eq!(world.sender().payload(1).await.unwrap(), Some(payload));
        let wrong = world.sender().edit(1, "{}".into()).await;
        assert!(matches!(wrong, Err(OutboxError::Invalid(_))));
        world.sender().redrive(1).await.unwrap();
        world.until_status(1, Status::Sent).await;
        assert_eq!(world.script.effects(), ["hello"]);
        assert!(world.events(1).await.contains(&"edited".to_owned()));
    });
}

#[test]
fn dead_letters_are_listed_and_redriven_by_a_filter() {
    run(async {
        let world = with_dead(&[("bob", "a"), ("eve", "b"), ("bob", "c")]).await;
        let to =
            |destination: &str| DeadLetterFilter::default().destination(destination.to_owned());
        let page = world.sender().dead_letters(to("bob")).await.unwrap();
        let ids: Vec<i64> = page.records.iter().map(|record| record.id).collect();
        assert_eq!((ids, page.next), (vec![3, 1], None));
        let kind = DeadLetterFilter::default().kind("other".to_owned());
        assert!(
            world
                .sender()
                .dead_letters(kind)
                .await
                .unwrap()
                .records
                .is_empty()
        );
        let swept = world.sender().redrive_all(to("bob")).await.unwrap();
        assert_eq!(
            swept,
            BulkResult {
                count: 2,
                more: false,
                last: Some(3)
            }
        );
        world.until_counts(|counts| counts.sent == 2).await;
        assert_eq!(world.status(2).await, Status::Failed);
        assert_eq!(world.script.last(2), ["a", "c"], "oldest first");
        world.check_counts().await;
    });
}

#[test]
fn pages_follow_each_other() {
    run(async {
        let world = World::new(plain());
        for number in 0..25 {
            let mut message: OutboxMessage = note("bob", &format!("b{number}"));
            message.not_before = Some(i64::from(number) + 1_767_225_700_000);
            world.enqueue(message).await;
        }
        let mut before = None;
        let mut seen = Vec::new();
        loop {
            let filter = MessageFilter::default()
                .status(Status::Queued)
                .before(before)
                .limit(10);
            let page = world.sender().list(filter).await.unwrap();
            seen.extend(page.records.iter().map(|record| record.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, (1..=25).rev().collect::<Vec<i64>>());
        let all = world.sender().list(MessageFilter::default()).await.unwrap();
        assert_eq!(all.records.len(), 25);
    });
}

#[test]
fn an_operation_needs_a_message_in_the_right_status() {
    run(async {
        let world = with_dead(&[("bob", "dead")]).await;
        let sent = world.enqueue(note("bob", "sent")).await;
        world.until_status(sent, Status::Sent).await;
        world.script.say("stuck", [Act::Hang]);
        let stuck = world.enqueue(note("bob", "stuck")).await;
        world.until_status(stuck, Status::Sending).await;
        let sender = world.sender();
        for id in [1, sent] {
            let refused = sender.cancel(id).await.unwrap_err();
            assert!(matches!(refused, OutboxError::Conflict { .. }), "{refused}");
        }
        for id in [sent, stuck] {
            assert!(sender.redrive(id).await.is_err());
            assert!(sender.discard(id).await.is_err());
            assert!(sender.edit(id, "{}".into()).await.is_err());
        }
        let text = sender.redrive(sent).await.unwrap_err().to_string();
        assert_eq!(
            text,
            "message 2 is sent: only one that is failed can be redriven"
        );
        assert!(matches!(
            sender.cancel(99).await,
            Err(OutboxError::NotFound { id: 99 })
        ));
        let discarded = sender.discard(1).await.unwrap();
        assert_eq!(discarded.status, Status::Discarded);
        assert_eq!(world.events(1).await.last().unwrap(), "discarded");
        world.check_counts().await;
    });
}

#[test]
fn of_many_dead_letters_the_oldest_go_first() {
    run(async {
        let world = with_dead(&[("bob", "a"), ("bob", "b"), ("bob", "c")]).await;
        let two = DeadLetterFilter::default().limit(2);
        let swept = world.sender().redrive_all(two).await.unwrap();
        assert_eq!((swept.count, swept.more), (2, true));
        world.until_counts(|counts| counts.sent == 2).await;
        assert_eq!(world.script.last(2), ["a", "b"]);
        assert_eq!(world.status(3).await, Status::Failed);
    });
}

#[test]
fn an_edit_without_changes_keeps_a_key_that_may_have_been_used() {
    run(async {
        let world = World::new(plain());
        let failure = Failure::permanent("gone").after_effect();
        world.script.say("a", [Act::Submit(Err(failure))]);
        let id = world.enqueue(note("bob", "a")).await;
        let before = world.until_status(id, Status::Failed).await;
        assert!(before.unknown);
        let payload = world.sender().payload(id).await.unwrap().unwrap();
        // However it is written.
        let payload = payload.replace(':', " : ");
        world.sender().edit(id, payload).await.unwrap();
        world.sender().redrive(id).await.unwrap();
        let after = world.until_status(id, Status::Sent).await;
        assert_eq!(before.idempotency_key, after.idempotency_key);
    });
}

#[test]
fn destinations_without_messages_are_forgotten_even_if_failing() {
    run(async {
        let world = World::new(plain().keep_finished(Duration::from_mins(1)));
        for number in 0..9 {
            let text = format!("t{number}");
            world.script.say(&text, vec![refused(); 5]);
            world
                .enqueue(note(&format!("customer{number}"), &text))
                .await;
        }
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(world.counts().await.failed, 9);
        for id in 1..=9 {
            world.sender().discard(id).await.unwrap();
        }
        world.pass(Duration::from_mins(10)).await;
        let left = world.sender().destinations().await.unwrap();
        assert_eq!(left, []);
    });
}
