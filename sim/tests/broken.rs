//! The checkers are tested: each deliberately broken variant of the product must be caught by the checker of the promise
//! that it breaks, and each checker must have caught one. A property that nothing here breaks is unproven.
//!
//! `ABIDE_BROKEN=Variant,Variant` runs only these, elusive ones too; `ABIDE_BROKEN_SEEDS` says how many seeds each gets.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use abide::broken::{Broken, Variant};
use abide_sim::{Focus, Plan, checkers::PROPERTIES, run, simulate};

const SURVIVE: &str = "acknowledged writes survive";
const WHOLE: &str = "unacknowledged writes are whole or absent";
const RELEASED: &str = "nothing leaves an object before its writes are durable";
const SINGLE: &str = "an object has one instance at a time";
const LINEAR: &str = "each object's history is linearizable";
const STARTS: &str = "the node starts, goes on and answers";
const ALARMS: &str = "alarms go off at least once and never before their time";
const SOCKETS: &str = "a socket's messages keep their order";
const OUTBOX: &str =
    "messages of an outbox are never lost, repeated without need or out of their keys' order";
const KEYED: &str = "a call with an idempotency key is applied once";

/// Seeds after which a variant counts as not caught.
const MOST_SEEDS: u64 = 2_000;

/// Threads that hunt. A variant is broken on one thread only.
const HUNTERS: usize = 2;

/// What plans are to be about, so that a variant shows soon that otherwise shows in rare schedules only.
fn focus(variant: Variant) -> Option<Focus> {
    match variant {
        Variant::OldRecordsTaken => Some(Focus::Log),
        Variant::AlarmDeletedFirst => Some(Focus::Alarms),
        Variant::SocketsForgotten | Variant::MessageOvertakes | Variant::MessagesDropped => {
            Some(Focus::Sockets)
        }
        Variant::DeadLetterPassed => Some(Focus::DeadLetters),
        _ => None,
    }
}

/// The property that a variant is to break; none for those of the archive, which the simulation does not restore from: the
/// storage engine's `archive_crash` hunts for them.
fn broken_by(variant: Variant) -> Option<&'static str> {
    Some(match variant {
        Variant::GroupUnsynced
        | Variant::FailedSyncIgnored
        | Variant::RedoTooFar
        | Variant::OverlayDroppedEarly
        | Variant::FilesUnsynced
        | Variant::NamesUnsynced => SURVIVE,
        Variant::PartTaken
        | Variant::PollSplit
        | Variant::RollbackForgotten
        | Variant::PanicCommits
        | Variant::MaybeRanSaysNever => WHOLE,
        Variant::AckBeforeSync
        | Variant::AnswersNotHeld
        | Variant::CallsNotHeld
        | Variant::RequestsNotHeld
        | Variant::FramesNotHeld
        | Variant::UnconfirmedForgotten => RELEASED,
        Variant::InstanceEach | Variant::ResetLeavesOld => SINGLE,
        Variant::InputGateOpen => LINEAR,
        Variant::FailedSyncRetried
        | Variant::HeaderUnsynced
        | Variant::RecoveredUnsynced
        | Variant::PayloadUnchecked
        | Variant::OldRecordsTaken
        | Variant::FileBeforeLog
        | Variant::ManifestUnsynced
        | Variant::FloorNotRaised
        | Variant::SegmentsFreedEarly => STARTS,
        Variant::AlarmForgottenByRecovery
        | Variant::AlarmForgottenByCheckpoint
        | Variant::AlarmNotPutBack
        | Variant::AlarmEarly
        | Variant::ClockNeverBack
        | Variant::AlarmDeletedFirst
        | Variant::AlarmDeletedOnError => ALARMS,
        Variant::FrameOvertakes
        | Variant::FrameDoubled
        | Variant::SocketsForgotten
        | Variant::MessageOvertakes
        | Variant::MessagesDropped => SOCKETS,
        Variant::SendBeforeDurable
        | Variant::RefusedMeansSent
        | Variant::ClaimForgotten
        | Variant::DeadLetterLost
        | Variant::OrderIgnored
        | Variant::DeadLetterPassed
        | Variant::NewKeyOnRetry
        | Variant::SentTwice
        | Variant::RetryAtOnce
        | Variant::FanOutSkips
        | Variant::FanOutRepeats => OUTBOX,
        Variant::KeyForgotten => KEYED,
        Variant::HistorySkipped
        | Variant::RunUnsynced
        | Variant::MergeDropsNewest
        | Variant::RunsRemovedEarly
        | Variant::FoldEarly
        | Variant::SnapshotAhead
        | Variant::RestoreNotAwaited
        | Variant::RestoreInParts => return None,
    })
}

