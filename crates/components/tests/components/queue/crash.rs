//! Kills and power failures at any point of a delivery.

use std::{collections::BTreeSet, time::Duration};

use abide::queue::{QueueMessage, QueueOptions, Queues};
use abide_harness::{Random, setting};

use crate::queue::restores::{Restores, SHARDS, Senders};
use crate::queue::support::{Act, World, message, plain, run, words, words_with};

#[test]
fn a_queue_continues_after_a_kill_at_any_point_without_any_call() {
    run(async {
        // Killed before a batch, while one is on its way, while one waits for its next time, while one is delayed.
        for point in 0..4 {
            let world = World::new(words);
            match point {
                1 => world.script.say("a", [Act::Hang]),
                2 => world.script.say("a", [Act::Fail]),
                _ => {}
            }
            let delay = if point == 3 { 30 } else { 0 };
            let sent = message("a").delay(Duration::from_secs(delay));
            world.queue("words").send(sent).await.unwrap();
            let on_its_way = point == 1 || point == 2;
            if on_its_way {
                world
                    .until("it is seen", async || world.script.seen().len() == 1)
                    .await;
            }
            // Where nothing holds it up it may be seen before the kill.
            let before = usize::from(on_its_way);
            let world = world.killed();
            world
                .pass_until("an instance continues", async || {
                    world.script.seen().len() > before
                })
                .await;
            // What was seen before the kill is due again when its consumer's time is over.
            world.pass_until_consumed(1).await;
            world.check_empty().await;
        }
    });
}

#[test]
fn a_message_is_not_delivered_before_its_attempt_is_on_disk() {
    run(async {
        let world = World::new(words);
        world.script.say("a", vec![Act::Fail]);
        world.send(&["a"]).await;
        world
            .until("an attempt", async || world.script.seen().len() == 1)
            .await;
        world.node.settle().await.unwrap();
        world.disk.hold_syncs();
        world.clock.advance(Duration::from_hours(1));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let seen = world.script.seen().len();
        // Before it may fail: a node does not end while its disk stands still.
        world.disk.release_syncs();
        assert_eq!(seen, 1);
        world.until_consumed(1).await;
    });
}

#[test]
fn a_message_whose_consumer_ends_the_process_each_time_is_given_up() {
    run(async {
        let mut world = World::new(words);
        world.script.say("a", vec![Act::Hang; 10]);
        world.send(&["a"]).await;
        for attempt in 1..=4 {
            world
                .pass_until("an attempt", async || world.script.seen().len() == attempt)
                .await;
            world = world.killed();
        }
        world
            .pass_until("it is dead", async || world.counts().await.dead == 1)
            .await;
        assert_eq!(world.script.seen().len(), 4);
        let letters = world.queue("words").dead_letters(1).await.unwrap();
        assert_eq!(
            letters[0].error,
            "attempt 4 was the last, and its result is unknown"
        );
    });
}

