//! Random messages and fan-outs to a receiver that refuses, loses answers, hangs and panics, while operators cancel and
//! give up messages in any state, edit, redrive and discard, callbacks fail and panic, calls are concurrent, the process is
//! killed and the machine loses its power: from one seed each.
//!
//! What is checked stands in `checks`. `ABIDE_OUTBOX_SEEDS` says how many seeds, `ABIDE_OUTBOX_FIRST_SEED` the first.

mod checks;

use std::{collections::HashMap, time::Duration};

use abide::outbox::{
    BehindDeadLetter, Breaker, DeadLetterFilter, Failure, Limit, MessageFilter, OutboxOptions,
    Pace, Polled, Polling, Priority, Rate, Record, RetryPolicy, Status, Submitted,
};
use abide_harness::{Random, setting};

use crate::outbox::support::{Act, Callback, Circulate, Note, Script, World, gone, note, run};

/// What was enqueued.
#[derive(Clone, Debug, Default)]
struct Sent {
    to: String,
    /// In which order, among those with its ordering key.
    key: Option<String>,
    place: usize,
    priority: Priority,
    /// When its first attempt could be made, and how many attempts of all were made when the object said that it has
    /// it; `None` if it has said no such thing.
    acknowledged: Option<(i64, usize)>,
    /// True if its first attempt waits for nothing but its turn.
    plain: bool,
    /// How often its answers were lost by the script.
    lost: usize,
    /// How often it was redriven.
    redriven: usize,
    /// True if it says something else now.
    edited: bool,
}

/// A fan-out that was begun.
struct Spread {
    id: i64,
    command: Circulate,
}

/// What was done.
#[derive(Default)]
struct Done {
    /// By text.
    sent: HashMap<String, Sent>,
    places: HashMap<String, usize>,
    spreads: Vec<Spread>,
    /// Each death: how many attempts were made before and after it.
    deaths: Vec<(usize, usize)>,
}

fn options(random: &mut Random) -> OutboxOptions {
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
    OutboxOptions::default()
        .pace(pace)
        .retry(RetryPolicy::Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(4),
            max_attempts: checks::MAX_ATTEMPTS,
        })
        .polling(
            Polling::default()
                .interval(Duration::from_secs(1))
                .deadline(Duration::from_secs(20))
                .max_errors(3),
        )
        .breaker(
            Breaker::default()
                .failures(4)
                .pause(Duration::from_secs(2))
                .max_pause(Duration::from_secs(4)),
        )
        .timeout(Duration::from_secs(3))
        .recovery(Duration::from_secs(1))
        .behind_dead_letter(match random.below(3) {
            0 => BehindDeadLetter::GoOn,
            _ => BehindDeadLetter::Wait,
        })
        .max_queued(match random.below(3) {
            0 => 20,
            _ => 1_000,
        })
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
                if random.below(4) == 0 {
                    // Until its deadline, or an operator ends it.
                    acts.extend(vec![Act::Poll(Ok(Polled::Running { after: None })); 30]);
                }
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
    if random.below(8) == 0 {
        acts.push(gone());
    }
    (acts, lost)
}

async fn enqueue(world: &World, random: &mut Random, done: &mut Done, text: String) {
    let (acts, lost) = acts(random);
    world.script.say(&text, acts);
    if random.below(5) == 0 {
        let act = match random.below(2) {
            0 => Callback::Fail,
            _ => Callback::Panic,
        };
        let times = 1 + random.below(2) as usize;
        world.script.answer(&text, vec![act; times]);
    }
    let mut sent = Sent {
        to: format!("to {}", random.below(3)),
        key: (random.below(2) == 0).then(|| format!("key {}", random.below(3))),
        priority: match random.below(4) {
            0 => Priority::High,
            1 => Priority::Low,
            _ => Priority::Normal,
        },
        lost,
        ..Sent::default()
    };
    let mut message = note(&sent.to, &text)
        .dedup_key(text.clone())
        .priority(sent.priority);
    if let Some(key) = &sent.key {
        message = message.ordering_key(key.clone());
        let next = done.places.entry(key.clone()).or_default();
        sent.place = *next;
        *next += 1;
    }
    let soon = world.now() + 1 + i64::from(random.below(8_000));
    match random.below(8) {
        0 => message = message.not_before(soon),
        1 | 2 => message = message.deadline(soon),
        _ => sent.plain = sent.key.is_none(),
    }
    // At the same time an operator ends another.
    let (sender, other) = (world.sender(), world.sender());
    let enqueued = async { sender.enqueue(message).await };
    let enqueued = match random.below(6) {
        0 => {
            let id = i64::from(random.below(20)) + 1;
            let canceled = async { other.cancel(id).await };
            futures_util::future::join(enqueued, canceled).await.0
        }
        _ => enqueued.await,
    };
    if enqueued.is_ok() {
        sent.acknowledged = Some((world.now(), world.script.calls().len()));
    }
    done.sent.insert(text, sent);
}

