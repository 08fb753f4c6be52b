//! Batches, retries and times.

use std::time::Duration;

use abide::queue::{self, Batch, Queues};

use crate::queue::support::{Act, Script, World, message, plain, run, words, words_with};

const SECOND: Duration = Duration::from_secs(1);

/// In milliseconds.
const YEAR: i64 = 365 * 24 * 3_600_000;

#[test]
fn what_arrives_while_batches_are_on_their_way_goes_together() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        queue.pause().await.unwrap();
        for body in ["a", "b", "c"] {
            world.send(&[body]).await;
        }
        queue.resume().await.unwrap();
        world.until_consumed(3).await;
        assert_eq!(world.script.seen().len(), 1);
        assert_eq!(world.script.bodies(), ["a", "b", "c"]);
    });
}

#[test]
fn a_batch_waits_for_others_and_not_longer_than_it_may() {
    run(async {
        let world = World::new(words_with(
            plain().max_batch(3).max_wait(Duration::from_secs(20)),
        ));
        world.send(&["a", "b"]).await;
        world.clock.advance(Duration::from_secs(19));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(world.script.seen().is_empty());
        world.send(&["c"]).await;
        world.until_consumed(3).await;
        world.send(&["d"]).await;
        world
            .pass_until("a lone message", async || world.script.bodies().len() == 4)
            .await;
        let waited = world.script.times("d")[0] - 19_000;
        assert!((20_000..50_000).contains(&waited), "{waited}");
    });
}

#[test]
fn a_batch_has_no_more_messages_and_bytes_than_it_may() {
    run(async {
        let world = World::new(words_with(
            plain().max_batch(4).max_batch_bytes(30).concurrency(1),
        ));
        let queue = world.queue("words");
        queue.pause().await.unwrap();
        let long = "x".repeat(50);
        let half = "y".repeat(13);
        world
            .send(&["a", "b", "c", "d", "e", &long, &half, &half, "f"])
            .await;
        queue.resume().await.unwrap();
        world.until_consumed(9).await;
        let batches: Vec<usize> = world
            .script
            .seen()
            .iter()
            .map(|seen| seen.bodies.len())
            .collect();
        assert_eq!(batches, [4, 1, 1, 2, 1]);
        assert_eq!(world.script.most(), 1);
    });
}

#[test]
fn several_batches_are_on_their_way_at_once_and_no_more_than_may() {
    run(async {
        let world = World::new(words_with(plain().max_batch(1).concurrency(3)));
        world.send(&["a", "b", "c", "d", "e", "f", "g"]).await;
        world.until_consumed(7).await;
        assert_eq!(world.script.most(), 3);
    });
}

#[test]
fn a_delayed_message_arrives_on_time_without_any_call() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        queue
            .send(message("later").delay(Duration::from_mins(1)))
            .await
            .unwrap();
        queue.send(message("now")).await.unwrap();
        world
            .pass_until("both", async || world.script.bodies().len() == 2)
            .await;
        assert_eq!(world.script.bodies(), ["now", "later"]);
        let at = world.script.times("later")[0];
        assert!((60_000..90_000).contains(&at), "{at}");
    });
}

#[test]
fn one_message_is_tried_again_alone_and_at_its_time() {
    run(async {
        let world = World::new(words);
        world.script.say(
            "b",
            [Act::Retry(None), Act::Retry(Some(Duration::from_mins(1)))],
        );
        world.send(&["a", "b", "c"]).await;
        world
            .pass_until("three attempts", async || {
                world.script.times("b").len() == 3
            })
            .await;
        world.until_consumed(3).await;
        let seen = world.script.seen();
        assert_eq!(seen[1].bodies, ["b"]);
        assert_eq!((&seen[1].attempts, &seen[2].attempts), (&vec![2], &vec![3]));
        let times = world.script.times("b");
        assert!((1_000..9_000).contains(&(times[1] - times[0])), "{times:?}");
        assert!(
            (60_000..90_000).contains(&(times[2] - times[1])),
            "{times:?}"
        );
    });
}

#[test]
fn a_batch_that_fails_is_tried_again_but_for_what_was_acknowledged() {
    run(async {
        let world = World::new(words);
        world.script.say("a", [Act::Ack]);
        world.script.say("b", [Act::Fail]);
        world.send(&["a", "b", "c"]).await;
        world.pass_until_decided().await;
        assert_eq!(world.script.bodies(), ["a", "b", "c", "b", "c"]);
    });
}

#[test]
fn a_consumer_that_panics_has_its_batch_tried_again() {
    run(async {
        let world = World::new(words);
        world.script.say("a", [Act::Panic]);
        world.send(&["a"]).await;
        world
            .pass_until("it panics", async || !world.script.bodies().is_empty())
            .await;
        world
            .until("its error is kept", async || {
                world.counts().await.last_error.is_some()
            })
            .await;
        let error = world.counts().await.last_error.unwrap();
        assert!(
            error.starts_with("the consumer panicked; the log has its message, as panic "),
            "{error}"
        );
        assert!(!error.contains("script"), "{error}");
        world.pass_until_consumed(1).await;
        assert_eq!(world.script.bodies(), ["a", "a"]);
    });
}

