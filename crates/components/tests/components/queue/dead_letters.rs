//! Dead letters.

use std::time::Duration;

use abide::queue::{DeadLetters, QueueError, QueueMessage, Queues, RetryPolicy};

use crate::queue::support::{Act, Script, Scripted, World, message, plain, run, words, words_with};

#[test]
fn a_message_is_given_up_after_its_last_attempt_with_the_reason() {
    run(async {
        let world = World::new(words);
        world.script.say("a", vec![Act::Retry(None); 4]);
        world.send(&["a", "b"]).await;
        world
            .pass_until("it is dead", async || world.counts().await.dead == 1)
            .await;
        let letters = world.queue("words").dead_letters(10).await.unwrap();
        assert_eq!(letters.len(), 1);
        let letter = &letters[0];
        assert_eq!((letter.body.as_str(), letter.attempts), ("\"a\"", 4));
        assert_eq!(letter.error, "not now; attempt 4 was the last");
        assert_eq!(world.script.times("a").len(), 4);
        let counts = world.counts().await;
        assert_eq!((counts.messages, counts.consumed, counts.bytes), (0, 1, 3));
    });
}

#[test]
fn a_message_is_given_up_at_once_if_it_is_refused_or_does_not_fit() {
    run(async {
        let world = World::new(words);
        world.script.say("a", [Act::Refuse]);
        let queue = world.queue("words");
        let odd = QueueMessage::new(&17).unwrap();
        queue
            .send_batch(vec![message("a"), odd, message("b")])
            .await
            .unwrap();
        world
            .until("two are dead", async || world.counts().await.dead == 2)
            .await;
        let letters = queue.dead_letters(10).await.unwrap();
        let errors: Vec<&str> = letters.iter().map(|letter| letter.error.as_str()).collect();
        assert!(
            errors[0].starts_with("the body does not match"),
            "{errors:?}"
        );
        assert_eq!(errors[1], "never");
        assert_eq!(world.counts().await.consumed, 1);
    });
}

#[test]
fn no_message_is_given_up_for_anothers_sake() {
    run(async {
        let world = World::new(words);
        // Every batch with the bad one fails as a whole.
        world.script.say("bad", vec![Act::Fail; 10]);
        world.send(&["a", "bad", "b"]).await;
        world.pass_until_decided().await;
        let counts = world.counts().await;
        assert_eq!((counts.consumed, counts.dead), (2, 1));
        let letters = world.queue("words").dead_letters(10).await.unwrap();
        assert_eq!(letters[0].body, "\"bad\"");
    });
}

#[test]
fn dead_letters_are_redriven_and_discarded() {
    run(async {
        let world = World::new(words);
        for body in ["a", "b", "c", "d"] {
            world.script.say(body, [Act::Refuse]);
        }
        world.send(&["a", "b", "c", "d"]).await;
        world
            .until("all are dead", async || world.counts().await.dead == 4)
            .await;
        let world = world.killed();
        let queue = world.queue("words");
        let letters = queue.dead_letters(10).await.unwrap();
        let find = |body: &str| {
            let found = letters.iter().find(|letter| letter.body.contains(body));
            found.unwrap().id
        };
        queue.redrive(find("a")).await.unwrap();
        world.until_consumed(1).await;
        queue.discard(find("b")).await.unwrap();
        let gone = queue.redrive(find("b")).await;
        assert!(matches!(gone, Err(QueueError::NotFound { id }) if id == find("b")));
        world.script.say("c", [Act::Refuse]);
        assert_eq!(queue.redrive_all().await.unwrap(), 2);
        world
            .until("one died again", async || {
                let counts = world.counts().await;
                (counts.consumed, counts.dead, counts.messages) == (2, 1, 0)
            })
            .await;
        assert_eq!(queue.discard_all().await.unwrap(), 1);
        world.check_empty().await;
    });
}

#[test]
fn dead_letters_of_before_a_time_are_discarded_and_later_ones_are_kept() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        for (word, dead) in [("a", 1), ("b", 2), ("c", 3)] {
            world.script.say(word, [Act::Refuse]);
            world.send(&[word]).await;
            world
                .until("it is dead", async || world.counts().await.dead == dead)
                .await;
            world.clock.advance(Duration::from_millis(1));
        }
        let letters = queue.dead_letters(10).await.unwrap();
        let second = letters.iter().find(|letter| letter.body == "\"b\"");
        let second = second.unwrap().died_at;
        assert_eq!(queue.discard_before(second).await.unwrap(), 1);
        let kept = queue.dead_letters(10).await.unwrap();
        let kept: Vec<&str> = kept.iter().map(|letter| letter.body.as_str()).collect();
        assert_eq!(kept, ["\"c\"", "\"b\""]);
    });
}

