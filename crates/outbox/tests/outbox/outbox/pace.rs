//! Pace: token buckets, concurrency, ticks, circuit breakers.

use std::time::Duration;

use abide::outbox::{Breaker, Failure, Limit, Pace, Polled, Rate, Status, Submitted};

use crate::outbox::support::{Act, World, at_a_time, note, plain, refused, run};

fn limit(rate: Option<Rate>, concurrency: u32) -> Limit {
    Limit { rate, concurrency }
}

#[test]
fn a_rate_is_kept_when_the_process_is_killed() {
    run(async {
        let mut world = World::new(plain().pace(Pace::AtOnce {
            outbox: Limit {
                rate: None,
                concurrency: 16,
            },
            destination: Limit {
                rate: Some(Rate::per_second(100, 100)),
                concurrency: 16,
            },
        }));
        let all = (0..2_000).map(|number| note("bob", &format!("t{number}")));
        world.enqueue_all(all.collect::<Vec<_>>()).await;
        for _ in 0..4 {
            world.rest().await;
            world = world.killed();
        }
        let burst = world.script.calls().len();
        assert!((16..=100).contains(&burst), "{burst} at once");
        world.pass(Duration::from_secs(5)).await;
        let calls = world.script.calls().len();
        assert!((400..=600).contains(&calls), "{calls} in five seconds");
    });
}

#[test]
fn the_outbox_and_each_destination_keep_to_their_rates() {
    run(async {
        let world = World::new(plain().pace(Pace::AtOnce {
            outbox: limit(Some(Rate::per_second(4, 8)), 64),
            destination: limit(Some(Rate::per_second(2, 3)), 64),
        }));
        for number in 0..10 {
            world.enqueue(note("bob", &format!("b{number}"))).await;
            world.enqueue(note("eve", &format!("e{number}"))).await;
        }
        world.rest().await;
        assert_eq!(world.script.calls().len(), 6, "each destination's burst");
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.counts().await.sent, 20);
        let calls = world.script.calls();
        for start in (0..10_000).step_by(500) {
            let second = start + 1..=start + 1_000;
            for who in ["b", "e"] {
                let count = calls
                    .iter()
                    .filter(|call| call.text.starts_with(who) && second.contains(&call.at))
                    .count();
                assert!(count <= 3, "{count} to {who} in the second from {start}");
            }
        }
        let last = calls.iter().map(|call| call.at).max().unwrap();
        assert!((3_000..=4_500).contains(&last), "{last}");
    });
}

#[test]
fn a_bucket_outlives_the_process() {
    run(async {
        let world = World::new(plain().pace(Pace::AtOnce {
            outbox: limit(None, 64),
            destination: limit(Some(Rate::per_minute(1, 2)), 64),
        }));
        for number in 0..4 {
            world.enqueue(note("bob", &format!("b{number}"))).await;
        }
        world.until_counts(|counts| counts.sent == 2).await;
        let world = world.killed();
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(world.script.calls().len(), 2);
        world.pass(Duration::from_secs(40)).await;
        assert_eq!(world.script.calls().len(), 3);
    });
}

#[test]
fn no_more_attempts_are_on_their_way_than_allowed() {
    run(async {
        let world = World::new(at_a_time(5, 2));
        for number in 0..20 {
            for who in ["a", "b", "c", "d"] {
                let message = note(who, &format!("{who}{number}"));
                world.enqueue(message.not_before(1_767_225_601_000)).await;
            }
        }
        world.pass(Duration::from_secs(1)).await;
        world.until_counts(|counts| counts.sent == 80).await;
        assert!(world.script.most() <= 5, "{}", world.script.most());
        assert!(world.script.most() >= 4, "{}", world.script.most());
    });
}

#[test]
fn a_destination_with_much_to_do_does_not_hold_up_another() {
    run(async {
        let world = World::new(plain().pace(Pace::AtOnce {
            outbox: limit(None, 4),
            destination: limit(Some(Rate::per_second(1, 1)), 4),
        }));
        let many = (0..500).map(|number| note("bob", &format!("b{number}")));
        world.enqueue_all(many).await;
        let id = world.enqueue(note("eve", "hello")).await;
        world.until_status(id, Status::Sent).await;
        assert_eq!(world.script.times("hello"), [0]);
    });
}

#[test]
fn the_classic_setting_sends_fifteen_at_each_tick() {
    run(async {
        let world = World::new(plain().pace(Pace::CLASSIC));
        let many = (0..40).map(|number| note("bob", &format!("b{number}")));
        world.enqueue_all(many).await;
        world.pass(Duration::from_secs(30)).await;
        assert_eq!(world.counts().await.sent, 40);
        let at = |time| {
            world
                .script
                .calls()
                .iter()
                .filter(|call| call.at == time)
                .count()
        };
        assert_eq!((at(0), at(10_000), at(20_000)), (15, 15, 10));
    });
}

