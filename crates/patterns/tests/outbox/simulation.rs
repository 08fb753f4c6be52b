//! Random messages to a receiver that refuses, loses answers, hangs and panics, while the process is killed and the
//! machine loses its power: from one seed each.
//!
//! Checked at the end: no acknowledged message is lost, each was delivered or is a dead letter with a reason, an effect
//! happened again only where an answer was lost, messages with an ordering key took effect in their order, the counts
//! are right. `ABIDE_OUTBOX_SEEDS` says how many seeds, `ABIDE_OUTBOX_FIRST_SEED` the first.

use std::{collections::HashMap, time::Duration};

use abide_harness::{Random, setting};
use abide_patterns::outbox::{
    BehindDeadLetter, Breaker, Failure, Filter, Limit, Options, Pace, Polled, Polling, Rate,
    RetryPolicy, Status, Submitted,
};

use abide::clock::Clock as _;

use crate::support::{Act, World, note, run};

/// What was enqueued, by text.
#[derive(Debug, Default)]
struct Sent {
    /// In which order, among those with its ordering key.
    key: Option<String>,
    place: usize,
    /// Whether the object said that it has it.
    acknowledged: bool,
    /// How often its answers were lost by the script.
    lost: usize,
}

fn options(random: &mut Random) -> Options {
    let pace = match random.below(3) {
        0 => Pace::unlimited(16),
        1 => Pace::AtOnce {
            outbox: Limit {
                rate: Some(Rate::per_second(20, 5)),
                concurrency: 4,
            },
            destination: Limit {
                rate: Some(Rate::per_second(5, 2)),
                concurrency: 2,
            },
        },
        _ => Pace::Ticks {
            every: Duration::from_secs(2),
            sends: 5,
            polls: 3,
        },
    };
    Options {
        pace,
        retry: RetryPolicy::Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(4),
            max_attempts: 6,
        },
        polling: Polling {
            interval: Duration::from_secs(1),
            deadline: Duration::from_secs(20),
            max_errors: 3,
        },
        breaker: Breaker {
            failures: 4,
            pause: Duration::from_secs(2),
            max_pause: Duration::from_secs(4),
        },
        timeout: Duration::from_secs(3),
        recovery: Duration::from_secs(1),
        behind_dead_letter: match random.below(3) {
            0 => BehindDeadLetter::GoOn,
            _ => BehindDeadLetter::Wait,
        },
        ..Options::default()
    }
}

/// What happens to a message, and how many of its answers are lost.
fn acts(random: &mut Random) -> (Vec<Act>, usize) {
    let mut acts = Vec::new();
    let mut lost = 0;
    for _ in 0..random.below(4) {
        acts.push(match random.below(8) {
            0 | 1 => Act::Submit(Err(Failure::refused("busy"))),
            2 => Act::Submit(Err(Failure::throttled(
                "slow",
                Some(Duration::from_secs(2)),
            ))),
            3 => Act::Submit(Err(Failure::not_sent("busy here"))),
            4 => Act::Hang,
            5 => {
                lost += 1;
                Act::TakeAndHang
            }
            6 => Act::Panic,
            _ => {
                acts.push(Act::Submit(Ok(Submitted::Accepted {
                    operation: "op".into(),
                    after: None,
                })));
                for _ in 0..random.below(3) {
                    acts.push(match random.below(3) {
                        0 => Act::Poll(Ok(Polled::Running { after: None })),
                        1 => Act::Poll(Err(Failure::refused("503"))),
                        _ => Act::Hang,
                    });
                }
                return (acts, lost);
            }
        });
    }
    if random.below(12) == 0 {
        acts.push(Act::Submit(Err(Failure::permanent("gone"))));
    }
    (acts, lost)
}