#[test]
fn dead_letters_count_against_what_a_shard_may_hold() {
    run(async {
        let world = World::new(words_with(plain().max_messages(2)));
        world.script.say("a", [Act::Refuse]);
        world.script.say("b", [Act::Refuse]);
        world.send(&["a", "b"]).await;
        world
            .until("both are dead", async || world.counts().await.dead == 2)
            .await;
        let queue = world.queue("words");
        let refused = queue.send(message("c")).await;
        assert!(matches!(refused, Err(QueueError::Full { dead: 2, .. })));
        queue.discard_all().await.unwrap();
        queue.send(message("c")).await.unwrap();
    });
}

fn to_another(script: &Script, life: usize) -> Queues {
    let options = plain().dead_letters(DeadLetters::Queue("failed".to_owned()));
    Queues::new()
        .with("words", options, Scripted(script.clone(), life))
        .without_consumer("failed", plain().max_messages(2).shards(2))
}

#[test]
fn dead_letters_go_to_another_queue_once() {
    run(async {
        let world = World::new(to_another);
        let bodies = ["a", "b", "c", "d", "e", "f"];
        for body in bodies {
            world.script.say(body, [Act::Refuse]);
        }
        let queue = world.queue("words");
        let messages = bodies.iter().map(|body| message(body).key(*body)).collect();
        queue.send_batch(messages).await.unwrap();
        let failed = world.queue("failed");
        // It has room for fewer: the others wait where they are.
        world
            .pass_until("it is full", async || {
                failed.counts().await.unwrap().messages >= 2
            })
            .await;
        let world = world.killed();
        world
            .with(|script, life| {
                let options = plain().dead_letters(DeadLetters::Queue("failed".to_owned()));
                Queues::new()
                    .with("words", options, Scripted(script.clone(), life))
                    .with("failed", plain().shards(2), Scripted(script.clone(), life))
            })
            .all_arrive(&bodies)
            .await;
    });
}

impl World {
    async fn all_arrive(&self, bodies: &[&str]) {
        self.pass_until("all arrive", async || {
            let consumed = self.queue("failed").counts().await.unwrap().consumed;
            consumed == i64::try_from(bodies.len()).unwrap()
        })
        .await;
        self.pass_until("none is left", async || self.counts().await.dead == 0)
            .await;
        let seen = self.script.seen().into_iter();
        let mut arrived: Vec<String> = seen
            .filter(|seen| seen.queue == "failed")
            .flat_map(|seen| seen.bodies)
            .collect();
        arrived.sort();
        assert_eq!(arrived, bodies);
        self.check_empty().await;
    }
}

#[test]
fn a_queue_whose_dead_letters_go_nowhere_says_so() {
    run(async {
        let world = World::new(words_with(
            plain().dead_letters(DeadLetters::Queue("words".to_owned())),
        ));
        let error = abide::queue::Queue::new(world.node.env(), "words").unwrap_err();
        assert!(error.to_string().contains("not another queue"), "{error}");
    });
}

#[test]
fn a_ring_of_dead_letter_queues_is_refused() {
    run(async {
        let make = |script: &Script, life: usize| {
            let to = |other: &str| plain().dead_letters(DeadLetters::Queue(other.to_owned()));
            Queues::new()
                .with("words", to("b"), Scripted(script.clone(), life))
                .with("b", to("c"), Scripted(script.clone(), life))
                .with("c", to("b"), Scripted(script.clone(), life))
        };
        let world = World::new(make);
        for name in ["words", "b", "c"] {
            let error = abide::queue::Queue::new(world.node.env(), name).unwrap_err();
            assert!(error.to_string().contains("in a ring"), "{name}: {error}");
        }
    });
}

#[test]
fn a_single_attempt_is_made_alone() {
    run(async {
        let world = World::new(words_with(plain().retry(RetryPolicy::Schedule(vec![]))));
        world.script.say("bad", [Act::Fail]);
        world.send(&["a", "b", "bad", "c", "d"]).await;
        world.pass_until_decided().await;
        let counts = world.counts().await;
        assert_eq!((counts.consumed, counts.dead), (4, 1));
    });
}
