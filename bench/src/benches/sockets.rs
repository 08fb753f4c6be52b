//! (h) WebSockets: memory of an idle one whose object is not in memory, broadcast, echo.
//!
//! The server is its own process, so what the clients keep does not count.

use std::{
    net::SocketAddr,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::{
    context::Context,
    ours::node::Addresses,
    peers::workerd,
    process::{self, Owned},
    report::{Measurement, Unit},
    sockets::Sockets,
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many idle sockets are open at once.
    #[arg(long, default_value_t = 20_000)]
    idle: usize,
    /// How many idle sockets of workerd are open at once.
    #[arg(long, default_value_t = 5_000)]
    peer_idle: usize,
    /// How many objects the idle sockets belong to.
    #[arg(long, default_value_t = 100)]
    rooms: usize,
    /// How many sockets a broadcast goes to.
    #[arg(long, default_value_t = 1_000)]
    listeners: usize,
    /// How many sockets echo at once; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64])]
    echoing: Vec<usize>,
}

/// A short line of chat.
const MESSAGE: &str =
    "a message of about the length that people write when they chat with each other";
/// Broadcasts that are on their way at once.
const IN_FLIGHT: usize = 4;
/// Sockets opened and closed before memory is read: one-time costs of the process.
const FIRST: usize = 64;
/// workerd lets an object sleep after ten seconds without work.
const PEER_SLEEPS: Duration = Duration::from_secs(15);
/// An object of ours that does not leave memory in this time has a fault.
const OURS_SLEEPS: Duration = Duration::from_secs(30);
/// Descriptors that a process needs besides its sockets.
const SPARE: usize = 200;
const KIBIBYTE: f64 = 1024.0;

/// A server, and how to wait until its objects are out of memory.
struct Served<S> {
    addr: SocketAddr,
    pid: u32,
    asleep: Box<dyn Fn() -> Result<()>>,
    _server: S,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    // Before the servers start: they inherit it.
    let limit = process::descriptor_limit().saturating_sub(SPARE);
    if limit < options.idle {
        context.say(&format!(
            "{} idle sockets need more descriptors than this process may have: {limit} are measured; `ulimit -n` tells \
             and raises the limit",
            options.idle
        ));
    }
    let ours = if context.wants_ours() {
        Some(start_ours(context)?)
    } else {
        None
    };
    let peer = if context.wants_peer() {
        Some(start_peer(context)?)
    } else {
        None
    };
    idle(context, options, limit, ours.as_ref(), peer.as_ref())?;
    broadcast(context, options.listeners, ours.as_ref(), peer.as_ref())?;
    for &sockets in &options.echoing {
        echo(context, sockets, ours.as_ref(), peer.as_ref())?;
    }
    Ok(())
}

fn start_ours(context: &Context) -> Result<Served<Owned>> {
    let mut server = Owned::ourselves("sockets", &context.fresh_dir("ours")?, 0)?;
    let line = server
        .lines()?
        .next()
        .context("our server did not start; its error is above")??;
    let Addresses { addr, admin } = line.parse()?;
    Ok(Served {
        addr,
        pid: server.pid(),
        asleep: Box::new(move || wait_until_asleep(admin)),
        _server: server,
    })
}

fn start_peer(context: &Context) -> Result<Served<workerd::Server>> {
    let server = workerd::Server::start(&context.fresh_dir("peer")?)?;
    Ok(Served {
        addr: server.addr,
        pid: server.pid(),
        asleep: Box::new(|| {
            sleep(PEER_SLEEPS);
            Ok(())
        }),
        _server: server,
    })
}

/// Returns when no object of ours is in memory.
fn wait_until_asleep(admin: SocketAddr) -> Result<()> {
    use std::io::{Read as _, Write as _};
    let begun = Instant::now();
    loop {
        let mut stream = std::net::TcpStream::connect(admin)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut metrics = String::new();
        stream.read_to_string(&mut metrics)?;
        if metrics.contains("\nabide_objects_resident 0") {
            return Ok(());
        }
        if begun.elapsed() > OURS_SLEEPS {
            bail!("objects with idle sockets did not leave memory");
        }
        sleep(Duration::from_millis(200));
    }
}

fn paths(sockets: usize, rooms: usize) -> impl Iterator<Item = String> {
    (0..sockets).map(move |socket| format!("/room/room-{}/", socket % rooms.max(1)))
}

/// KiB of the server for each idle socket whose object sleeps.
fn idle<A, B>(
    context: &Context,
    options: &Options,
    limit: usize,
    ours: Option<&Served<A>>,
    peer: Option<&Served<B>>,
) -> Result<()> {
    let disk = context.probe()?;
    let (count, peer_count) = (options.idle.min(limit), options.peer_idle.min(limit));
    let note = match peer {
        Some(_) => format!("; workerd: {peer_count} sockets"),
        None => String::new(),
    };
    let ours = ours
        .map(|served| per_socket(served, count, options.rooms))
        .transpose()?;
    let peer = peer
        .map(|served| per_socket(served, peer_count, options.rooms))
        .transpose()?;
    let name = format!("sockets/idle={count}");
    context.print(
        &Measurement::new(name, Unit::KibibytesPerSocket, disk)
            .ours(ours)
            .peer(workerd::NAME, peer)
            .note(format!(
                "each with a tag and an attachment, in {} objects that are not in memory{note}",
                options.rooms
            )),
    );
    Ok(())
}

fn per_socket<S>(served: &Served<S>, sockets: usize, rooms: usize) -> Result<f64> {
    drop(Sockets::open(served.addr, paths(FIRST, rooms))?);
    (served.asleep)()?;
    let before = process::resident_bytes(served.pid)?;
    let open = Sockets::open(served.addr, paths(sockets, rooms))?;
    (served.asleep)()?;
    let after = process::resident_bytes(served.pid)?;
    drop(open);
    (served.asleep)()?;
    Ok(after.saturating_sub(before) as f64 / KIBIBYTE / sockets.max(1) as f64)
}

fn broadcast<A, B>(
    context: &Context,
    listeners: usize,
    ours: Option<&Served<A>>,
    peer: Option<&Served<B>>,
) -> Result<()> {
    let disk = context.probe()?;
    let open = |addr| Sockets::open(addr, paths(listeners, 1));
    let mut ours = ours.map(|served| open(served.addr)).transpose()?;
    let mut peer = peer.map(|served| open(served.addr)).transpose()?;
    let slice =
        |sockets: &mut Sockets, length| Ok([sockets.broadcast(MESSAGE, IN_FLIGHT, length)?]);
    for sockets in [&mut ours, &mut peer].into_iter().flatten() {
        slice(sockets, context.warm_up())?;
    }
    let sides = context.alternate(
        ours.as_mut()
            .map(|sockets| move || slice(sockets, context.slice())),
        peer.as_mut()
            .map(|sockets| move || slice(sockets, context.slice())),
    )?;
    let (ours, peer) = sides.figure(0);
    let name = format!("sockets/broadcast/listeners={listeners}");
    context.print(
        &Measurement::new(name, Unit::FramesPerSecond, disk)
            .ours(ours)
            .peer(workerd::NAME, peer),
    );
    Ok(())
}

fn echo<A, B>(
    context: &Context,
    sockets: usize,
    ours: Option<&Served<A>>,
    peer: Option<&Served<B>>,
) -> Result<()> {
    let disk = context.probe()?;
    let open = |addr| Sockets::open(addr, paths(sockets, sockets));
    let mut ours = ours.map(|served| open(served.addr)).transpose()?;
    let mut peer = peer.map(|served| open(served.addr)).transpose()?;
    let slice = |sockets: &mut Sockets, length: Duration| {
        let latencies = sockets.echo(MESSAGE, length)?;
        let count = latencies.len() as f64;
        let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
        Ok([count / length.as_secs_f64(), p50, p99])
    };
    for sockets in [&mut ours, &mut peer].into_iter().flatten() {
        slice(sockets, context.warm_up())?;
    }
    let sides = context.alternate(
        ours.as_mut()
            .map(|sockets| move || slice(sockets, context.slice())),
        peer.as_mut()
            .map(|sockets| move || slice(sockets, context.slice())),
    )?;
    let figures = [
        ("", Unit::RoundTripsPerSecond),
        ("/p50", Unit::Microseconds),
        ("/p99", Unit::Microseconds),
    ];
    for (index, (suffix, unit)) in figures.into_iter().enumerate() {
        let (ours, peer) = sides.figure(index);
        context.print(
            &Measurement::new(
                format!("sockets/echo/sockets={sockets}{suffix}"),
                unit,
                disk,
            )
            .ours(ours)
            .peer(workerd::NAME, peer),
        );
    }
    Ok(())
}