/// Runs seeds until the property is found broken; returns how many it took, and what was found.
fn hunt(variant: Variant, property: &str, most: u64) -> Result<(u64, String), Vec<String>> {
    let mut others = Vec::new();
    for seed in 1..=most {
        let plan = Plan::new(seed, focus(variant));
        let history = catch_unwind(AssertUnwindSafe(|| {
            let _broken = Broken::begin(variant);
            run(&plan)
        }));
        // What is broken may break anything: only the property counts.
        let Ok(history) = history else {
            others.push(format!("seed {seed} panics"));
            continue;
        };
        let events = history.events();
        for violation in PROPERTIES.iter().filter_map(|p| p.check(&events).err()) {
            if violation.property == property {
                let whole = simulate(&plan).violation;
                assert_eq!(
                    whole, None,
                    "seed {seed} finds fault with what is not broken"
                );
                return Ok((seed, violation.text));
            }
            others.push(format!(
                "seed {seed}: {}: {}",
                violation.property, violation.text
            ));
        }
    }
    Err(others)
}

#[test]
fn every_broken_variant_is_caught_by_the_checker_of_its_promise() {
    silence_the_hunters();
    let most = setting("ABIDE_BROKEN_SEEDS").map_or(MOST_SEEDS, |seeds| seeds.parse().unwrap());
    let wanted = setting("ABIDE_BROKEN");
    let is_wanted = |variant: Variant| match &wanted {
        Some(wanted) => wanted.split(',').any(|name| name == format!("{variant:?}")),
        None => true,
    };
    let variants: Vec<(Variant, &str)> = Variant::ALL
        .iter()
        .filter(|variant| is_wanted(**variant))
        .filter_map(|variant| Some((*variant, broken_by(*variant)?)))
        .collect();
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..HUNTERS {
            let hunter = thread::Builder::new().name(HUNTER.to_owned());
            let hunting = hunter.spawn_scoped(scope, || {
                while let Some(&(variant, property)) = variants.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let caught = hunt(variant, property, most);
                    let seconds = begun.elapsed().as_secs_f64();
                    match caught {
                        Ok((seeds, what)) => {
                            println!("{variant:?}: {property}: {seeds} seeds, {seconds:.1} s: {what:.100}");
                        }
                        Err(others) => {
                            let others: Vec<_> = others.iter().take(5).collect();
                            missed.lock().unwrap().push(format!("{variant:?}: not {property}, but {others:#?}"));
                        }
                    }
                }
            });
            hunting.unwrap();
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not caught in {most} seeds: {missed:#?}");
}

#[test]
fn every_property_has_a_variant_that_breaks_it() {
    let broken: BTreeSet<&str> = Variant::ALL
        .iter()
        .filter_map(|variant| broken_by(*variant))
        .collect();
    let known: BTreeSet<&str> = PROPERTIES.iter().map(|property| property.name).collect();
    assert_eq!(broken, known);
}

const HUNTER: &str = "hunter";

/// A broken product panics, and nobody wants to read of it.
fn silence_the_hunters() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if thread::current().name() != Some(HUNTER) {
            report(panic);
        }
    }));
}

fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
