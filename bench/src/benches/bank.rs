//! (n) Transfers between accounts of one bank, as `SpacetimeDB` published them, in process and over the network.
//!
//! A transfer counts when its client knows that it is durable. *Pipelined* clients have several on their way.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use futures_util::{StreamExt, stream::FuturesUnordered};

use crate::{
    arrivals::{Clients, Pace},
    context::Context,
    figures::Latencies,
    ours::{bank::Bank, node::Local},
    peers::{
        ledger::{self, Ledger},
        workerd,
    },
    process::Owned,
    report::{Measurement, Unit},
    sockets::Sockets,
    transfers::{BALANCE_AT_FIRST, Transfer, Transfers},
};

#[derive(Args)]
pub(crate) struct Options {
    #[arg(long, default_value_t = 100_000)]
    accounts: u32,
    /// How accounts are chosen: the exponent of Zipf's law, 0 for uniformly; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 1.5])]
    alpha: Vec<f64>,
    /// Clients: callers in the process, connections, sockets.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Transfers that a pipelined client has on their way.
    #[arg(long, default_value_t = 40)]
    window: usize,
}

const SEED: u64 = 7;
/// Different requests of a slice over HTTP.
const PATHS: usize = 50_000;
const PATIENCE: Duration = Duration::from_secs(30);
const BANK: &str = "bank";

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    for &alpha in &options.alpha {
        let bench = Bench {
            context,
            options,
            name: if alpha == 0.0 {
                "uniform".to_owned()
            } else {
                format!("zipf={alpha}")
            },
            transfers: Transfers::new(options.accounts as usize, alpha, SEED),
        };
        bench.in_process()?;
        bench.over_the_network()?;
    }
    Ok(())
}

struct Bench<'a> {
    context: &'a Context,
    options: &'a Options,
    name: String,
    transfers: Transfers,
}

impl Bench<'_> {
    /// Transfers per second, p50, p99.
    fn figures(&self, latencies: Latencies) -> [f64; 3] {
        let rate = latencies.len() as f64 / self.context.slice().as_secs_f64();
        let [p50, p99] = latencies.percentiles_us([50.0, 99.0]);
        [rate, p50, p99]
    }

    fn measure(
        &self,
        name: &str,
        peer_name: &'static str,
        ours: Option<impl FnMut(Duration) -> Result<Latencies>>,
        peer: Option<impl FnMut(Duration) -> Result<Latencies>>,
    ) -> Result<()> {
        let (mut ours, mut peer) = (ours, peer);
        let disk = self.context.probe()?;
        let (warm_up, slice) = (self.context.warm_up(), self.context.slice());
        if let Some(ours) = &mut ours {
            ours(warm_up)?;
        }
        if let Some(peer) = &mut peer {
            peer(warm_up)?;
        }
        let sides = self.context.alternate(
            ours.map(|mut ours| move || Ok(self.figures(ours(slice)?))),
            peer.map(|mut peer| move || Ok(self.figures(peer(slice)?))),
        )?;
        let figures = [
            ("", Unit::TransfersPerSecond),
            ("/p50", Unit::Microseconds),
            ("/p99", Unit::Microseconds),
        ];
        for (index, (suffix, unit)) in figures.into_iter().enumerate() {
            let (ours, peer) = sides.figure(index);
            let name = format!("bank/{}/{name}{suffix}", self.name);
            let measurement = Measurement::new(name, unit, disk);
            self.context
                .print(&measurement.ours(ours).peer(peer_name, peer));
        }
        Ok(())
    }

    fn in_process(&self) -> Result<()> {
        let accounts = i64::from(self.options.accounts);
        let local = if self.context.wants_ours() {
            let local = Local::start(&self.context.fresh_dir("ours")?)?;
            let bank = local.host.env().object::<Bank>().get_by_name(BANK);
            local.runtime.block_on(bank.open(accounts))?;
            Some(local)
        } else {
            None
        };
        let mut ledger = if self.context.wants_peer() {
            let dir = self.context.fresh_dir("peer")?;
            Some(Ledger::create(&dir, accounts, self.transfers.clone())?)
        } else {
            None
        };
        for (name, window) in [
            ("in-process", 1),
            ("in-process/pipelined", self.options.window),
        ] {
            let batch = self.options.clients * window;
            self.measure(
                name,
                ledger::NAME,
                local
                    .as_ref()
                    .map(|local| move |length| self.call(local, window, length)),
                ledger
                    .as_mut()
                    .map(|ledger| move |length| ledger.run(batch, length)),
            )?;
        }
        if let Some(ledger) = &ledger {
            ledger.check()?;
        }
        if let Some(local) = local {
            let bank = local.host.env().object::<Bank>().get_by_name(BANK);
            let total = local.runtime.block_on(bank.total())?;
            ensure!(total == accounts * BALANCE_AT_FIRST, "the bank has {total}");
            local.shutdown()?;
        }
        Ok(())
    }

    /// Callers outside the object, each with `window` calls in flight.
    fn call(&self, local: &Local, window: usize, length: Duration) -> Result<Latencies> {
        let begun = Instant::now();
        let callers: Vec<_> = (0..self.options.clients)
            .map(|caller| {
                let bank = local.host.env().object::<Bank>().get_by_name(BANK);
                let mut transfers = self.transfers.reseeded(caller as u64);
                let call = move || {
                    let Transfer { from, to, amount } = transfers.draw();
                    let call = bank.transfer(from, to, amount);
                    let start = Instant::now();
                    async move { call.await.map(|()| start) }
                };
                local.runtime.spawn(keep_going(call, window, begun, length))
            })
            .collect();
        let mut all = Latencies::default();
        for caller in callers {
            let latencies = local.runtime.block_on(caller);
            all.append(latencies.context("a caller panicked")??);
        }
        Ok(all)
    }

    fn over_the_network(&self) -> Result<()> {
        let mut ours = if self.context.wants_ours() {
            let dir = self.context.fresh_dir("ours")?;
            let mut server = Owned::ourselves("bank", &dir, self.options.accounts as usize)?;
            let address = server
                .lines()?
                .next()
                .context("our server did not start; its error is above")??;
            Some(Remote::connect(self, address.parse()?, server)?)
        } else {
            None
        };
        let mut peer = if self.context.wants_peer() {
            let server = workerd::Server::start(&self.context.fresh_dir("peer")?)?;
            let addr = server.addr;
            workerd::ask(addr, &format!("/bank/open/{}", self.options.accounts))?;
            Some(Remote::connect(self, addr, server)?)
        } else {
            None
        };
        let clients = self.options.clients;
        self.measure(
            "http",
            workerd::NAME,
            ours.as_mut().map(|ours| |length| ours.ask(clients, length)),
            peer.as_mut().map(|peer| |length| peer.ask(clients, length)),
        )?;
        for (name, window) in [("sockets", 1), ("sockets/pipelined", self.options.window)] {
            self.measure(
                name,
                workerd::NAME,
                ours.as_mut()
                    .map(|ours| move |length| ours.talk(window, length)),
                peer.as_mut()
                    .map(|peer| move |length| peer.talk(window, length)),
            )?;
        }
        Ok(())
    }
}