/// Enqueues messages whose receiver accepts them, asks for this pause before the first poll, and has not finished at
/// this many polls.
async fn enqueue_operations(
    world: &World,
    names: impl Iterator<Item = String>,
    after: Option<Duration>,
    unfinished: usize,
) {
    let mut notes = Vec::new();
    for name in names {
        let operation = format!("operation of {name}");
        let accepted = Act::Submit(Ok(Submitted::Accepted { operation, after }));
        let running = vec![Act::Poll(Ok(Polled::Running { after: None })); unfinished];
        world
            .script
            .say(&name, [accepted].into_iter().chain(running));
        notes.push(note("bob", &name));
    }
    world.enqueue_all(notes).await;
}

/// How many attempts and how many polls were made in each of the first classic ticks.
fn each_tick(world: &World, ticks: usize) -> Vec<(usize, usize)> {
    let mut counts = vec![(0, 0); ticks];
    for call in world.script.calls() {
        let (sends, polls) = &mut counts[usize::try_from(call.at / 10_000).unwrap()];
        *(if call.poll.is_some() { polls } else { sends }) += 1;
    }
    counts
}

#[test]
fn a_classic_tick_polls_what_it_has_sent_and_twenty_at_most() {
    run(async {
        let world = World::new(plain().pace(Pace::CLASSIC));
        let names = (0..40).map(|number| format!("b{number}"));
        enqueue_operations(&world, names, None, 1).await;
        world.pass(Duration::from_secs(59)).await;
        assert_eq!(world.counts().await.sent, 40);
        let expected = [(15, 15), (15, 20), (10, 20), (0, 20), (0, 5), (0, 0)];
        assert_eq!(each_tick(&world, 6), expected);
        let calls = world.script.calls();
        for sent in calls.iter().filter(|call| call.poll.is_none()) {
            assert_eq!(sent.at % 10_000, 0, "only at ticks");
            assert_eq!(
                world.script.times(&sent.text)[..2],
                [sent.at, sent.at],
                "{} is polled in the tick that has sent it",
                sent.text
            );
        }
    });
}

#[test]
fn polls_that_a_tick_s_own_messages_do_not_need_go_to_earlier_ones() {
    run(async {
        let world = World::new(plain().pace(Pace::CLASSIC));
        let names = (0..30).map(|number| format!("b{number}"));
        enqueue_operations(&world, names, None, 9).await;
        world.pass(Duration::from_secs(19)).await;
        let done = (0..15).map(|number| note("eve", &format!("done {number}")));
        world.enqueue_all(done.collect::<Vec<_>>()).await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(each_tick(&world, 3), [(15, 15), (15, 20), (15, 20)]);
    });
}

#[test]
fn a_pause_before_the_first_poll_is_kept_within_the_tick() {
    run(async {
        let world = World::new(plain().pace(Pace::CLASSIC));
        let pause = Some(Duration::from_secs(2));
        let names = (0..45).map(|number| format!("b{number}"));
        enqueue_operations(&world, names, pause, 9).await;
        world.pass(Duration::from_secs(39)).await;
        let expected = [(15, 15), (15, 20), (15, 20), (0, 20)];
        assert_eq!(each_tick(&world, 4), expected);
        for call in world.script.calls() {
            let times = world.script.times(&call.text);
            assert_eq!(times[1] - times[0], 2_000, "{}", call.text);
        }
    });
}

#[test]
fn a_tick_makes_no_more_polls_after_the_process_was_killed() {
    run(async {
        let mut world = World::new(plain().pace(Pace::CLASSIC));
        let names = (0..60).map(|number| format!("b{number}"));
        enqueue_operations(&world, names, None, 9).await;
        for _ in 0..3 {
            world.pass(Duration::from_millis(9_500)).await;
            world = world.killed();
            world.pass(Duration::from_millis(500)).await;
            world = world.killed();
        }
        world.pass(Duration::from_secs(9)).await;
        let expected = [(15, 15), (15, 20), (15, 20), (15, 20)];
        assert_eq!(each_tick(&world, 4), expected);
    });
}

#[test]
fn ticks_that_send_more_than_they_poll_also_poll_earlier_operations() {
    run(async {
        let world = World::new(plain().pace(Pace::Ticks {
            every: Duration::from_secs(10),
            sends: 5,
            polls: 4,
        }));
        let names = (0..50).map(|number| format!("b{number}"));
        enqueue_operations(&world, names, None, 1).await;
        world.pass(Duration::from_secs(49)).await;
        assert_eq!(each_tick(&world, 5), [(5, 4); 5]);
        for tick in (10_000..50_000).step_by(10_000) {
            let calls = world.script.calls();
            let mut polls = calls
                .iter()
                .filter(|call| call.at == tick && call.poll.is_some());
            assert!(
                polls.any(|call| world.script.times(&call.text)[0] < tick),
                "the tick at {tick} polls nothing of earlier ones"
            );
        }
    });
}

