//! The checkers are tested: each deliberately broken variant of the product, and each machine that lies, must be caught by the
//! checker of the promise that it breaks, and each checker must have caught one. A property that nothing here breaks is unproven.
//!
//! `ABIDE_BROKEN=Variant,Variant` runs only these, elusive ones too; `ABIDE_BROKEN_SEEDS` says how many seeds each gets.

mod lies;

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

use abide::broken::{runtime, storage};
use abide::outbox::broken as outbox;
use abide_sim::{Focus, HonestMachine, Machine, Plan, checkers::PROPERTIES, run_on, simulate};

use lies::Lie;

const SURVIVE: &str = "acknowledged writes survive";
const WHOLE: &str = "unacknowledged writes are whole or absent";
const RELEASED: &str = "nothing leaves an object before its writes are durable";
const SINGLE: &str = "an object has one instance at a time";
const LINEAR: &str = "each object's history is linearizable";
const STARTS: &str = "the node starts, continues and answers";
const ALARMS: &str = "alarms go off at least once and never before their time";
const SOCKETS: &str = "a socket's messages keep their order";
const OUTBOX: &str =
    "messages of an outbox are never lost, repeated without need or out of their keys' order";
const KEYED: &str = "a call with an idempotency key is applied once";

/// Seeds after which a variant counts as not caught.
const MOST_SEEDS: u64 = 2_000;

/// Threads that hunt. A variant is broken on one thread only.
const HUNTERS: usize = 2;

/// What is broken: code of a crate, or the machine below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Storage(storage::Variant),
    Runtime(runtime::Variant),
    Outbox(outbox::Variant),
    Machine(Lie),
}

impl Broken {
    fn all() -> impl Iterator<Item = Self> {
        let storage = storage::Variant::ALL.iter().copied().map(Self::Storage);
        let runtime = runtime::Variant::ALL.iter().copied().map(Self::Runtime);
        let outbox = outbox::Variant::of("outbox").iter().copied();
        let machine = Lie::ALL.iter().copied().map(Self::Machine);
        storage
            .chain(runtime)
            .chain(outbox.map(Self::Outbox))
            .chain(machine)
    }

    /// The name without the crate's.
    fn name(self) -> String {
        match self {
            Self::Storage(variant) => format!("{variant:?}"),
            Self::Runtime(variant) => format!("{variant:?}"),
            Self::Outbox(variant) => format!("{variant:?}"),
            Self::Machine(lie) => format!("{lie:?}"),
        }
    }

    /// Runs a plan with it.
    fn run(self, plan: &Plan) -> abide_sim::history::History {
        let machine: &dyn Machine = match &self {
            Self::Machine(lie) => lie,
            _ => &HonestMachine,
        };
        let _storage = match self {
            Self::Storage(variant) => Some(storage::Broken::begin(variant)),
            // The storage engine would refuse the second instance.
            Self::Runtime(runtime::Variant::InstanceEach | runtime::Variant::ResetLeavesOld) => {
                Some(storage::Broken::begin(storage::Variant::OpenedTwice))
            }
            _ => None,
        };
        let _runtime = match self {
            Self::Runtime(variant) => Some(runtime::Broken::begin(variant)),
            _ => None,
        };
        let _outbox = match self {
            Self::Outbox(variant) => Some(outbox::Broken::begin(variant)),
            _ => None,
        };
        run_on(plan, machine)
    }

    /// What plans are to be about, so that it shows soon if it otherwise shows in rare schedules only.
    fn focus(self) -> Option<Focus> {
        use outbox::Variant as Outbox;
        use runtime::Variant as Runtime;
        match self {
            Self::Storage(storage::Variant::OldRecordsTaken) => Some(Focus::Log),
            Self::Runtime(Runtime::AlarmDeletedFirst) => Some(Focus::Alarms),
            Self::Runtime(
                Runtime::SocketsForgotten | Runtime::MessageOvertakes | Runtime::MessagesDropped,
            ) => Some(Focus::Sockets),
            Self::Outbox(Outbox::DeadLetterPassed) => Some(Focus::DeadLetters),
            _ => None,
        }
    }