#[test]
fn a_consumer_that_hangs_loses_its_batch_and_keeps_what_it_has_marked() {
    run(async {
        let world = World::new(words);
        world.script.say("a", [Act::Ack]);
        world.script.say("b", [Act::Hang]);
        world.send(&["a", "b"]).await;
        world
            .pass_until("it is over", async || world.script.times("b").len() == 2)
            .await;
        world.until_consumed(2).await;
        assert_eq!(world.script.bodies(), ["a", "b", "b"]);
        let times = world.script.times("b");
        assert!(
            (30_000..60_000).contains(&(times[1] - times[0])),
            "{times:?}"
        );
    });
}

#[test]
fn a_consumer_failing_whole_batches_is_paused_without_using_attempts() {
    run(async {
        let world = World::new(words_with(plain().max_batch(1)));
        for body in ["a", "b", "c", "d", "e", "f"] {
            world.script.say(body, [Act::Fail]);
        }
        world.send(&["a", "b", "c", "d", "e", "f"]).await;
        world
            .until("the first four", async || world.script.seen().len() == 4)
            .await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(world.script.seen().len(), 4, "it rests");
        world.pass_until_consumed(6).await;
        let seen = world.script.seen();
        assert!(seen[4].at - seen[3].at >= 500, "{seen:?}");
    });
}

#[test]
fn a_paused_queue_consumes_nothing_until_resumed_even_after_a_kill() {
    run(async {
        let world = World::new(words);
        world.queue("words").pause().await.unwrap();
        world.send(&["a"]).await;
        let world = world.killed();
        for _ in 0..20 {
            world.clock.advance(SECOND);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(world.counts().await.messages, 1);
        assert!(world.script.seen().is_empty());
        world.queue("words").resume().await.unwrap();
        world.until_consumed(1).await;
    });
}

#[test]
fn a_wall_clock_that_was_set_back_does_not_make_messages_wait_longer() {
    run(async {
        let world = World::new(words);
        world.send(&["first"]).await;
        world.until_consumed(1).await;
        let queue = world.queue("words");
        let later = message("later").delay(Duration::from_mins(1));
        queue.send(later).await.unwrap();
        world.script.say("again", [Act::Retry(None)]);
        world.send(&["again"]).await;
        world
            .until("the first attempt", async || {
                world.script.times("again").len() == 1
            })
            .await;
        world.clock.set_wall(-YEAR);
        // The shard notices when a message is sent, or its alarm goes off.
        world.send(&["now"]).await;
        world.pass_until_consumed(4).await;
        let at = world.script.times("later")[0];
        assert!((60_000..90_000).contains(&at), "{at}");
        assert!(world.script.times("again")[1] < 40_000);
    });
}

#[test]
fn a_delay_that_begins_after_a_step_back_is_not_shortened() {
    run(async {
        let world = World::new(words);
        world.send(&["first"]).await;
        world.until_consumed(1).await;
        world.clock.set_wall(-YEAR);
        let later = message("later").delay(Duration::from_mins(1));
        world.queue("words").send(later).await.unwrap();
        world.pass_until_consumed(2).await;
        let at = world.script.times("later")[0];
        assert!((60_000..90_000).contains(&at), "{at}");
    });
}

#[test]
fn an_idle_shard_delivers_on_time_although_the_clock_was_set_back() {
    run(async {
        let world = World::new(words);
        world.send(&["first"]).await;
        world.until_consumed(1).await;
        let later = message("later").delay(Duration::from_mins(1));
        world.queue("words").send(later).await.unwrap();
        world.clock.set_wall(-YEAR);
        world.pass_until_consumed(2).await;
        let at = world.script.times("later")[0];
        assert!((60_000..90_000).contains(&at), "{at}");
    });
}

#[test]
fn a_consumers_rest_ends_although_the_wall_clock_was_set_back() {
    run(async {
        let world = World::new(words);
        world.script.say("bad", vec![Act::Fail; 3]);
        world.send(&["bad"]).await;
        world
            .pass_until("it rests", async || world.script.seen().len() == 3)
            .await;
        world.clock.set_wall(-YEAR);
        world.send(&["good"]).await;
        world.pass_until_consumed(2).await;
    });
}

#[test]
fn a_function_can_consume() {
    run(async {
        let make = |script: &Script, _| {
            let script = script.clone();
            let add = queue::function(async move |batch: &Batch<(String, u32)>| {
                for message in batch.messages() {
                    script.answer(200, &message.body.0.repeat(message.body.1 as usize));
                }
                Ok(())
            });
            Queues::new().with("words", plain(), add)
        };
        let world = World::new(make);
        let body = queue::QueueMessage::new(&("ab", 3)).unwrap();
        world.queue("words").send(body).await.unwrap();
        world.until_consumed(1).await;
    });
}

#[test]
fn nothing_is_delivered_after_a_pause_has_been_answered() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        // The pause comes at any moment of a delivery.
        for moment in 0..60 {
            world.send(&["a"]).await;
            for _ in 0..moment {
                tokio::task::yield_now().await;
            }
            queue.pause().await.unwrap();
            let seen = world.script.seen().len();
            tokio::time::sleep(Duration::from_millis(3)).await;
            assert_eq!(world.script.seen().len(), seen, "moment {moment}");
            queue.resume().await.unwrap();
            world.until_consumed(moment + 1).await;
        }
        assert!(world.script.seen().iter().all(|seen| seen.attempts == [1]));
    });
}