#[test]
fn a_circuit_opens_after_failures_in_a_row_and_a_probe_closes_it() {
    run(async {
        let world = World::new(
            plain().pace(Pace::unlimited(1)).breaker(
                Breaker::default()
                    .failures(3)
                    .pause(Duration::from_secs(20))
                    .max_pause(Duration::from_secs(30)),
            ),
        );
        // Probes are in turn what was tried before and what was not.
        for (number, times) in [2, 1, 1, 1, 0].into_iter().enumerate() {
            world
                .script
                .say(&format!("b{number}"), vec![refused(); times]);
        }
        for number in 0..5 {
            world.enqueue(note("bob", &format!("b{number}"))).await;
        }
        world.enqueue(note("eve", "hello")).await;
        world.rest().await;
        assert_eq!(world.script.calls().len(), 3 + 1, "eve's is not held back");
        let destinations = world.sender().destinations().await.unwrap();
        assert_eq!(destinations[0].destination, "bob");
        assert_eq!((destinations[0].failures, destinations[0].opened), (3, 1));
        assert_eq!(destinations[0].last_error.as_deref(), Some("busy"));
        world.pass(Duration::from_secs(19)).await;
        assert_eq!(world.script.calls().len(), 4);
        // The first probe fails, the second comes after the longest pause and fails, the third succeeds.
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.script.calls().len(), 5);
        world.pass(Duration::from_secs(28)).await;
        assert_eq!(world.script.calls().len(), 5);
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.script.calls().len(), 6);
        world.pass(Duration::from_secs(40)).await;
        assert_eq!(world.counts().await.sent, 6);
        let destinations = world.sender().destinations().await.unwrap();
        let bob = destinations
            .iter()
            .find(|to| to.destination == "bob")
            .unwrap();
        assert_eq!((bob.failures, bob.opened, bob.paused_until), (0, 0, None));
        for (id, attempts) in (1..=5).zip([3, 2, 2, 2, 1]) {
            let record = world.get(id).await;
            assert_eq!(record.attempts, attempts, "waiting used no attempts up");
        }
    });
}

#[test]
fn a_token_that_has_come_back_with_time_is_not_returned_again() {
    for pace in [
        Pace::AtOnce {
            outbox: limit(Some(Rate::per_minute(6, 2)), 64),
            destination: limit(None, 64),
        },
        Pace::AtOnce {
            outbox: limit(None, 64),
            destination: limit(Some(Rate::per_minute(6, 2)), 64),
        },
    ] {
        run(async {
            let world = World::new(plain().pace(pace));
            let busy = Act::Submit(Err(Failure::not_sent("busy here")));
            world.script.say("early", [Act::Later(busy.into())]);
            world.enqueue(note("bob", "early")).await;
            world.pass(Duration::from_secs(11)).await;
            let texts = ["one", "two", "three"];
            world.enqueue_all(texts.map(|text| note("bob", text))).await;
            world.rest().await;
            assert_eq!(world.script.calls().len(), 3, "a full bucket was used up");
            // The outbox pauses for a moment after that. The next token comes 10 s after the bucket was used up.
            world.script.now();
            world.pass(Duration::from_secs(5)).await;
            assert_eq!(world.script.calls().len(), 3);
            world.pass(Duration::from_secs(20)).await;
            assert_eq!(world.counts().await.sent, 4);
        });
    }
}

#[test]
fn a_success_closes_a_circuit_that_faster_failures_have_opened() {
    run(async {
        let world = World::new(
            plain()
                .pace(Pace::unlimited(16))
                .breaker(Breaker::default().failures(3)),
        );
        let slow = Act::Submit(Ok(Submitted::Done));
        world.script.say("slow", [Act::Later(slow.into())]);
        for text in ["b1", "b2", "b3"] {
            world.script.say(text, [refused()]);
        }
        let texts = ["slow", "b1", "b2", "b3"];
        world.enqueue_all(texts.map(|text| note("bob", text))).await;
        let bob = async || {
            let destinations = world.sender().destinations().await.unwrap();
            destinations
                .into_iter()
                .find(|to| to.destination == "bob")
                .unwrap()
        };
        while bob().await.opened == 0 {
            tokio::task::yield_now().await;
        }
        assert!(bob().await.paused_until.is_some());
        world.script.now();
        world.until_counts(|counts| counts.sent == 1).await;
        assert_eq!((bob().await.opened, bob().await.paused_until), (0, None));
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.counts().await.sent, 4);
    });
}
