//! The checkers are tested: each mutant of the product, and each machine that lies, must be caught by the checker of the
//! promise that it breaks, and each checker must have caught one. A property that nothing here breaks is unproven.
//!
//! `ABIDE_SIM_MUTANTS=Name,Name` runs only these mutants; `ABIDE_MUTANT_SEEDS` says how many seeds each gets.

mod lies;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use abide_mutants::catalog;
use abide_sim::{
    Focus, HonestMachine, Machine, Plan, checkers::PROPERTIES, history::History, run_on, simulate,
};

use lies::Lie;

const SURVIVE: &str = "acknowledged writes survive";
const RELEASED: &str = "nothing leaves an object before its writes are durable";
const STARTS: &str = "the node starts, continues and answers";
const ALARMS: &str = "alarms go off at least once and never before their time";

/// Seeds after which a fault counts as not caught.
const MOST_SEEDS: u64 = 2_000;

/// Threads that hunt. A fault is on one thread only.
const HUNTERS: usize = 2;

/// What is wrong: the product, or the machine below.
#[derive(Clone, Debug)]
enum Fault {
    Product(Box<abide_mutants::Mutant>),
    Machine(Lie),
}

impl Fault {
    fn name(&self) -> String {
        match self {
            Self::Product(mutant) => mutant.name.clone(),
            Self::Machine(lie) => format!("{lie:?}"),
        }
    }

    /// Runs a plan with it.
    fn run(&self, plan: &Plan) -> History {
        match self {
            Self::Product(mutant) => {
                let with = mutant.with.iter().chain([&mutant.name]);
                let _on = mutant::Selected::begin(with.map(|name| &**name));
                run_on(plan, &HonestMachine)
            }
            Self::Machine(lie) => run_on(plan, lie as &dyn Machine),
        }
    }

    /// What plans are to be about, so that it shows soon if it otherwise shows in rare schedules only.
    fn focus(&self) -> Option<Focus> {
        let Self::Product(mutant) = self else {
            return None;
        };
        Some(match mutant.focus.as_deref()? {
            "log" => Focus::Log,
            "alarms" => Focus::Alarms,
            "sockets" => Focus::Sockets,
            "dead letters" => Focus::DeadLetters,
            "slates" => Focus::Slates,
            "copies" => Focus::Copies,
            other => panic!("plans have no focus {other}"),
        })
    }

    /// The property that it is to violate.
    fn property(&self) -> &str {
        match self {
            Self::Product(mutant) => mutant.property.as_deref().expect("a property"),
            Self::Machine(lie) => of_machine(*lie),
        }
    }
}

/// The mutants that the simulation must catch. What it does not look at, tests of the crates catch: what the archive
/// restores, repairs, the memory budget, bounds of what is stored and made, alarms that are given up.
fn mutants() -> Vec<Fault> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mutants = catalog::read(&root).expect("the files of mutants");
    let caught_here = mutants
        .into_iter()
        .filter(|mutant| mutant.property.is_some());
    caught_here.map(Box::new).map(Fault::Product).collect()
}

fn lies() -> Vec<Fault> {
    Lie::ALL.iter().copied().map(Fault::Machine).collect()
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
fn hunt(fault: &Fault, most: u64) -> Result<(u64, String), Vec<String>> {
    let mut others = Vec::new();
    for seed in 1..=most {
        let plan = Plan::new(seed, fault.focus());
        let history = catch_unwind(AssertUnwindSafe(|| fault.run(&plan)));
        // What is broken may break anything: only the property counts.
        let Ok(history) = history else {
            others.push(format!("seed {seed} panics"));
            continue;
        };
        let events = history.events();
        for violation in PROPERTIES.iter().filter_map(|p| p.check(&events).err()) {
            if violation.property == fault.property() {
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
#[ignore = "needs the mutants: just mutants"]
fn every_mutant_is_caught_by_its_checker() {
    let wanted = setting("ABIDE_SIM_MUTANTS");
    let is_wanted = |mutant: &Fault| match &wanted {
        Some(wanted) => wanted.split(',').any(|name| name == mutant.name()),
        None => true,
    };
    let mutants: Vec<_> = mutants().into_iter().filter(is_wanted).collect();
    all_are_caught(&mutants);
}

#[test]
fn every_machine_that_lies_is_caught() {
    all_are_caught(&lies());
}

fn all_are_caught(faults: &[Fault]) {
    silence_the_hunters();
    let most =
        setting("ABIDE_MUTANT_SEEDS").map_or(MOST_SEEDS, |seeds| seeds.parse().expect("a number"));
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..HUNTERS {
            let hunter = thread::Builder::new().name(HUNTER.to_owned());
            let hunting = hunter.spawn_scoped(scope, || {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (name, property) = (fault.name(), fault.property());
                    let begun = Instant::now();
                    let caught = hunt(fault, most);
                    let seconds = begun.elapsed().as_secs_f64();
                    match caught {
                        Ok((seeds, what)) => {
                            println!(
                                "{name}: {property}: {seeds} seeds, {seconds:.1} s: {what:.100}"
                            );
                        }
                        Err(others) => {
                            let others: Vec<_> = others.iter().take(5).collect();
                            let text = format!("{name}: not {property}, but {others:#?}");
                            missed.lock().expect("no hunter panicked").push(text);
                        }
                    }
                }
            });
            hunting.expect("a thread");
        }
    });
    let missed = missed.into_inner().expect("no hunter panicked");
    assert!(missed.is_empty(), "not caught in {most} seeds: {missed:#?}");
}

#[test]
fn every_property_is_violated_by_a_fault() {
    let faults = [mutants(), lies()].concat();
    let violated: BTreeSet<&str> = faults.iter().map(Fault::property).collect();
    let known: BTreeSet<&str> = PROPERTIES.iter().map(|property| property.name).collect();
    assert_eq!(violated, known);
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
