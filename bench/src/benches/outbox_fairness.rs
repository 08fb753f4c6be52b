//! (s) How long messages of an outbox wait beyond the time at which they are due, by priority, and for first attempts and
//! repetitions, under more load than the rate of their destination.

use std::time::Duration;

use abide::outbox::{Priority, Registry};
use abide::server::Host;
use anyhow::Result;
use clap::Args;

use crate::{
    context::Context,
    ours::{
        fairness::{Errand, Errands, Waits},
        node::Local,
    },
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Messages that are enqueued in a second; a destination takes 100.
    #[arg(long, default_value_t = 110)]
    rate: u32,
    /// Seconds for which messages are enqueued.
    #[arg(long, default_value_t = 60)]
    lasts: u32,
    /// One in this many fails once.
    #[arg(long, default_value_t = 10)]
    fails: u32,
}

/// Messages are enqueued so often in a second.
const STEPS: u32 = 10;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    let disk = context.probe()?;
    let waits = Waits::default();
    let dir = context.fresh_dir("ours")?;
    let host = Host::builder(dir)
        .object::<Errands>()
        .with(Registry::new().with(waits.clone()));
    let local = Local::of(host)?;
    let env = local.host.env();
    local.runtime.block_on(async {
        let errands = env.object::<Errands>().get_by_name("all");
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / STEPS);
        let total = options.rate * options.lasts;
        for step in 0..options.lasts * STEPS {
            ticks.tick().await;
            let to = |step: u32| total * step / (options.lasts * STEPS);
            let some = (to(step)..to(step + 1)).map(|number| Errand {
                // A fifth is urgent, and a fifth is not.
                priority: match number % 5 {
                    0 => Priority::High,
                    1 => Priority::Low,
                    _ => Priority::Normal,
                },
                fails: number / 5 % options.fails.max(1) == 0,
            });
            errands.run(some.collect()).await?;
        }
        while errands.left().await? > 0 {
            ticks.tick().await;
        }
        anyhow::Ok(())
    })?;
    for ((priority, which), latencies) in waits.take() {
        let note = format!("{} attempts", latencies.len());
        let [p50, p99, worst] = latencies.percentiles_us([50.0, 99.0, 100.0]);
        for (figure, value) in [("p50", p50), ("p99", p99), ("worst", worst)] {
            let name = format!("outbox/wait/{priority:?}/{which}/{figure}").to_lowercase();
            let measured = Measurement::new(name, Unit::Microseconds, disk).ours(value);
            context.print(&measured.note(note.clone()));
        }
    }
    local.shutdown()
}