/// Keeps this many calls in flight for a time; the latency of each that was answered within it.
async fn keep_going<F>(
    mut call: impl FnMut() -> F,
    window: usize,
    begun: Instant,
    length: Duration,
) -> Result<Latencies>
where
    F: Future<Output = abide::Result<Instant>>,
{
    let mut latencies = Latencies::default();
    let mut on_their_way: FuturesUnordered<_> = (0..window).map(|_| call()).collect();
    while let Some(answered) = on_their_way.next().await {
        let start = answered?;
        let now = Instant::now();
        if now - begun <= length {
            latencies.push(now - start);
            on_their_way.push(call());
        }
    }
    Ok(latencies)
}

/// A bank behind a network.
struct Remote<S> {
    http: Clients,
    sockets: Sockets,
    transfers: Transfers,
    _server: S,
}

impl<S> Remote<S> {
    fn connect(bench: &Bench<'_>, addr: std::net::SocketAddr, server: S) -> Result<Self> {
        let clients = bench.options.clients;
        let mut transfers = bench.transfers.clone();
        let paths = transfers.by_ref().take(PATHS);
        let paths = paths.map(|transfer| format!("/bank/bank/{}", text(transfer)));
        Ok(Self {
            http: Clients::new(addr, paths, clients, PATIENCE)?,
            sockets: Sockets::open(addr, (0..clients).map(|_| "/bank/bank/socket".to_owned()))?,
            transfers,
            _server: server,
        })
    }

    /// One request at a time on each connection.
    fn ask(&mut self, clients: usize, length: Duration) -> Result<Latencies> {
        let outcome = self.http.run(Pace::Closed(clients), length, || Ok(()))?;
        let failed = outcome.errors.values().sum::<u64>() + outcome.late;
        ensure!(failed == 0, "transfers failed: {:?}", outcome.errors);
        Ok(outcome.good)
    }

    /// `window` messages at a time on each socket.
    fn talk(&mut self, window: usize, length: Duration) -> Result<Latencies> {
        let transfers = &mut self.transfers;
        self.sockets
            .exchange(|| text(transfers.draw()), "ok", window, length)
    }
}

fn text(Transfer { from, to, amount }: Transfer) -> String {
    format!("{from}/{to}/{amount}")
}