async fn simulate(seed: u64) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut world = World::new(options(&mut random));
    let mut sent: HashMap<String, Sent> = HashMap::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut deaths = 0;
    for step in 0..12 + random.below(12) {
        match random.below(10) {
            0..=4 => {
                for number in 0..=random.below(4) {
                    let text = format!("{step}-{number}");
                    let to = format!("to {}", random.below(3));
                    let key = (random.below(2) == 0).then(|| format!("key {}", random.below(3)));
                    let (acts, lost) = acts(&mut random);
                    world.script.say(&text, acts);
                    let mut message = note(&to, &text).dedup_key(text.clone());
                    let mut place = 0;
                    if let Some(key) = &key {
                        message = message.ordering_key(key.clone());
                        let next = places.entry(key.clone()).or_default();
                        place = *next;
                        *next += 1;
                    }
                    let soon = |random: &mut Random| {
                        let now = world.clock.unix_millis().cast_signed();
                        now + 1 + i64::from(random.below(8_000))
                    };
                    match random.below(8) {
                        0 => message = message.not_before(soon(&mut random)),
                        1 => message = message.deadline(soon(&mut random)),
                        _ => {}
                    }
                    let answer = world.sender().enqueue(message).await;
                    let message = Sent {
                        key,
                        place,
                        acknowledged: answer.unwrap().is_ok(),
                        lost,
                    };
                    sent.insert(text, message);
                }
            }
            5 | 6 => {
                let time = Duration::from_millis(u64::from(random.below(5)) * 700);
                world.clock.advance(time);
                world.sender().fence().await.unwrap().unwrap();
            }
            7 if random.below(3) == 0 => {
                // It is refused if there is no such message, or if it does not wait.
                let id = i64::from(random.below(20)) + 1;
                let _ = world.sender().cancel(id).await.unwrap();
            }
            7 => {
                world = world.killed();
                deaths += 1;
            }
            8 => {
                let crash = u64::from(random.below(u32::MAX));
                world = world.crashed(crash);
                deaths += 1;
            }
            _ => {
                let _ = world.sender().reset().await;
                deaths += 1;
            }
        }
    }
    finish(&world, seed).await;
    check(&world, &sent, deaths, seed).await;
}

/// Lets everything come to its end.
async fn finish(world: &World, seed: u64) {
    for _ in 0..600 {
        let counts = world.counts().await;
        let held = if counts.failed > 0 {
            // Those behind dead letters wait for a person.
            let page = world.sender().list(Filter {
                status: Some(Status::Queued),
                before: None,
                limit: 0,
            });
            let page = page.await.unwrap().unwrap();
            let held = page.records.iter().filter(|record| record.blocked).count();
            i64::try_from(held).unwrap()
        } else {
            0
        };
        if counts.sending == 0 && counts.queued == held {
            return;
        }
        world.clock.advance(Duration::from_secs(1));
        for _ in 0..4 {
            world.sender().fence().await.unwrap().unwrap();
        }
    }
    panic!(
        "seed {seed}: it does not come to an end: {:?}",
        world.counts().await
    );
}

async fn check(world: &World, sent: &HashMap<String, Sent>, deaths: usize, seed: u64) {
    let page = world.sender().list(Filter::default()).await;
    let page = page.unwrap().unwrap();
    let mut records = HashMap::new();
    for record in page.records {
        let before = records.insert(record.summary.clone(), record);
        assert!(before.is_none(), "seed {seed}: a message is there twice");
    }
    let effects = world.script.effects();
    for (text, message) in sent {
        let count = effects.iter().filter(|effect| *effect == text).count();
        let Some(record) = records.get(text) else {
            assert!(!message.acknowledged, "seed {seed}: {text} is lost");
            continue;
        };
        match record.status {
            Status::Sent => assert!(count >= 1, "seed {seed}: {text} had no effect"),
            Status::Failed => assert!(record.last_error.is_some(), "seed {seed}: {text}"),
            Status::Queued => assert!(record.blocked, "seed {seed}: {text}"),
            Status::Canceled => {}
            other => panic!("seed {seed}: {text} is {other}"),
        }
        assert!(
            count <= 1 + message.lost + deaths,
            "seed {seed}: {text} had {count} effects and lost {} answers in {deaths} deaths",
            message.lost
        );
        assert!(
            record.attempts <= 6,
            "seed {seed}: {text} has {} attempts",
            record.attempts
        );
        let attempts = world.script.attempts(text);
        assert!(
            attempts <= record.attempts as usize,
            "seed {seed}: {text} was tried {attempts} times, and its row knows of {}",
            record.attempts
        );
        let history = world.sender().history(record.id).await.unwrap().unwrap();
        assert_eq!(history[0].event, "queued", "seed {seed}");
    }
    let mut keys: HashMap<String, String> = HashMap::new();
    for call in world.script.calls() {
        let key = keys
            .entry(call.text.clone())
            .or_insert_with(|| call.key.clone());
        assert_eq!(*key, call.key, "seed {seed}: {} has two keys", call.text);
    }
    let mut reached: HashMap<&str, usize> = HashMap::new();
    for effect in &effects {
        let message = &sent[effect];
        if let Some(key) = &message.key {
            let reached = reached.entry(key).or_default();
            assert!(
                *reached <= message.place,
                "seed {seed}: {effect} came after its successor"
            );
            *reached = message.place;
        }
    }
    world.check_counts().await;
}

#[test]
fn nothing_is_lost_repeated_without_need_or_out_of_order_whatever_happens() {
    let seeds: u64 = setting("ABIDE_OUTBOX_SEEDS", 30);
    let first: u64 = setting("ABIDE_OUTBOX_FIRST_SEED", 1);
    for seed in first..first + seeds {
        run(simulate(seed));
    }
}
