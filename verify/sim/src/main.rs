//! `abide-sim run` runs many seeds, `abide-sim replay` one.

use std::{
    ops::Range,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use abide_sim::{Focus, Plan, Violation, expect_panics, shrink::shortest, simulate};
use clap::{Parser, Subcommand};

/// A whole node in a deterministic simulation, from one seed.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs many seeds; fails if one violates a guarantee
    Run {
        /// Number of seeds
        #[arg(long, default_value_t = 1_000)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Number of threads; each runs different seeds
        #[arg(long, default_value_t = 1)]
        jobs: u64,
        /// Stops after this many failures
        #[arg(long, default_value_t = 3)]
        failures: usize,
        /// Focus of half of all steps
        #[arg(long)]
        focus: Option<Focus>,
    },
    /// Runs one seed and prints its steps; if it violates a guarantee, the shortest schedule that still does
    Replay {
        /// The seed
        seed: u64,
        /// Prints all observations
        #[arg(long)]
        events: bool,
        /// Focus of half of all steps
        #[arg(long)]
        focus: Option<Focus>,
    },
    /// Prints a hash of each seed's history
    Fingerprints {
        /// Number of seeds, from 0
        #[arg(long, default_value_t = 50)]
        seeds: u64,
    },
}

fn main() -> ExitCode {
    expect_panics();
    match Args::parse().command {
        Command::Run {
            seeds,
            from,
            jobs,
            failures,
            focus,
        } => run(from..from + seeds, focus, jobs.max(1), failures),
        Command::Replay {
            seed,
            events,
            focus,
        } => replay(&Plan::new(seed, focus), events),
        Command::Fingerprints { seeds } => {
            for seed in 0..seeds {
                println!("{:016x}", simulate(&Plan::varied(seed)).fingerprint);
            }
            ExitCode::SUCCESS
        }
    }
}

fn run(seeds: Range<u64>, focus: Option<Focus>, jobs: u64, most: usize) -> ExitCode {
    let begun = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let failures: Mutex<Vec<(Plan, Violation)>> = Mutex::default();
    let failed = || failures.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end || failed().len() >= most {
            break;
        }
        let plan = Plan::new(seed, focus);
        if let Some(violation) = simulate(&plan).violation {
            println!(
                "{}: {}: {}",
                plan.name(),
                violation.property,
                violation.text
            );
            failed().push((plan, violation));
        }
    };
    let done = || next.load(Ordering::Relaxed).min(seeds.end) - seeds.start;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let mut reported = begun;
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
            if reported.elapsed() >= Duration::from_secs(30) {
                reported = Instant::now();
                let done = done();
                let rate = done as f64 / begun.elapsed().as_secs_f64();
                println!("{done} seeds, {rate:.0}/s, {} failed", failed().len());
            }
        }
    });
    let done = done();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{done} seeds from {} in {seconds:.1} s ({:.0}/s): {} violated a guarantee",
        seeds.start,
        done as f64 / seconds,
        failed().len()
    );
    let failures = failed();
    let Some((plan, violation)) = failures.first() else {
        return ExitCode::SUCCESS;
    };
    tell(plan, violation);
    ExitCode::FAILURE
}

fn replay(plan: &Plan, events: bool) -> ExitCode {
    println!("{plan}");
    let history = abide_sim::run(plan);
    if events {
        for event in history.events() {
            println!("  {event:?}");
        }
    }
    println!("fingerprint {:016x}", history.fingerprint());
    match abide_sim::checkers::check(&history.events()) {
        Ok(()) => {
            println!("every guarantee was kept");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            tell(plan, &violation);
            ExitCode::FAILURE
        }
    }
}

/// Prints a failure as briefly as possible.
fn tell(plan: &Plan, violation: &Violation) {
    let short = shortest(plan, violation.property);
    let why = simulate(&short).violation;
    println!("\nbroken: {}", violation.property);
    println!("{}", why.map_or(String::new(), |violation| violation.text));
    println!(
        "by these {} steps of {}:\n{short}",
        short.steps.len(),
        plan.steps.len()
    );
    println!(
        "replay it with: abide-sim replay {}, and the same --focus",
        plan.seed
    );
}
