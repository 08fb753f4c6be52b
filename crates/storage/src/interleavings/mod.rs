//! Runs a model under a checker that decides at each lock, atomic and wait which thread runs next. Schedules are
//! random; half of them have only a few thread switches, which finds rare orders sooner. A failing model reports its
//! schedule.
//!
//! A model can reveal a lost wake-up, a deadlock, or an order that breaks a guarantee. It cannot reveal memory orders
//! weaker than sequential consistency, nor waits that only a timeout ends (no time passes in a model, so these
//! deadlock).

#[cfg(test)]
mod store;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
pub use shuttle::thread::{spawn, yield_now};
use shuttle::{Config, MaxSteps, Runner};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Thread switches in a schedule with few of them.
const FEW_SWITCHES: usize = 3;

/// SQLite runs on the stack of a model's thread.
const STACK_BYTES: usize = 512 << 10;

/// More steps than any terminating model takes.
const MAX_STEPS: usize = 200_000;

/// Runs a model with this many schedules, times `ABIDE_INTERLEAVINGS`.
pub fn explore(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("ABIDE_INTERLEAVINGS");
    let times = times.map_or(1, |times| times.parse().expect("a number"));
    let schedules: usize = schedules * times;
    let model = Arc::new(model);
    let begun = Arc::new(AtomicUsize::new(0));
    let both = catch_unwind(AssertUnwindSafe(|| {
        for few_switches in [false, true] {
            let mut config = Config::new();
            config.stack_size = STACK_BYTES;
            config.max_steps = MaxSteps::FailAfter(MAX_STEPS);
            let (model, begun) = (model.clone(), begun.clone());
            let counted = move || {
                begun.fetch_add(1, Ordering::Relaxed);
                model();
            };
            if few_switches {
                let few = PctScheduler::new(FEW_SWITCHES, schedules / 2);
                Runner::new(few, config).run(counted);
            } else {
                Runner::new(RandomScheduler::new(schedules / 2), config).run(counted);
            }
        }
    }));
    if let Err(panic) = both {
        eprintln!("it failed with schedule {}", begun.load(Ordering::Relaxed));
        resume_unwind(panic);
    }
}

/// A panic without a message on standard error: models make many of them.
pub fn quiet_panic() -> ! {
    resume_unwind(Box::new("on purpose"))
}
