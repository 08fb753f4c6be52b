//! (c) An RPC round trip within the process, without a write and with one.
//!
//! From outside (an async task that calls an object's stub) and from one object to another. The peer is
//! workerd, whose worker calls a durable object; it has no outside in this sense, so it stands beside ours from
//! outside.

use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    context::Context,
    figures::Latencies,
    load::{Generator, Plan, Target},
    ours::{
        node::Local,
        objects::{Counter, Kind},
    },
    peers::workerd,
    report::{Measurement, Unit, micros},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Calls in one request to the peer, and in one relay between objects.
    #[arg(long, default_value_t = 200)]
    batch: u32,
    /// Callers at once, for the figure of calls per second.
    #[arg(long, default_value_t = 64)]
    callers: usize,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let local = if context.wants_ours() {
        Some(Local::start(&context.fresh_dir("ours")?)?)
    } else {
        None
    };
    let peer = if context.wants_peer() {
        Some(workerd::Server::start(&context.fresh_dir("peer")?)?)
    } else {
        None
    };
    for kind in [Kind::Read, Kind::Write] {
        let name = if kind == Kind::Read {
            "rpc/read"
        } else {
            "rpc/write"
        };
        let disk = context.probe()?;
        let ours = local
            .as_ref()
            .map(|local| move || one_after_another(context, local, kind));
        let mut calls = peer
            .as_ref()
            .map(|peer| PeerCalls::connect(peer, kind, options.batch))
            .transpose()?;
        let sides = context.alternate(ours, calls.as_mut().map(|calls| || calls.slice(context)))?;
        let figures = [("", 0, true), ("/p50", 1, false), ("/p99", 2, false)];
        for (suffix, index, beside_peer) in figures {
            let (ours, peer) = sides.figure(index);
            let peer = peer.filter(|_| beside_peer);
            if ours.is_some() || peer.is_some() {
                let measurement =
                    Measurement::new(format!("{name}{suffix}"), Unit::Microseconds, disk);
                context.print(&measurement.ours(ours).peer(workerd::NAME, peer));
            }
        }
        if let Some(local) = &local {
            let between = relay(context, local, kind, options.batch)?;
            context.print(
                &Measurement::new(format!("{name}/between-objects"), Unit::Microseconds, disk)
                    .ours(between),
            );
            let rate = at_once(context, local, kind, options.callers)?;
            let name = format!("{name}/callers={}", options.callers);
            context.print(&Measurement::new(name, Unit::CallsPerSecond, disk).ours(rate));
        }
    }
    local.map_or(Ok(()), Local::shutdown)
}

/// Mean, p50 and p99 of round trips, one after another.
fn one_after_another(context: &Context, local: &Local, kind: Kind) -> Result<[f64; 3]> {
    let stub = local.host.env().object::<Counter>().get_by_name("called");
    let latencies = local.runtime.block_on(async {
        let (mut latencies, begun) = (Latencies::default(), Instant::now());
        while begun.elapsed() < context.slice() {
            let start = Instant::now();
            match kind {
                Kind::Read => drop(stub.ping(1).await?),
                Kind::Write => drop(stub.increment().await.map_err(anyhow::Error::msg)?),
            }
            latencies.push(start.elapsed());
        }
        anyhow::Ok(latencies)
    })?;
    let mean = latencies.mean_us();
    let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
    Ok([mean, p50, p99])
}

/// Mean of round trips from one object to another.
fn relay(context: &Context, local: &Local, kind: Kind, batch: u32) -> Result<f64> {
    let stub = local.host.env().object::<Counter>().get_by_name("relay");
    let (begun, mut calls) = (Instant::now(), 0_u32);
    while begun.elapsed() < context.slice() {
        local
            .runtime
            .block_on(stub.relay(u64::from(batch), kind))
            .map_err(anyhow::Error::msg)?;
        calls += batch;
    }
    Ok(micros(begun.elapsed()) / f64::from(calls))
}

/// Calls per second of many tasks, each with its own object.
fn at_once(context: &Context, local: &Local, kind: Kind, callers: usize) -> Result<f64> {
    let (begun, length) = (Instant::now(), context.slice());
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let stub = local
                .host
                .env()
                .object::<Counter>()
                .get_by_name(&format!("caller-{caller}"));
            local.runtime.spawn(async move {
                let mut calls = 0_u32;
                while begun.elapsed() < length {
                    match kind {
                        Kind::Read => drop(stub.ping(1).await?),
                        Kind::Write => drop(stub.increment().await.map_err(anyhow::Error::msg)?),
                    }
                    calls += 1;
                }
                anyhow::Ok(calls)
            })
        })
        .collect();
    let mut calls = 0.0;
    for task in tasks {
        calls += f64::from(
            local
                .runtime
                .block_on(task)
                .context("a caller panicked")??,
        );
    }
    Ok(calls / begun.elapsed().as_secs_f64())
}

/// Requests that make the peer's worker call its object many times.
struct PeerCalls {
    generator: Generator,
    batch: u32,
}

impl PeerCalls {
    fn connect(server: &workerd::Server, kind: Kind, batch: u32) -> Result<Self> {
        let kind = if kind == Kind::Read { "read" } else { "write" };
        let path = format!("/rpc/{kind}/{batch}");
        let target = Target::new(server.addr, std::iter::once(path)).unchecked();
        let mut generator = Generator::connect(&target, 1)?;
        generator.run(Plan::EachOnce)?;
        Ok(Self { generator, batch })
    }

    /// The mean of a call; the percentiles of single calls cannot be seen from outside.
    fn slice(&mut self, context: &Context) -> Result<[f64; 3]> {
        let (begun, mut calls) = (Instant::now(), 0_u32);
        while begun.elapsed() < context.slice() {
            self.generator.run(Plan::EachOnce)?;
            calls += self.batch;
        }
        let mean = micros(begun.elapsed()) / f64::from(calls.max(1));
        Ok([mean, mean, mean])
    }
}