async fn fan_out(world: &World, random: &mut Random, done: &mut Done, step: u32) {
    let command = || Circulate {
        name: format!("{step}: "),
        count: 30,
        fails_at: None,
    };
    let mut begun = command();
    begun.fails_at = (random.below(4) == 0).then_some(25);
    let spread = Spread {
        command: Circulate {
            fails_at: begun.fails_at,
            ..command()
        },
        id: world.sender().fan_out(begun).await.unwrap(),
    };
    done.spreads.push(spread);
}

/// What a person does to one of the messages: it is refused if it is not where it would have to be.
async fn act(world: &World, random: &mut Random, done: &mut Done) {
    let sender = world.sender();
    let id = match random.below(2) {
        0 => i64::from(random.below(20)) + 1,
        _ => {
            let dead = sender.dead_letters(DeadLetterFilter::default()).await;
            let dead = dead.unwrap().records;
            match u32::try_from(dead.len()).unwrap() {
                0 => return,
                count => dead[random.below(count) as usize].id,
            }
        }
    };
    match random.below(7) {
        0 => drop(sender.cancel(id).await),
        6 => drop(sender.give_up(id).await),
        1 => drop(sender.discard(id).await),
        2 => edit(world, done, id).await,
        _ => redrive(world, done, id).await,
    }
}

/// Lets a dead letter say something else. It is another message then, in the place of the first.
async fn edit(world: &World, done: &mut Done, id: i64) {
    let Some(before) = world.sender().get(id).await.unwrap() else {
        return;
    };
    let text = format!("{}'", before.summary);
    let to = before.destination;
    let payload = serde_json::to_string(&Note {
        to,
        text: text.clone(),
    });
    let edited = world.sender().edit(id, payload.unwrap()).await;
    if let (Ok(_), Some(sent)) = (edited, done.sent.get_mut(&before.summary)) {
        let other = Sent {
            lost: 0,
            redriven: 0,
            plain: false,
            ..sent.clone()
        };
        sent.edited = true;
        done.sent.insert(text, other);
    }
}

async fn redrive(world: &World, done: &mut Done, id: i64) {
    let Some(before) = world.sender().get(id).await.unwrap() else {
        return;
    };
    if let Ok(after) = world.sender().redrive(id).await {
        redriven(done, &before, &after);
    }
}

fn redriven(done: &mut Done, before: &Record, after: &Record) {
    assert_eq!(
        before.idempotency_key == after.idempotency_key,
        before.unknown,
        "a key is kept if an answer was lost: {before:?} {after:?}"
    );
    if let Some(sent) = done.sent.get_mut(&before.summary) {
        sent.redriven += 1;
        // It may have had its effect, and has it again at a receiver that knows no keys.
        sent.lost += usize::from(before.unknown);
    }
}

