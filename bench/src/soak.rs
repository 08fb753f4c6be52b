//! The soak: mixed load for as long as one likes, beside `kill -9` at random, and every acknowledged effect is looked for.
//!
//! Contract: the run fails if a promise was broken (an acknowledged write is gone, an alarm did not go off or went off
//! early, an announcement is missing or out of order, a socket's answers are out of order), or if memory, descriptors or the
//! disk's use grow. Because memory and descriptors begin anew with each process, the last third of the run has no kills,
//! and they are judged by it; the disk by the second half of the run. [`growth`] says what growing means.

mod app;
mod clients;
mod facts;
mod growth;
mod receiver;
mod server;

use std::{
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use clap::Args;
use tokio::task::JoinSet;

pub(crate) use app::serve;

use crate::{
    context::Context,
    http_client::HttpClient,
    report::{Measurement, Unit},
    workload::Sequence,
};
use clients::Client;
use facts::{Facts, Seen, Window};
use server::{Server, Usage};

#[derive(Args)]
pub(crate) struct Options {
    /// How long the load lasts.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Seconds between two rows.
    #[arg(long, default_value_t = 30.0)]
    every: f64,
    /// Seconds between two kills, in the mean.
    #[arg(long, default_value_t = 20.0)]
    kill: f64,
    /// Clients that write to ledgers; half as many wait for alarms, and as many talk over sockets.
    #[arg(long, default_value_t = 16)]
    writers: usize,
    /// Milliseconds between two acts of a client, in the mean.
    #[arg(long, default_value_t = 20)]
    pause: u64,
    /// Decides what clients do and when the server is killed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const MIB: f64 = (1_u64 << 20) as f64;
/// The share of the run without kills.
const CALM: f64 = 1.0 / 3.0;
/// How often the server's use of resources is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long announcements may take when the load has ended.
const DRAIN: Duration = Duration::from_mins(10);

/// What may be added before it counts as growth: caches and pools that fill up.
const MEMORY_SLACK: f64 = 48.0 * MIB;
const DESCRIPTOR_SLACK: f64 = 32.0;
const DISK_SLACK: f64 = 128.0 * MIB;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let disk = context.probe()?;
    let facts = Arc::new(Facts::default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut server = Server::start(context.fresh_dir("ours")?)?;
    let receiver = runtime.block_on(receiver::start(Arc::clone(&facts)))?;
    let mut clients = start(options, &runtime, &facts, &server, &receiver.to_string());
    let watched = watch(context, options, &facts, &mut server)?;
    facts.stop();
    runtime.block_on(async {
        while let Some(ended) = clients.join_next().await {
            ended??;
        }
        anyhow::Ok(())
    })?;
    let begun = Instant::now();
    while let Some(missing) = facts.unannounced() {
        ensure!(
            begun.elapsed() < DRAIN,
            "an announcement is missing: {missing}"
        );
        sleep(LOOK);
    }
    server.stop()?;
    let seen = facts.seen();
    for (name, unit, value) in [
        ("writes", Unit::Events, seen.total.writes as f64),
        ("announcements", Unit::Events, seen.total.deliveries as f64),
        ("alarms", Unit::Events, seen.total.alarms as f64),
        ("frames", Unit::Events, seen.total.frames as f64),
        ("repeated-calls", Unit::Events, seen.total.repeated as f64),
        ("kills", Unit::Events, f64::from(watched.kills)),
        (
            "longest-restart",
            Unit::Seconds,
            watched.longest_restart.as_secs_f64(),
        ),
        ("broken-promises", Unit::Events, seen.broken.len() as f64),
    ] {
        let measurement = Measurement::new(format!("soak/{name}"), unit, disk);
        context.print(&measurement.ours(value));
    }
    if let Some(first) = seen.broken.first() {
        bail!(
            "{} promises were broken, the first: {first}",
            seen.broken.len()
        );
    }
    watched.judge()
}

fn start(
    options: &Options,
    runtime: &tokio::runtime::Runtime,
    facts: &Arc<Facts>,
    server: &Server,
    receiver: &str,
) -> JoinSet<Result<()>> {
    let mut clients = JoinSet::new();
    let http = HttpClient::new();
    let client = |kind: &str, number: usize| Client {
        name: format!("{kind}-{number}"),
        facts: Arc::clone(facts),
        server: server.addr.to_string(),
        receiver: format!("http://{receiver}/"),
        http: http.clone(),
        random: Sequence::new(options.seed.wrapping_mul(1_000_003) + number as u64),
        pause: Duration::from_millis(options.pause),
    };
    let handle = runtime.handle();
    for number in 0..options.writers {
        clients.spawn_on(client("ledger", number).write(), handle);
    }
    for number in 0..options.writers.div_ceil(2) {
        clients.spawn_on(client("clock", number).wake(), handle);
        clients.spawn_on(client("line", number).talk(), handle);
    }
    clients
}

/// What was seen of the server from outside.
#[derive(Default)]
struct Watched {
    kills: u32,
    longest_restart: Duration,
    /// Of the calm part of the run.
    memory: Vec<f64>,
    descriptors: Vec<f64>,
    /// Of the second half of the run.
    disk: Vec<f64>,
}

/// Kills the server at random and prints a row now and then, until the time is over.
fn watch(
    context: &Context,
    options: &Options,
    facts: &Facts,
    server: &mut Server,
) -> Result<Watched> {
    let length = Duration::from_secs_f64(options.minutes * 60.0);
    let every = Duration::from_secs_f64(options.every);
    let mut random = Sequence::new(options.seed);
    let mut gap =
        || Duration::from_secs_f64(options.kill).mul_f64(0.5 + random.below(1_000) as f64 / 1e3);
    let mut watched = Watched::default();
    let begun = Instant::now();
    let (mut kill_at, mut row_at) = (gap(), every);
    context.say(
        "   time  kills      RSS  descr.     disk  writes/s   p50 ms   p99 ms  alarms/s  late p99  announced/s  frames/s   p99 ms  fsync ms",
    );
    loop {
        sleep(LOOK);
        ensure!(
            !server.has_ended(),
            "the server ended early; its error is above"
        );
        let now = begun.elapsed();
        let usage = server.usage()?;
        if now >= length.mul_f64(1.0 - CALM) {
            watched.memory.push(usage.memory);
            watched.descriptors.push(usage.descriptors);
        } else if now >= kill_at {
            let restarting = Instant::now();
            server.kill_and_restart()?;
            watched.kills += 1;
            watched.longest_restart = watched.longest_restart.max(restarting.elapsed());
            kill_at = begun.elapsed() + gap();
        }
        if now >= row_at {
            let disk = server.disk_use()?;
            if now >= length / 2 {
                watched.disk.push(disk);
            }
            let window = std::mem::take(&mut facts.seen().window);
            let seconds = (now + every).saturating_sub(row_at).as_secs_f64();
            row_at = now + every;
            let row = row(now, watched.kills, usage, disk, window, seconds);
            let sync = server.sync_beside()?.as_secs_f64() * 1e3;
            context.say(&format!("{row} {sync:>9.1}"));
        }
        if now >= length {
            return Ok(watched);
        }
        let Seen { broken, .. } = &*facts.seen();
        if let Some(first) = broken.first() {
            bail!("a promise was broken: {first}");
        }
    }
}

fn row(now: Duration, kills: u32, usage: Usage, disk: f64, window: Window, seconds: f64) -> String {
    let rate = |count: usize| count as f64 / seconds;
    let (writes, alarms, frames) = (
        window.writes.len(),
        window.alarms.len(),
        window.frames.len(),
    );
    let [p50, p99] = window
        .writes
        .percentiles_us([50.0, 99.0])
        .map(|us| us / 1e3);
    let [late] = window.alarms.percentiles_us([99.0]).map(|us| us / 1e3);
    let [frame] = window.frames.percentiles_us([99.0]).map(|us| us / 1e3);
    format!(
        "{:>5.0} s {kills:>6} {:>4.0} MiB {:>7.0} {:>5.0} MiB {:>9.0} {p50:>8.1} {p99:>8.1} {:>9.1} {late:>9.1} {:>12.0} {:>9.0} {frame:>8.1}",
        now.as_secs_f64(),
        usage.memory / MIB,
        usage.descriptors,
        disk / MIB,
        rate(writes),
        rate(alarms),
        window.deliveries as f64 / seconds,
        rate(frames),
    )
}

impl Watched {
    fn judge(&self) -> Result<()> {
        for (what, samples, slack) in [
            ("bytes of memory", &self.memory, MEMORY_SLACK),
            ("descriptors", &self.descriptors, DESCRIPTOR_SLACK),
            ("bytes on disk", &self.disk, DISK_SLACK),
        ] {
            if let Some((before, after)) = growth::grows(samples, slack) {
                bail!("the server's {what} grow: from {before:.0} to {after:.0}");
            }
        }
        Ok(())
    }
}
