//! What must hold at the end of a simulation, one function for each property.

use std::collections::{HashMap, HashSet};

use abide::clock::TestClock;
use abide::outbox::{
    BehindDeadLetter, FanOutStatus, Limit, MessageFilter, OutboxOptions, Pace, Rate, Record, Status,
};

use super::{Done, Sent};
use crate::outbox::support::{Call, World};

/// Attempts before a message is given up.
pub(super) const MAX_ATTEMPTS: u32 = 6;

pub(super) async fn check(world: &World, done: &Done, options: &OutboxOptions, seed: u64) {
    let page = world.sender().list(MessageFilter::default()).await;
    let page = page.unwrap();
    assert_eq!(page.next, None, "seed {seed}: there is more than a page");
    let mut records = HashMap::new();
    for record in page.records {
        let before = records.insert(record.summary.clone(), record);
        assert!(before.is_none(), "seed {seed}: a message is there twice");
    }
    for (text, sent) in &done.sent {
        ended_well(world, text, sent, records.get(text), seed).await;
        one_effect(world, done, text, sent, seed);
    }
    ends_are_told(world, done, &records, seed).await;
    keys_are_kept(world, done, seed);
    order_is_kept(world, done, options, seed);
    urgent_goes_first(world, done, seed);
    pace_is_kept(&world.script.calls(), &options.pace, seed);
    fan_outs_are_whole(world, done, &records, options, seed).await;
    world.check_counts().await;
}

/// No acknowledged message is lost; each was delivered, is a dead letter with a reason, or was ended by a person.
async fn ended_well(world: &World, text: &str, sent: &Sent, record: Option<&Record>, seed: u64) {
    let Some(record) = record else {
        assert!(
            sent.acknowledged.is_none() || sent.edited,
            "seed {seed}: {text} is lost"
        );
        return;
    };
    let effects = world.script.effects();
    match record.status {
        Status::Sent => assert!(
            effects.iter().any(|effect| effect == text),
            "seed {seed}: {text} had no effect"
        ),
        Status::Failed => assert!(record.last_error.is_some(), "seed {seed}: {text}"),
        Status::Queued => assert!(record.blocked, "seed {seed}: {text}"),
        Status::Canceled | Status::Discarded => {}
        other @ Status::Sending => panic!("seed {seed}: {text} is {other}"),
    }
    assert!(
        record.attempts <= MAX_ATTEMPTS,
        "seed {seed}: {text} has {} attempts",
        record.attempts
    );
    let attempts = world.script.attempts(text);
    let before = sent.redriven * MAX_ATTEMPTS as usize;
    assert!(
        attempts <= record.attempts as usize + before,
        "seed {seed}: {text} was tried {attempts} times, and its row knows of {} and {before} before",
        record.attempts
    );
    let history = world.sender().history(record.id).await.unwrap();
    assert_eq!(history[0].event, "queued", "seed {seed}");
}

/// The object has learned of each end once, and of the last one last.
async fn ends_are_told(world: &World, done: &Done, records: &HashMap<String, Record>, seed: u64) {
    if !world.script.calls_back() {
        return;
    }
    let mut told: HashMap<String, Vec<String>> = HashMap::new();
    for (text, status) in world.sender().told().await.unwrap() {
        told.entry(text).or_default().push(status);
    }
    for (text, record) in records {
        let ends = told.remove(text).unwrap_or_default();
        let last = match record.status {
            Status::Queued | Status::Sending => continue,
            Status::Discarded => Status::Failed,
            status => status,
        };
        let sent = done.sent.get(text);
        // An edited message has ended as a dead letter under its earlier text.
        let edited = text.ends_with('\'') && ends.is_empty() && last == Status::Failed;
        assert!(
            edited || ends.last().is_some_and(|end| end == last.as_str()),
            "seed {seed}: {text} is {last}, and the object knows {ends:?}"
        );
        // How often messages of fan-outs were redriven is not known.
        let Some(sent) = sent else { continue };
        let most = 1 + sent.redriven;
        assert!(
            ends.len() <= most,
            "seed {seed}: {text} has ended {most} times, and the object knows {ends:?}"
        );
    }
}

