//! (p) Chains of outcomes: the cold start of an object that has some, and of a subscription of the billing engine, the replay of
//! very many, and how fast they grow.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::{
    context::Context,
    figures::Latencies,
    ours::{node::Local, outcomes::Payer, subscription},
    process,
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Outcomes of each object that is started cold.
    #[arg(long, default_value_t = 120)]
    outcomes: u32,
    /// How many objects are started cold, and how many are written to at a time.
    #[arg(long, default_value_t = 1_000)]
    objects: usize,
    /// How many subscriptions are started cold.
    #[arg(long, default_value_t = 100)]
    subscriptions: usize,
    /// Outcomes of the long chain.
    #[arg(long, default_value_t = 1_000_000)]
    long: u32,
    /// Callers at once.
    #[arg(long, default_value_t = 256)]
    callers: usize,
}

/// Outcomes that fill a chain in one transaction.
const BATCH: u32 = 10_000;
const MEBIBYTE: f64 = 1_048_576.0;
const LONG: &str = "long";

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    let dir = context.fresh_dir("ours")?;
    let local = Local::start(&dir)?;
    for object in 0..options.objects {
        fill(&local, &name(object), options.outcomes)?;
    }
    fill(&local, LONG, options.long)?;
    for object in 0..options.subscriptions {
        let env = local.host.env();
        let name = subscription_name(object);
        let filled = subscription::fill(env, &name, options.outcomes);
        local.runtime.block_on(filled)?;
    }
    local.shutdown()?;

    let local = Local::start(&dir)?;
    cold_start(context, &local, options)?;
    subscriptions(context, &local, options)?;
    for objects in [1, options.objects] {
        growth(context, &local, objects, options.callers)?;
    }
    // Last: after such a long call the node considers its worker overloaded.
    long_replay(context, &local, options.long)?;
    local.shutdown()
}

fn name(object: usize) -> String {
    format!("payer-{object}")
}

fn subscription_name(object: usize) -> String {
    format!("sub_{object}")
}

fn fill(local: &Local, name: &str, outcomes: u32) -> Result<()> {
    let payer = local.host.env().object::<Payer>().get_by_name(name);
    let mut left = outcomes;
    while left > 0 {
        let times = left.min(BATCH);
        local.runtime.block_on(payer.pay(times))?;
        left -= times;
    }
    Ok(())
}

/// The first call, which opens the object and replays its chain; and the replay alone.
fn cold_start(context: &Context, local: &Local, options: &Options) -> Result<()> {
    let disk = context.probe()?;
    let (mut calls, mut replays) = (Latencies::default(), Latencies::default());
    for object in 0..options.objects {
        let payers = local.host.env().object::<Payer>();
        let payer = payers.get_by_name(&name(object));
        let begun = Instant::now();
        let amount = local.runtime.block_on(payer.amount())?;
        calls.push(begun.elapsed());
        ensure!(
            amount == i64::from(options.outcomes) * 1_000,
            "{amount} were paid with {} outcomes",
            options.outcomes
        );
        let replay = local.runtime.block_on(payer.replay())?;
        replays.push(std::time::Duration::from_secs_f64(replay / 1e6));
    }
    for (what, latencies) in [("cold-start", calls), ("replay", replays)] {
        let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
        for (figure, value) in [("p50", p50), ("p99", p99)] {
            let name = format!("outcomes/{what}/outcomes={}/{figure}", options.outcomes);
            context.print(&Measurement::new(name, Unit::Microseconds, disk).ours(value));
        }
    }
    Ok(())
}

/// The first call of a subscription, which opens its object with its timers and replays its chain.
fn subscriptions(context: &Context, local: &Local, options: &Options) -> Result<()> {
    let disk = context.probe()?;
    let mut calls = Latencies::default();
    for object in 0..options.subscriptions {
        let name = subscription_name(object);
        let begun = Instant::now();
        let outcomes = subscription::outcomes(local.host.env(), &name);
        let outcomes = local.runtime.block_on(outcomes)?;
        calls.push(begun.elapsed());
        ensure!(outcomes == i64::from(options.outcomes), "{outcomes}");
    }
    let [p50, p99] = calls.percentiles_us([50.0, 99.0]);
    for (figure, value) in [("p50", p50), ("p99", p99)] {
        let name = format!(
            "outcomes/subscription-start/outcomes={}/{figure}",
            options.outcomes
        );
        context.print(&Measurement::new(name, Unit::Microseconds, disk).ours(value));
    }
    Ok(())
}

fn long_replay(context: &Context, local: &Local, outcomes: u32) -> Result<()> {
    let disk = context.probe()?;
    let payer = local.host.env().object::<Payer>().get_by_name(LONG);
    let resident = || process::resident_bytes(std::process::id());
    let before = resident()?;
    let begun = Instant::now();
    let amount = local.runtime.block_on(payer.amount())?;
    let seconds = begun.elapsed().as_secs_f64();
    let more = resident()?.saturating_sub(before) as f64 / MEBIBYTE;
    ensure!(
        amount == i64::from(outcomes) * 1_000,
        "{amount} were paid with {outcomes} outcomes"
    );
    let name = format!("outcomes/cold-start/outcomes={outcomes}");
    context.print(
        &Measurement::new(name, Unit::Seconds, disk)
            .ours(seconds)
            .note(format!("without a snapshot; {more:.1} MiB more resident")),
    );
    Ok(())
}

/// Transitions per second, each acknowledged when it is durable.
fn growth(context: &Context, local: &Local, objects: usize, callers: usize) -> Result<()> {
    let disk = context.probe()?;
    let (begun, length) = (Instant::now(), context.slice());
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let payers = local.host.env().object::<Payer>();
            local.runtime.spawn(async move {
                let mut made = 0_u32;
                while begun.elapsed() < length {
                    // Each caller goes round all objects.
                    let object = (caller + made as usize * 7) % objects;
                    payers.get_by_name(&name(object)).pay(1).await?;
                    made += 1;
                }
                anyhow::Ok(made)
            })
        })
        .collect();
    let mut made = 0.0;
    for task in tasks {
        let task = local.runtime.block_on(task);
        made += f64::from(task.context("a caller panicked")??);
    }
    let name = format!("outcomes/transitions/objects={objects}");
    let rate = made / begun.elapsed().as_secs_f64();
    context.print(
        &Measurement::new(name, Unit::TransitionsPerSecond, disk)
            .ours(rate)
            .note(format!("{callers} callers")),
    );
    Ok(())
}
