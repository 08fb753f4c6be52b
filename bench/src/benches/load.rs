//! (m) More load than a server can take.
//!
//! The server and the load have processes and, where there are two cores, their own cores, so that neither takes the
//! other's time. Capacity is what a closed loop of the same clients gets answered; then requests arrive at multiples of it
//! whatever the server does. An answer counts if it comes within the clients' patience.

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::{
    arrivals::{Clients, Outcome, Pace},
    context::Context,
    probe::DiskLatency,
    process::{self, Half, Owned},
    report::{Measurement, Unit},
    workload,
};

#[derive(Args)]
pub(crate) struct Options {
    /// What is asked for; several with commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Scene::Write, Scene::Hot, Scene::Slow])]
    scenes: Vec<Scene>,
    /// Multiples of capacity; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0, 10.0])]
    levels: Vec<f64>,
    /// Seconds of each level.
    #[arg(long, default_value_t = 5.0)]
    length: f64,
    /// Most connections of the clients; a request without a free connection is not sent.
    #[arg(long, default_value_t = 2_000)]
    connections: usize,
    /// Connections of the closed loop that finds the capacity.
    #[arg(long, default_value_t = 64)]
    closed: usize,
    /// Milliseconds after which a client gives up.
    #[arg(long, default_value_t = 2_000)]
    patience: u64,
    /// Milliseconds of its thread's time that the slow handler takes.
    #[arg(long, default_value_t = 5.0)]
    slow: f64,
    /// Objects that are asked, at random.
    #[arg(long, default_value_t = 1_000)]
    objects: usize,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scene {
    /// A small write, on many objects.
    Write,
    /// A small write, all on one object.
    Hot,
    /// A handler that computes and then writes, on many objects.
    Slow,
}

const CAPACITY: &str = "its capacity";
const MIB: f64 = (1_u64 << 20) as f64;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    process::descriptor_limit();
    for &scene in &options.scenes {
        Level::measure_all(context, options, scene)?;
    }
    Ok(())
}

impl Scene {
    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Hot => "hot",
            Self::Slow => "slow",
        }
    }

    fn paths(self, options: &Options) -> Vec<String> {
        let slow = Duration::from_secs_f64(options.slow / 1e3);
        let (objects, rounds) = match self {
            Self::Write => (options.objects, 0),
            Self::Hot => (1, 0),
            Self::Slow => (options.objects, workload::rounds_in(slow)),
        };
        (0..objects)
            .map(|object| format!("/busy/object-{object}/{rounds}"))
            .collect()
    }
}

/// One multiple of the capacity.
struct Level<'a> {
    context: &'a Context,
    disk: DiskLatency,
    name: String,
    seconds: f64,
    capacity: Capacity,
}

/// What the server can do.
#[derive(Clone, Copy)]
struct Capacity {
    /// Answers in a second.
    rate: f64,
    /// Answers in a second of the server's CPU time.
    rate_of_cpu: f64,
}

impl Level<'_> {
    fn measure_all(context: &Context, options: &Options, scene: Scene) -> Result<()> {
        let mut server = Owned::ourselves("busy", &context.fresh_dir("ours")?, options.objects)?;
        let address = server
            .lines()?
            .next()
            .context("the server did not start; its error is above")??;
        // After the server has chosen its own.
        let _kept = process::keep_to(Half::Load)?;
        let mut clients = Clients::new(
            address.parse()?,
            scene.paths(options).into_iter(),
            options.connections,
            Duration::from_millis(options.patience),
        )?;
        let length = Duration::from_secs_f64(options.length);
        let closed = Pace::Closed(options.closed.min(options.connections));
        // Objects are loaded, files grow.
        clients.run(closed, length / 2, || Ok(()))?;
        let disk = context.probe()?;
        let cpu = process::cpu_seconds(server.pid())?;
        let found = clients.run(closed, length, || Ok(()))?;
        let answered = found.good.len() as f64;
        let capacity = Capacity {
            rate: answered / options.length,
            rate_of_cpu: answered / (process::cpu_seconds(server.pid())? - cpu),
        };
        for multiple in &options.levels {
            let level = Level {
                context,
                disk: context.probe()?,
                name: format!("load/{}/{multiple}x", scene.name()),
                seconds: options.length,
                capacity,
            };
            let mut resident = 0;
            let cpu = process::cpu_seconds(server.pid())?;
            let pace = Pace::Open(capacity.rate * multiple);
            let outcome = clients.run(pace, length, || {
                resident = resident.max(process::resident_bytes(server.pid())?);
                Ok(())
            })?;
            let cpu = process::cpu_seconds(server.pid())? - cpu;
            level.print(outcome, cpu, resident);
        }
        let [p50, p99] = found.good.percentiles_us([50.0, 99.0]);
        context.say(&format!(
            "    {}: capacity {:.0} requests/s in a closed loop of {} connections, p50 {p50:.0} us, p99 {p99:.0} us, \
             fdatasync {:.0} us",
            scene.name(),
            capacity.rate,
            options.closed,
            disk.p50_us
        ));
        Ok(())
    }

    fn print(&self, outcome: Outcome, cpu: f64, resident: u64) {
        let rate = |count: u64| count as f64 / self.seconds;
        let (good, refused) = (outcome.good.len() as u64, outcome.refused.len() as u64);
        let [p50, p99] = outcome.good.percentiles_us([50.0, 99.0]);
        let [refusal_p50, refusal_p99] = outcome.refused.percentiles_us([50.0, 99.0]);
        let goodput = self.line("goodput", Unit::RequestsPerSecond, rate(good));
        self.context
            .print(&goodput.peer(CAPACITY, self.capacity.rate));
        let of_cpu = good as f64 / cpu;
        let of_cpu = self.line("goodput-of-cpu", Unit::RequestsPerSecond, of_cpu);
        self.context
            .print(&of_cpu.peer(CAPACITY, self.capacity.rate_of_cpu));
        let errors: u64 = outcome.errors.values().sum();
        let kinds = (errors > 0).then(|| format!("{:?}", outcome.errors));
        let lines = [
            ("p50", Unit::Microseconds, p50, good > 0),
            ("p99", Unit::Microseconds, p99, good > 0),
            ("refused", Unit::RequestsPerSecond, rate(refused), true),
            ("refusal-p50", Unit::Microseconds, refusal_p50, refused > 0),
            ("refusal-p99", Unit::Microseconds, refusal_p99, refused > 0),
            (
                "given-up",
                Unit::RequestsPerSecond,
                rate(outcome.late),
                true,
            ),
            (
                "unsent",
                Unit::RequestsPerSecond,
                rate(outcome.unsent),
                true,
            ),
            ("memory", Unit::Mebibytes, resident as f64 / MIB, true),
        ];
        for (name, unit, value, _) in lines.into_iter().filter(|(.., there)| *there) {
            self.context.print(&self.line(name, unit, value));
        }
        let errors = self.line("errors", Unit::RequestsPerSecond, rate(errors));
        self.context.print(&errors.note(kinds));
    }

    fn line(&self, figure: &str, unit: Unit, value: f64) -> Measurement {
        Measurement::new(format!("{}/{figure}", self.name), unit, self.disk).ours(value)
    }
}
