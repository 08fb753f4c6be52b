//! Messages of an outbox are never lost; those with an ordering key take effect in order; an effect is repeated only if
//! a response was lost, and an attempt only after its wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{
    Act, Event, MessageState, Moment, Op, OpId, OutboxMessage, Outcome, SenderNo, Value,
};

/// The first of the waits between attempts, in milliseconds.
const SHORTEST_WAIT: u64 = 1_000;

pub(super) fn check(events: &[Event]) -> Result<(), String> {
    let posted: BTreeMap<SenderNo, &[OutboxMessage]> = events
        .iter()
        .filter_map(|event| match event {
            Event::Posted(sender, messages) => Some((*sender, messages.as_slice())),
            _ => None,
        })
        .collect();
    lost(events, &posted)?;
    ordered(events, &posted)?;
    in_time(events)?;
    repeated(events, &posted)
}

/// Every acknowledged message exists, once, and has reached a final state.
fn lost(events: &[Event], posted: &BTreeMap<SenderNo, &[OutboxMessage]>) -> Result<(), String> {
    let mut ops: BTreeMap<OpId, &Op> = BTreeMap::new();
    for event in events {
        match event {
            Event::Began(id, op) => {
                ops.insert(*id, op);
            }
            Event::Ended(id, outcome) => {
                let (sender, values) = match ops.get(id) {
                    Some(Op::Post(sender, _, value, ..)) => (sender, std::slice::from_ref(value)),
                    Some(Op::Circulate(sender, values)) => (sender, values.as_slice()),
                    _ => continue,
                };
                let Some(messages) = posted.get(sender) else {
                    continue;
                };
                for value in values {
                    let count = messages
                        .iter()
                        .filter(|message| message.value == *value)
                        .count();
                    let right = match outcome {
                        Outcome::Done => count == 1,
                        Outcome::NotRun(_) | Outcome::Undone(_) => count == 0,
                        _ => count <= 1,
                    };
                    if !right {
                        return Err(format!(
                            "message {value} of sender {sender}, answered with {outcome:?}, is there {count} times"
                        ));
                    }
                }
            }
            _ => {}
        }
    }
    let took: BTreeSet<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Took(sender, value) => Some((*sender, *value)),
            _ => None,
        })
        .collect();
    for (sender, messages) in posted {
        for message in *messages {
            let ended = match message.state {
                MessageState::Sent => took.contains(&(*sender, message.value)),
                MessageState::Dead => true,
                MessageState::Behind => messages
                    .iter()
                    .any(|other| other.state == MessageState::Dead && other.key == message.key),
                MessageState::Open => false,
            };
            if !ended {
                return Err(format!(
                    "{message:?} of sender {sender} has not come to its end"
                ));
            }
        }
    }
    Ok(())
}

/// Within a key nothing takes effect after its successor.
fn ordered(events: &[Event], posted: &BTreeMap<SenderNo, &[OutboxMessage]>) -> Result<(), String> {
    let mut reached: BTreeMap<(SenderNo, &str), usize> = BTreeMap::new();
    for event in events {
        let Event::Took(sender, value) = event else {
            continue;
        };
        let Some(messages) = posted.get(sender) else {
            continue;
        };
        let Some(place) = messages.iter().position(|message| message.value == *value) else {
            return Err(format!(
                "message {value} of sender {sender} took effect, and the outbox does not know it"
            ));
        };
        if let Some(key) = &messages[place].key {
            let before = reached.insert((*sender, key), place);
            if before.is_some_and(|before| before > place) {
                return Err(format!(
                    "message {value} of sender {sender} took effect after its successor under {key:?}"
                ));
            }
        }
    }
    Ok(())
}

/// There is at least the shortest wait between two attempts, unless the clock was set or a redrive was requested.
fn in_time(events: &[Event]) -> Result<(), String> {
    let mut last: BTreeMap<(SenderNo, Value), Moment> = BTreeMap::new();
    for event in events {
        match event {
            Event::Clock(_) | Event::Began(_, Op::Redrive(_)) => last.clear(),
            Event::Tried(sender, value, _, _, now) => {
                let before = last.insert((*sender, *value), *now);
                if let Some(before) = before
                    && now.0 < before.0 + SHORTEST_WAIT
                {
                    return Err(format!(
                        "message {value} of sender {sender} was tried again after {} ms",
                        now.0 - before.0
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A message takes effect once, and once more for each response that the receiver lost and for each life of its outbox
/// that ended.
/// All attempts have one idempotency key, and each is counted before it is made; a throttled one is not counted.
fn repeated(events: &[Event], posted: &BTreeMap<SenderNo, &[OutboxMessage]>) -> Result<(), String> {
    let mut lost: BTreeMap<Value, usize> = BTreeMap::new();
    let mut throttled: BTreeMap<Value, u32> = BTreeMap::new();
    let mut took: BTreeMap<(SenderNo, Value), usize> = BTreeMap::new();
    let mut tried: BTreeMap<(SenderNo, Value), (u32, &str)> = BTreeMap::new();
    let mut lives: BTreeMap<SenderNo, usize> = BTreeMap::new();
    let mut redriven = BTreeSet::new();
    for event in events {
        match event {
            Event::Began(_, Op::Post(_, _, value, _, acts)) => {
                let count = |wanted| acts.iter().filter(|act| **act == wanted).count();
                lost.insert(*value, count(Act::Lose));
                throttled.insert(*value, count(Act::Throttle) as u32);
            }
            Event::Opened(sender) => *lives.entry(*sender).or_default() += 1,
            // Its attempts are counted from zero.
            Event::Began(_, Op::Redrive(sender)) => {
                redriven.insert(*sender);
            }
            Event::Took(sender, value) => *took.entry((*sender, *value)).or_default() += 1,
            Event::Tried(sender, value, _, key, _) => {
                let (count, before) = tried.entry((*sender, *value)).or_insert((0, key));
                *count += 1;
                // A redriven dead letter is another message, unless it may have taken effect.
                let another = redriven.contains(sender) && !took.contains_key(&(*sender, *value));
                if *before != key && !another {
                    return Err(format!(
                        "message {value} of sender {sender} was tried under the keys {before} and {key}"
                    ));
                }
                *before = key;
            }
            _ => {}
        }
    }
    for ((sender, value), count) in took {
        let lost = lost.get(&value).copied().unwrap_or(0);
        let lives = lives.get(&sender).copied().unwrap_or(0);
        if count > lost + lives {
            return Err(format!(
                "message {value} of sender {sender} took effect {count} times, and {lost} answers were lost in {lives} lives of the outbox"
            ));
        }
    }
    for (sender, messages) in posted {
        if redriven.contains(sender) {
            continue;
        }
        for message in *messages {
            let count = tried
                .get(&(*sender, message.value))
                .map_or(0, |(count, _)| *count);
            let throttled = throttled.get(&message.value).copied().unwrap_or(0);
            if count > message.attempts + throttled {
                return Err(format!(
                    "{message:?} of sender {sender} was tried {count} times"
                ));
            }
        }
    }
    Ok(())
}