    /// The property that it is to break. None for those that the simulation does not look at, which tests of the crates
    /// catch: what the archive restores, repairs, the memory budget, bounds of what is stored and made, alarms that are given up. `OpenedTwice` alone breaks
    /// nothing: the runtime asks for one instance.
    fn property(self) -> Option<&'static str> {
        match self {
            Self::Storage(variant) => of_storage(variant),
            Self::Runtime(variant) => of_runtime(variant),
            Self::Outbox(_) => Some(OUTBOX),
            Self::Machine(lie) => Some(of_machine(lie)),
        }
    }
}

fn of_storage(variant: storage::Variant) -> Option<&'static str> {
    use storage::Variant as V;
    Some(match variant {
        V::RedoTooFar | V::OverlayDroppedEarly => SURVIVE,
        V::PartTaken | V::RollbackForgotten => WHOLE,
        V::PayloadUnchecked
        | V::OldRecordsTaken
        | V::FileBeforeLog
        | V::HorizonNotAdvanced
        | V::SegmentsFreedEarly => STARTS,
        V::AlarmForgottenByRecovery | V::AlarmForgottenByCheckpoint | V::AlarmNotPutBack => ALARMS,
        V::HistorySkipped
        | V::MergeDropsNewest
        | V::RunsRemovedEarly
        | V::FoldEarly
        | V::SnapshotAhead
        | V::RestoreNotAwaited
        | V::RestoreInParts
        | V::OpenedTwice
        | V::AddedPageUnlogged
        | V::HistoryGivenUpEarly
        | V::QuarantineKept
        | V::BudgetIgnored
        | V::ObjectBoundIgnored
        | V::StoreBoundIgnored
        | V::GrowthNotCounted
        | V::CrashCountsForAll
        | V::ClockSetBackIgnored
        | V::ClockSetBackForgotten
        | V::ClockSetBackNotSaved
        | V::ClockSetBackBefore
        | V::LastAlarmFirst
        | V::SuspectClearedByAnother
        | V::RestoreWaitsForEvent
        | V::DormantAlarmFires => return None,
    })
}

fn of_runtime(variant: runtime::Variant) -> Option<&'static str> {
    use runtime::Variant as V;
    Some(match variant {
        V::PanicCommits | V::MaybeRanSaysNever => WHOLE,
        V::AnswersNotHeld
        | V::CallsNotHeld
        | V::RequestsNotHeld
        | V::FramesNotHeld
        | V::UnconfirmedForgotten => RELEASED,
        V::InstanceEach | V::ResetLeavesOld => SINGLE,
        V::InputGateOpen => LINEAR,
        V::AlarmDeletedFirst | V::AlarmDeletedOnError => ALARMS,
        V::FrameOvertakes | V::SocketsForgotten | V::MessageOvertakes | V::MessagesDropped => {
            SOCKETS
        }
        V::KeyForgotten => KEYED,
        V::CreationUncounted | V::TimelineUntold | V::FreshKeepsWork => return None,
    })
}

fn of_machine(lie: Lie) -> &'static str {
    match lie {
        Lie::LogSyncedLate => RELEASED,
        Lie::LogUnsynced | Lie::FailedSyncIgnored | Lie::FilesUnsynced | Lie::NamesUnsynced => {
            SURVIVE
        }
        Lie::FailedSyncRetried
        | Lie::HeaderUnsynced
        | Lie::RecoveredUnsynced
        | Lie::ManifestUnsynced => STARTS,
        Lie::ClockNeverBack | Lie::ClockFast => ALARMS,
    }
}

/// Runs seeds until the property is found broken; returns how many it took, and what was found.
fn hunt(variant: Broken, property: &str, most: u64) -> Result<(u64, String), Vec<String>> {
    let mut others = Vec::new();
    for seed in 1..=most {
        let plan = Plan::new(seed, variant.focus());
        let history = catch_unwind(AssertUnwindSafe(|| variant.run(&plan)));
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
    let is_wanted = |variant: &Broken| match &wanted {
        Some(wanted) => wanted.split(',').any(|name| name == variant.name()),
        None => true,
    };
    let variants: Vec<(Broken, &str)> = Broken::all()
        .filter(is_wanted)
        .filter_map(|variant| Some((variant, variant.property()?)))
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
    let broken: BTreeSet<&str> = Broken::all().filter_map(Broken::property).collect();
    let known: BTreeSet<&str> = PROPERTIES.iter().map(|property| property.name).collect();
    assert_eq!(broken, known);
}

const HUNTER: &str = "hunter";

/// A broken product panics, and its output is of no interest.
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
