//! Runs many seeds on many threads.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use abide_cluster_sim::{Plan, simulate};
use clap::Parser;

/// Simulated clusters, each from one seed
#[derive(Parser)]
struct Args {
    /// Number of seeds
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Number of threads; each runs different seeds
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

fn main() -> ExitCode {
    let Args { seeds, from, jobs } = Args::parse();
    let (next, failed) = (AtomicU64::new(from), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + seeds {
                return;
            }
            let plan = Plan::new(seed);
            if let Err(violation) = simulate(&plan) {
                failed.fetch_add(1, Ordering::Relaxed);
                println!("seed {seed}: {violation}\n{plan:?}");
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    println!("{seeds} seeds from {from}: {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}