#[test]
fn a_queue_that_the_program_does_not_know_any_more_keeps_its_messages() {
    run(async {
        let world = World::new(words);
        world.queue("words").pause().await.unwrap();
        world.send(&["a"]).await;
        world.queue("words").resume().await.unwrap();
        let world = world.with(|_, _| Queues::new());
        for _ in 0..100 {
            world.clock.advance(Duration::from_secs(5));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = world.script.seen().len();
        let world = world.with(words);
        world
            .pass_until("it is consumed", async || {
                before > 0 || world.script.seen().len() > before
            })
            .await;
        world.until_consumed(1).await;
    });
}

/// Of two shards, with small batches.
fn small() -> QueueOptions {
    plain()
        .shards(SHARDS)
        .max_batch(3)
        .concurrency(2)
        .timeout(Duration::from_secs(2))
}

/// What happens at a message's first attempt, if not all goes well; and whether that is no attempt.
fn random_act(random: &mut Random) -> (Option<Act>, bool) {
    match random.below(14) {
        0 => (Some(Act::Retry(None)), false),
        1 => (Some(Act::Fail), false),
        2 => (Some(Act::Hang), false),
        3 => (Some(Act::Panic), false),
        4 => (Some(Act::Refuse), false),
        5 => (Some(Act::Wait), true),
        6 => (Some(Act::Throttle(Duration::from_millis(700))), true),
        _ => (None, false),
    }
}

/// A random operation of an operator, during all other work.
/// True if attempts of dead letters are counted anew.
fn meddle(world: &World, random: &mut Random) -> bool {
    let queue = world.queue("words");
    let what = random.below(3);
    drop(tokio::spawn(async move {
        match what {
            0 => drop(queue.redrive_all().await),
            1 => drop(queue.counts().await),
            _ => {
                drop(queue.pause().await);
                tokio::task::yield_now().await;
                drop(queue.resume().await);
            }
        }
    }));
    what == 0
}

#[test]
fn no_message_is_lost_or_taken_twice_whatever_happens() {
    run(async {
        for seed in 0..setting("ABIDE_QUEUE_SEEDS", 12) {
            println!("seed {seed}");
            let mut random = Random::new(seed);
            let mut world = World::new(words_with(small()));
            let mut senders = Senders::default();
            let mut restores = Restores::default();
            // Bodies whose attempts may have the same number twice.
            let mut renumbered = BTreeSet::new();
            let mut sent = 0;
            let mut redriven = false;
            for round in 0..6 {
                let queue = world.queue("words");
                for _ in 0..random.below(6) {
                    let body = format!("{seed}/{sent}");
                    sent += 1;
                    let (act, renumbers) = random_act(&mut random);
                    if renumbers || matches!(act, Some(Act::Refuse)) {
                        renumbered.insert(body.clone());
                    }
                    world.script.say(&body, act);
                    let message = QueueMessage::new(&body).unwrap().dedup_key(&body);
                    // The answer may be lost with the power: then it is sent again.
                    if random.below(4) > 0 {
                        queue.send(message.clone()).await.unwrap();
                        senders.acknowledged.insert(body);
                    } else {
                        senders.unanswered.insert(body);
                        drop(tokio::spawn({
                            let queue = queue.clone();
                            async move { drop(queue.send(message).await) }
                        }));
                        tokio::task::yield_now().await;
                    }
                }
                for _ in 0..random.below(40) {
                    world.clock.advance(Duration::from_millis(100));
                    tokio::task::yield_now().await;
                    match random.below(30) {
                        0 => redriven |= meddle(&world, &mut random),
                        1 => world
                            .clock
                            .set_wall(-6_000 - i64::from(random.below(14_000))),
                        2 | 3 => {
                            let senders = &mut senders;
                            restores.travel(&world, &mut random, senders).await;
                        }
                        _ => {}
                    }
                    restores.check_undone(&world, seed, &senders);
                }
                world = match random.below(2) {
                    0 => world.killed(),
                    _ => world.crashed(seed * 100 + round),
                };
            }
            // A sender that got no answer sends again, under the same key.
            let queue = world.queue("words");
            queue.resume().await.unwrap();
            for number in 0..sent {
                let body = format!("{seed}/{number}");
                let message = QueueMessage::new(&body).unwrap().dedup_key(&body);
                let again = queue.send(message).await.unwrap();
                assert!(
                    again.duplicate || !senders.acknowledged.contains(&body),
                    "seed {seed}: {body} was lost"
                );
            }
            world.pass_until_decided().await;
            let counts = world.counts().await;
            assert_eq!(counts.consumed + counts.dead, sent, "seed {seed}");
            let seen: BTreeSet<String> = world.script.bodies().into_iter().collect();
            assert_eq!(i64::try_from(seen.len()).unwrap(), sent, "seed {seed}");
            // A consumer has said that it took the message, or the dead letters show that none did.
            let letters = queue.dead_letters(1_000).await.unwrap().into_iter();
            let dead: BTreeSet<String> = letters.map(|letter| letter.body).collect();
            for number in 0..sent {
                let body = format!("{seed}/{number}");
                let decided =
                    world.script.has_taken(&body) || dead.contains(&format!("\"{body}\""));
                assert!(decided, "seed {seed}: no consumer took {body}");
            }
            // An attempt that was begun counts, also if all else of it is gone.
            let throttled = world.script.throttled();
            renumbered.extend(throttled);
            let mut begun = BTreeSet::new();
            for batch in world.script.seen() {
                let attempts = batch.bodies.into_iter().zip(batch.attempts);
                for attempt in attempts.filter(|(body, _)| !renumbered.contains(body)) {
                    let is_new = begun.insert(attempt.clone());
                    let again = redriven || restores.times > 0;
                    assert!(is_new || again, "seed {seed}: begun again: {attempt:?}");
                }
            }
            restores.check(&world, seed).await;
            queue.discard_all().await.unwrap();
            world.check_empty().await;
        }
    });
}
