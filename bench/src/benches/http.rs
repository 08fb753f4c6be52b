//! (b) The HTTP counter: read the count from storage, write it back plus one, reply when it is durable.
//!
//! Both servers run in their own processes and meet the same load generator.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{
    context::Context,
    load::{Generator, Plan, Target},
    peers::workerd,
    process::{self, Owned},
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many objects are asked, at random; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 1_000])]
    objects: Vec<usize>,
    /// How many connections; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    connections: Vec<usize>,
}

/// Connections with which each object is touched once before the first slice.
const TOUCH_CONNECTIONS: usize = 16;

/// A server, the load on it, and what it takes with it when dropped.
pub(super) struct Served<S> {
    generator: Generator,
    pid: u32,
    _server: S,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    for &objects in &options.objects {
        let mut ours = if context.wants_ours() {
            Some(start_ours(context, objects)?)
        } else {
            None
        };
        let mut peer = if context.wants_peer() {
            Some(start_peer(context, objects)?)
        } else {
            None
        };
        for &connections in &options.connections {
            let name = format!("http/objects={objects}/connections={connections}");
            let (ours, peer) = (ours.as_mut(), peer.as_mut());
            measure(context, &name, connections, ours, workerd::NAME, peer)?;
        }
    }
    Ok(())
}

fn paths(objects: usize) -> impl Iterator<Item = String> {
    (0..objects).map(|object| format!("/count/object-{object}"))
}

fn start_ours(context: &Context, objects: usize) -> Result<Served<Owned>> {
    start(context, "counter", objects, |addr| {
        Target::new(addr, paths(objects))
    })
}

/// A server of ours in its own process, whose objects have each been asked once.
pub(super) fn start(
    context: &Context,
    role: &str,
    objects: usize,
    target: impl FnOnce(SocketAddr) -> Target,
) -> Result<Served<Owned>> {
    let mut server = Owned::ourselves(role, &context.fresh_dir(role)?, objects)?;
    let address = server
        .lines()?
        .next()
        .context("our server did not start; its error is above")??;
    let generator = Generator::connect(&target(address.parse()?), 0)?;
    Served {
        generator,
        pid: server.pid(),
        _server: server,
    }
    .touched()
}

/// One counter, beside which other servers of ours are measured.
pub(super) fn start_counter(context: &Context) -> Result<Served<Owned>> {
    start_ours(context, 1)
}

fn start_peer(context: &Context, objects: usize) -> Result<Served<workerd::Server>> {
    let server = workerd::Server::start(&context.fresh_dir("peer")?)?;
    let generator = Generator::connect(&Target::new(server.addr, paths(objects)), 0)?;
    Served {
        generator,
        pid: server.pid(),
        _server: server,
    }
    .touched()
}

impl<S> Served<S> {
    fn touched(mut self) -> Result<Self> {
        self.generator.use_connections(TOUCH_CONNECTIONS)?;
        self.generator.run(Plan::EachOnce)?;
        Ok(self)
    }

    /// Requests per second, p50, p99, server CPU for each request.
    fn slice(&mut self, context: &Context) -> Result<[f64; 4]> {
        let cpu = process::cpu_seconds(self.pid)?;
        let latencies = self.generator.run(Plan::For(context.slice()))?;
        let cpu = process::cpu_seconds(self.pid)? - cpu;
        let requests = latencies.len() as f64;
        let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
        Ok([
            requests / context.slice().as_secs_f64(),
            p50,
            p99,
            cpu * 1e6 / requests.max(1.0),
        ])
    }
}

/// Prints what two servers do in turns, with this many connections.
pub(super) fn measure<A, B>(
    context: &Context,
    name: &str,
    connections: usize,
    mut ours: Option<&mut Served<A>>,
    peer_name: &'static str,
    mut peer: Option<&mut Served<B>>,
) -> Result<()> {
    let disk = context.probe()?;
    if let Some(ours) = &mut ours {
        ours.generator.use_connections(connections)?;
        ours.generator.run(Plan::For(context.warm_up()))?;
    }
    if let Some(peer) = &mut peer {
        peer.generator.use_connections(connections)?;
        peer.generator.run(Plan::For(context.warm_up()))?;
    }
    let sides = context.alternate(
        ours.map(|ours| || ours.slice(context)),
        peer.map(|peer| || peer.slice(context)),
    )?;
    let figures = [
        ("", Unit::RequestsPerSecond),
        ("/p50", Unit::Microseconds),
        ("/p99", Unit::Microseconds),
        ("/cpu", Unit::CpuMicroseconds),
    ];
    for (index, (suffix, unit)) in figures.into_iter().enumerate() {
        let (ours, peer) = sides.figure(index);
        context.print(
            &Measurement::new(format!("{name}{suffix}"), unit, disk)
                .ours(ours)
                .peer(peer_name, peer),
        );
    }
    Ok(())
}