/// An effect happened again only where an answer was lost, and a receiver that honours keys had one at most.
fn one_effect(world: &World, done: &Done, text: &str, sent: &Sent, seed: u64) {
    let effects = world.script.keyed_effects();
    let keys: Vec<&String> = effects
        .iter()
        .filter(|effect| effect.0 == text)
        .map(|effect| &effect.1)
        .collect();
    assert!(
        keys.len() <= 1 + sent.lost + done.deaths.len(),
        "seed {seed}: {text} had {} effects and lost {} answers in {} deaths",
        keys.len(),
        sent.lost,
        done.deaths.len()
    );
    let keys: HashSet<&String> = keys.into_iter().collect();
    assert!(
        keys.len() <= 1,
        "seed {seed}: {text} had an effect under {} keys",
        keys.len()
    );
}

/// A message has another key only if it was redriven.
fn keys_are_kept(world: &World, done: &Done, seed: u64) {
    let mut keys: HashMap<String, HashSet<String>> = HashMap::new();
    for call in world.script.calls() {
        keys.entry(call.text).or_default().insert(call.key);
    }
    for (text, keys) in keys {
        let redriven = done.sent.get(&text).map_or(0, |sent| sent.redriven);
        assert!(
            keys.len() <= 1 + redriven,
            "seed {seed}: {text} has {} keys and was redriven {redriven} times",
            keys.len()
        );
    }
}

/// Messages with an ordering key take effect in their order. One that others have overtaken, because they may continue behind
/// dead letters, comes when it is redriven.
fn order_is_kept(world: &World, done: &Done, options: &OutboxOptions, seed: u64) {
    let goes_on = options.behind_dead_letter == BehindDeadLetter::GoOn;
    let mut reached: HashMap<&str, usize> = HashMap::new();
    for effect in &world.script.effects() {
        let Some(sent) = done.sent.get(effect) else {
            continue;
        };
        let overtaken = goes_on && (sent.redriven > 0 || sent.edited);
        let Some(key) = sent.key.as_ref().filter(|_| !overtaken) else {
            continue;
        };
        let reached = reached.entry(key).or_default();
        assert!(
            *reached <= sent.place,
            "seed {seed}: {effect} came after its successor"
        );
        *reached = sent.place;
    }
}

/// Of two messages that wait for nothing but their turn at one destination, the more urgent one is tried first, but for the
/// turns that the others have.
fn urgent_goes_first(world: &World, done: &Done, seed: u64) {
    let calls = world.script.calls();
    let mut firsts: HashMap<&str, usize> = HashMap::new();
    for (place, call) in calls.iter().enumerate() {
        firsts.entry(&call.text).or_insert(place);
    }
    // What was claimed when everything died is tried later.
    let lived = |from: usize, to: usize| {
        !done
            .deaths
            .iter()
            .any(|(before, after)| *after >= from && *before <= to)
    };
    for (urgent, sent) in &done.sent {
        let (Some((since, from)), Some(&tried)) = (sent.acknowledged, firsts.get(&**urgent)) else {
            continue;
        };
        if !sent.plain || !lived(from, tried) {
            continue;
        }
        let since = since - TestClock::START_UNIX_MILLIS.cast_signed();
        // Of eight attempts in a row at a destination, two are for those that are less urgent.
        let meanwhile = calls
            .iter()
            .filter(|call| call.to == sent.to && (since..=calls[tried].at).contains(&call.at));
        let mut turns = 2 + meanwhile.count() / 4;
        for (text, other) in &done.sent {
            let Some(&first) = firsts.get(&**text) else {
                continue;
            };
            let (urgent_at, at) = (calls[tried].at, calls[first].at);
            let overtaken = other.to == sent.to
                && sent.priority < other.priority
                && at > since
                && urgent_at > at;
            turns -= usize::from(overtaken && turns > 0);
            assert!(
                !overtaken || turns > 0,
                "seed {seed}: {text} was tried at {at}, and the more urgent {urgent}, due since {since}, at {urgent_at}"
            );
        }
    }
}