async fn simulate(seed: u64) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let options = options(&mut random);
    let script = Script::default();
    if random.below(3) > 0 {
        script.call_back();
    }
    let mut world = World::scripted(script, options.clone());
    let mut done = Done::default();
    for step in 0..12 + random.below(16) {
        let before = world.script.calls().len();
        match random.below(12) {
            0..=4 => {
                for number in 0..=random.below(4) {
                    let text = format!("{step}-{number}");
                    enqueue(&world, &mut random, &mut done, text).await;
                }
                continue;
            }
            5 | 6 => {
                let time = Duration::from_millis(u64::from(random.below(5)) * 700);
                world.clock.advance(time);
                world.sender().fence().await.unwrap();
                continue;
            }
            7 | 8 => {
                act(&world, &mut random, &mut done).await;
                continue;
            }
            9 if done.spreads.len() < 3 => {
                fan_out(&world, &mut random, &mut done, step).await;
                continue;
            }
            9 => {
                let id = done.spreads[random.below(3) as usize].id;
                let _ = match random.below(2) {
                    0 => world.sender().cancel_fan_out(id).await.unwrap(),
                    _ => world.sender().resume_fan_out(id).await.unwrap(),
                };
                continue;
            }
            10 => world = world.killed(),
            _ => match random.below(2) {
                0 => {
                    let crash = u64::from(random.below(u32::MAX));
                    world = world.crashed(crash);
                }
                _ => drop(world.sender().reset().await),
            },
        }
        // Its first answer comes when the object has come back.
        world.sender().fence().await.unwrap();
        done.deaths.push((before, world.script.calls().len()));
    }
    finish(&world, &options, seed).await;
    if random.below(2) == 0 {
        redrive_until_all_is_sent(&world, &mut done, &options, seed).await;
    }
    checks::check(&world, &done, &options, seed).await;
}

/// Lets everything come to its end.
async fn finish(world: &World, options: &OutboxOptions, seed: u64) {
    for _ in 0..900 {
        let counts = world.counts().await;
        let held = if counts.failed > 0 {
            // Those behind dead letters wait for a person.
            let page = world.sender().list(
                MessageFilter::default()
                    .status(Status::Queued)
                    .before(None)
                    .limit(0),
            );
            let page = page.await.unwrap();
            let held = page.records.iter().filter(|record| record.blocked).count();
            i64::try_from(held).unwrap()
        } else {
            0
        };
        let made = held >= options.max_queued / 2 || !checks::fan_outs_run(world).await;
        let owed = world.sender().callbacks().await.unwrap();
        if counts.sending == 0 && counts.queued == held && made && owed.is_empty() {
            return;
        }
        world.clock.advance(Duration::from_secs(1));
        for _ in 0..4 {
            world.sender().fence().await.unwrap();
        }
    }
    let page = world.sender().list(MessageFilter::default()).await;
    panic!(
        "seed {seed}: it does not come to an end: {:?} at {}, alarm {:?}, {:?}, {:?}, {:#?}",
        world.counts().await,
        world.now(),
        world.sender().alarm_time().await,
        world.sender().destinations().await,
        world.sender().fan_outs().await,
        page
    );
}

/// What the script has against a message ends, so that it is sent in the end if a person insists.
async fn redrive_until_all_is_sent(
    world: &World,
    done: &mut Done,
    options: &OutboxOptions,
    seed: u64,
) {
    for _ in 0..20 {
        let filter = DeadLetterFilter::default();
        let dead = world.sender().dead_letters(filter.clone()).await;
        let dead = dead.unwrap().records;
        if dead.is_empty() {
            assert_eq!(world.counts().await.queued, 0, "seed {seed}");
            return;
        }
        let swept = world.sender().redrive_all(filter).await.unwrap();
        assert_eq!(swept.count, dead.len(), "seed {seed}");
        for before in dead {
            // It may have been tried again since, under the same key.
            let after = world.get(before.id).await;
            redriven(done, &before, &after);
        }
        finish(world, options, seed).await;
    }
    panic!("seed {seed}: dead letters never end");
}

#[test]
fn no_fault_loses_repeats_or_reorders_messages() {
    let seeds: u64 = setting("ABIDE_OUTBOX_SEEDS", 30);
    let first: u64 = setting("ABIDE_OUTBOX_FIRST_SEED", 1);
    for seed in first..first + seeds {
        run(simulate(seed));
    }
}
