//! What a queue accepts, and what it refuses.

use std::{collections::BTreeSet, time::Duration};

use abide::limits::queue as limits;
use abide::queue::{Queue, QueueError, QueueMessage};

use crate::queue::support::{World, message, plain, run, words, words_with};

/// With a queue of four shards.
fn sharded() -> World {
    World::new(words_with(plain().shards(4)))
}

#[test]
fn a_message_is_consumed_once_and_leaves_nothing_behind() {
    run(async {
        let world = World::new(words);
        let sent = world.queue("words").send(message("a")).await.unwrap();
        assert!(!sent.duplicate);
        world.until_consumed(1).await;
        assert_eq!(world.script.bodies(), ["a"]);
        assert_eq!(world.script.seen()[0].ids, [sent.id.to_string()]);
        world.check_empty().await;
    });
}

#[test]
fn a_message_with_a_known_dedup_key_is_taken_once() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        let first = queue.send(message("a").dedup_key("k")).await.unwrap();
        world.until_consumed(1).await;
        let again = queue.send(message("a").dedup_key("k")).await.unwrap();
        assert_eq!((again.id, again.duplicate), (first.id, true));
        let world = world.killed();
        let queue = world.queue("words");
        let again = queue.send(message("a").dedup_key("k")).await.unwrap();
        assert_eq!((again.id, again.duplicate), (first.id, true));
        let other = queue.send(message("b").dedup_key("k")).await;
        assert!(matches!(other, Err(QueueError::KeyReused { id }) if id == first.id));
        assert_eq!(world.script.bodies(), ["a"]);
    });
}

#[test]
fn a_dedup_key_is_forgotten_when_its_time_is_over() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        queue.send(message("a").dedup_key("k")).await.unwrap();
        world.until_consumed(1).await;
        world
            .clock
            .advance(Duration::from_hours(24) + Duration::from_secs(1));
        queue.send(message("other")).await.unwrap();
        let again = queue.send(message("b").dedup_key("k")).await.unwrap();
        assert!(!again.duplicate);
        world.until_consumed(3).await;
    });
}

#[test]
fn messages_with_one_key_go_to_one_shard_and_others_to_all() {
    run(async {
        let world = sharded();
        let queue = world.queue("words");
        let mut shards = BTreeSet::new();
        for _ in 0..8 {
            let id = queue.send(message("a")).await.unwrap().id.to_string();
            shards.insert(id.split_once('-').unwrap().0.to_owned());
        }
        assert_eq!(shards.len(), 4);
        let mut shards = BTreeSet::new();
        for _ in 0..8 {
            let id = queue
                .send(message("a").key("ada"))
                .await
                .unwrap()
                .id
                .to_string();
            shards.insert(id.split_once('-').unwrap().0.to_owned());
        }
        assert_eq!(shards.len(), 1);
        world.until_consumed(16).await;
    });
}

#[test]
fn a_batch_is_sent_in_its_order_over_all_shards() {
    run(async {
        let world = sharded();
        let queue = world.queue("words");
        let messages = (0..40).map(|number| message("a").key(format!("key {number}")));
        let sent = queue.send_batch(messages.clone().collect()).await.unwrap();
        for (message, sent) in messages.zip(&sent) {
            let alone = queue.send(message).await.unwrap();
            let shard = |id: String| id.split_once('-').unwrap().0.to_owned();
            assert_eq!(shard(alone.id.to_string()), shard(sent.id.to_string()));
        }
        world.until_consumed(80).await;
    });
}

#[test]
fn a_full_shard_refuses_and_takes_again_when_there_is_room() {
    run(async {
        let world = World::new(words_with(plain().max_messages(3)));
        let queue = world.queue("words");
        queue.pause().await.unwrap();
        world.send(&["a", "b"]).await;
        let both = vec![message("c"), message("d")];
        let refused = queue.send_batch(both).await.unwrap_err();
        assert!(
            matches!(refused, QueueError::Full { messages: 3, .. }),
            "{refused}"
        );
        assert!(refused.retryable());
        assert!(abide::Error::from(refused).overloaded());
        assert_eq!(world.counts().await.messages, 2, "all or none");
        queue.resume().await.unwrap();
        world.until_consumed(2).await;
        world.send(&["c", "d"]).await;
        world.until_consumed(4).await;
    });
}

#[test]
fn bytes_are_bounded_too() {
    run(async {
        let world = World::new(words_with(plain().max_bytes(100)));
        let queue = world.queue("words");
        queue.pause().await.unwrap();
        world.send(&["a"]).await;
        let refused = queue.send(message(&"x".repeat(100))).await;
        assert!(matches!(refused, Err(QueueError::Full { bytes: 3, .. })));
    });
}

#[test]
fn invalid_input_is_refused_with_a_reason() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        for (bad, reason) in [
            (QueueMessage::from_json("{"), "not JSON"),
            (
                QueueMessage::new(&"x".repeat(limits::MAX_BODY_BYTES)).unwrap(),
                "bytes",
            ),
            (message("a").key(""), "key"),
            (message("a").dedup_key("x".repeat(256)), "dedup key"),
            (message("a").delay(limits::MAX_DELAY * 2), "delay"),
        ] {
            let error = queue.send(bad).await.unwrap_err();
            assert!(matches!(error, QueueError::Invalid(_)));
            assert!(error.to_string().contains(reason), "{error}");
        }
        let many = vec![message("a"); limits::MAX_SEND + 1];
        let error = queue.send_batch(many).await.unwrap_err();
        assert!(error.to_string().contains("in parts"), "{error}");
        let error = Queue::new(world.node.env(), "wards").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no queue `wards`; this program declares `words`"
        );
        world.check_empty().await;
    });
}