/// No more attempts begin than the token buckets have, and none between ticks.
fn pace_is_kept(calls: &[Call], pace: &Pace, seed: u64) {
    let (polls, sends): (Vec<&Call>, Vec<&Call>) =
        calls.iter().partition(|call| call.poll.is_some());
    match *pace {
        Pace::AtOnce {
            outbox,
            destination,
        } => {
            rate_is_kept(&sends, outbox, seed);
            let all: HashSet<&String> = sends.iter().map(|call| &call.to).collect();
            for to in all {
                let sends = sends.iter().copied().filter(|call| call.to == *to);
                rate_is_kept(&sends.collect::<Vec<_>>(), destination, seed);
            }
        }
        Pace::Ticks {
            every,
            sends: most_sends,
            polls: most_polls,
        } => {
            let every = i64::try_from(every.as_millis()).unwrap();
            // A tick sends when it begins, and polls until it ends.
            let ticks = &sends;
            for (calls, most) in [(&sends, most_sends), (&polls, most_polls)] {
                let rate = Rate {
                    interval: std::time::Duration::from_hours(1),
                    burst: most,
                };
                for tick in ticks {
                    let at_once = calls
                        .iter()
                        .copied()
                        .filter(|call| (tick.at..tick.at + every).contains(&call.at));
                    let at_once: Vec<&Call> = at_once.collect();
                    let limit = Limit {
                        rate: Some(rate),
                        concurrency: most,
                    };
                    rate_is_kept(&at_once, limit, seed);
                }
            }
        }
    }
}

/// In no span of time more attempts begin than a full bucket has and is given meanwhile.
fn rate_is_kept(calls: &[&Call], limit: Limit, seed: u64) {
    let Some(rate) = limit.rate else {
        return;
    };
    // What could not leave has given its token back.
    let left = calls.iter().filter(|call| !call.not_sent);
    let mut times: Vec<i64> = left.map(|call| call.at).collect();
    times.sort_unstable();
    let interval = i64::try_from(rate.interval.as_micros()).unwrap();
    for (place, from) in times.iter().enumerate() {
        for (count, to) in (1..).zip(&times[place..]) {
            let most = i64::from(rate.burst) + (to - from) * 1_000 / interval;
            assert!(
                count <= most,
                "seed {seed}: {count} attempts from {from} to {to}, and {most} are allowed: {calls:#?}"
            );
        }
    }
}

/// A fan-out makes each of its messages once, and says how many it has made.
async fn fan_outs_are_whole(
    world: &World,
    done: &Done,
    records: &HashMap<String, Record>,
    options: &OutboxOptions,
    seed: u64,
) {
    let all = world.sender().fan_outs().await.unwrap();
    assert_eq!(all.len(), done.spreads.len(), "seed {seed}");
    for spread in &done.spreads {
        let record = all.iter().find(|record| record.id == spread.id);
        let record = record.expect("a fan-out that was begun is there");
        let made = records
            .values()
            .filter(|message| message.fan_out == Some(spread.id))
            .count();
        assert_eq!(record.made, i64::try_from(made).unwrap(), "seed {seed}");
        let count = match record.status {
            FanOutStatus::Done => spread.command.count,
            FanOutStatus::Failed => {
                assert!(spread.command.fails_at.is_some(), "seed {seed}: {record:?}");
                continue;
            }
            FanOutStatus::Canceled => continue,
            FanOutStatus::Running => {
                let queued = world.counts().await.queued;
                assert!(
                    queued >= options.max_queued / 2,
                    "seed {seed}: it stands still"
                );
                continue;
            }
        };
        assert_eq!(made, count, "seed {seed}");
        for number in 0..count {
            let text = format!("{}note {number}", spread.command.name);
            let effects = world.script.effects();
            let effects = effects.iter().filter(|effect| **effect == text).count();
            let ended = records.get(&text).map(|record| record.status);
            assert!(
                effects >= 1 || ended != Some(Status::Sent),
                "seed {seed}: {text} had no effect"
            );
        }
    }
}

pub(super) async fn fan_outs_run(world: &World) -> bool {
    let all = world.sender().fan_outs().await.unwrap();
    all.iter()
        .any(|record| record.status == FanOutStatus::Running)
}
