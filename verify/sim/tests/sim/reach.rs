//! The plans reach what the checkers look at: a promise that nothing tries is not kept but idle.

use std::collections::BTreeMap;

use abide_sim::{
    Plan, expect_panics,
    history::{Event, MessageState, Outcome},
    run,
};

/// What an event shows to have been tried.
fn kinds(event: &Event) -> Vec<String> {
    match event {
        Event::Ended(_, outcome) => vec![
            match outcome {
                Outcome::Placed(_) => "an append that was acknowledged",
                Outcome::List(_) => "a list that was read",
                Outcome::Done => "an operation that was done",
                Outcome::State(None) => "a slate without a value",
                Outcome::State(Some(_)) => "a slate with a value",
                Outcome::NotRun(_) => "an operation that never ran",
                Outcome::Undone(_) => "an operation that was undone",
                Outcome::Unknown(_) => "an operation that may have run",
            }
            .to_owned(),
        ],
        Event::Seen { by, .. } => vec![format!("news by {by:?}")],
        Event::Said(..) => vec!["a message to an object".to_owned()],
        Event::Wiped(_) => vec!["a slate that its alarm wipes".to_owned()],
        Event::Exists { found, .. } => vec![format!("a slate that exists: {found}")],
        Event::Rang { .. } => vec!["an alarm".to_owned()],
        Event::Copies(true) => vec!["a log that is copied before it counts".to_owned()],
        Event::Copied(_) => vec!["a log that is copied".to_owned()],
        Event::Died(death) => vec![format!("death by {death:?}")],
        Event::Tried(_, _, attempt, ..) if *attempt > 1 => vec!["a second attempt".to_owned()],
        Event::Posted(_, messages) => {
            let state = |message: &abide_sim::history::OutboxMessage| {
                format!("a message {:?}", message.state)
            };
            assert!(
                messages
                    .iter()
                    .all(|message| message.state != MessageState::Open)
            );
            messages.iter().map(state).collect()
        }
        _ => Vec::new(),
    }
}

const WANTED: [&str; 28] = [
    "an append that was acknowledged",
    "a list that was read",
    "an operation that was done",
    "a slate without a value",
    "a slate with a value",
    "a slate that its alarm wipes",
    "a slate that exists: true",
    "a slate that exists: false",
    "an operation that never ran",
    "an operation that was undone",
    "an operation that may have run",
    "news by Answer",
    "news by Call",
    "news by Request",
    "news by Frame",
    "a message to an object",
    "an alarm",
    "death by Kill",
    "death by PowerLoss",
    "death by Stop",
    "death by Failure",
    "death by Loss",
    "a log that is copied",
    "a log that is copied before it counts",
    "a second attempt",
    "a message Sent",
    "a message Dead",
    "a message Behind",
];

#[test]
fn everything_that_is_promised_is_tried_again_and_again() {
    expect_panics();
    let mut reached: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..300 {
        for kind in run(&Plan::new(seed, None)).events().iter().flat_map(kinds) {
            *reached.entry(kind).or_default() += 1;
        }
    }
    let rare: Vec<_> = WANTED
        .iter()
        .filter(|kind| reached.get(**kind).is_none_or(|count| *count < 2))
        .collect();
    assert!(rare.is_empty(), "hardly tried: {rare:?} of {reached:#?}");
}
