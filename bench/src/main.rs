//! The benches of abide: one binary, one subcommand for each question.
//!
//! Every measurement is printed beside the latency of `fdatasync` on the same disk at that moment and, where
//! there is one, beside a peer that did the same work in the same run. With `--json` each is one line of JSON.
//! Nothing here asserts on time; wrong answers (a lost count, a reply out of order) are errors.
#![forbid(unsafe_code)]

mod arrivals;
mod benches;
mod context;
mod crew;
mod figures;
mod http_client;
mod load;
mod ours;
mod peers;
mod probe;
mod process;
mod receiver;
mod reply;
mod report;
mod soak;
mod sockets;
mod transfers;
mod workload;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// As in `abide` itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures abide beside its peers.
#[derive(Parser)]
#[command(name = "bench", version)]
struct Cli {
    #[command(flatten)]
    settings: context::Settings,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Every bench with a peer that runs in the process or comes from npm, one after the other: one table.
    All,
    /// (a) Durable small commits per second, beside one SQLite file per object.
    Commits(benches::commits::Options),
    /// (b) An HTTP counter (read-modify-write and reply), beside workerd.
    Http(benches::http::Options),
    /// (c) An in-process RPC round trip, without a write and with one.
    Rpc(benches::rpc::Options),
    /// (d) Cold start of an existing object, and of a new one.
    ColdStart(benches::cold_start::Options),
    /// (e) Resident memory of each touched object.
    Memory(benches::memory::Options),
    /// (f) Seconds to reopen a store for each GB of log left by a crash.
    Recovery(benches::recovery::Options),
    /// (g) A hundred parents and their children, one query at a time and with a JOIN.
    NPlusOne(benches::n_plus_one::Options),
    /// (h) Alarms: set, late, pending at start, overdue.
    Alarms(benches::alarms::Options),
    /// (i) What the archive costs, and how long a restore takes.
    Archive(benches::archive::Options),
    /// (j) `WebSockets`: memory of idle ones, broadcast, echo; beside workerd.
    Sockets(benches::sockets::Options),
    /// (k) The durable outbox: enqueued, delivered, on the way; beside a queue in `PostgreSQL`.
    Outbox(benches::outbox::Options),
    /// (l) Single acts of an outbox beside very many rows.
    OutboxScale(benches::outbox_scale::Options),
    /// (t) Messages enqueued over the outbox's HTTP API, beside the HTTP counter.
    OutboxHttp(benches::outbox_http::Options),
    /// (m) More load than a server can take: answers, refusals, latencies, memory.
    Load(benches::load::Options),
    /// (n) Transfers between accounts of one bank; beside SQLite and workerd.
    Bank(benches::bank::Options),
    /// (o) Mixed load for an hour beside `kill -9`: is every acknowledged effect there, does anything grow?
    Soak(soak::Options),
    /// (p) Chains of outcomes: cold start, replay of very many, transitions per second.
    Outcomes(benches::outcomes::Options),
    /// (q) Loads that take memory, with a budget and without: the highest resident memory.
    Budget(benches::budget::Options),
    /// (r) Latency of commits beside continuous checkpoints and the archive.
    Stalls(benches::stalls::Options),
    /// (s) How long messages of an outbox wait beyond their time, by priority, first and again.
    OutboxFairness(benches::outbox_fairness::Options),
    /// (u) Encoding and decoding of values: other codecs, and the share of a call and of a stored key.
    Cbor(benches::cbor::Options),
    /// (v) What copies of the history cost, and how long a lost store takes to be back.
    Backup(benches::backup::Options),
    /// (w) Durable appends to a cluster's log in `PostgreSQL`, beside a plain `INSERT`.
    ClusterLog(benches::cluster_log::Options),
    /// (x) A member of a cluster: commits, beside one node and `PostgreSQL` alone, and takeovers.
    Cluster(benches::cluster::Options),
    /// Child process of a benchmark; not for direct use.
    #[command(hide = true)]
    Child(ours::child::Options),
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    if let Bench::Child(options) = cli.bench {
        return ours::child::run(&options);
    }
    let context = context::Context::new(cli.settings)?;
    match cli.bench {
        Bench::Commits(options) => benches::commits::run(&context, &options),
        Bench::Http(options) => benches::http::run(&context, &options),
        Bench::Rpc(options) => benches::rpc::run(&context, &options),
        Bench::ColdStart(options) => benches::cold_start::run(&context, &options),
        Bench::Memory(options) => benches::memory::run(&context, &options),
        Bench::Recovery(options) => benches::recovery::run(&context, &options),
        Bench::NPlusOne(options) => benches::n_plus_one::run(&context, &options),
        Bench::Alarms(options) => benches::alarms::run(&context, &options),
        Bench::Archive(options) => benches::archive::run(&context, &options),
        Bench::Backup(options) => benches::backup::run(&context, &options),
        Bench::ClusterLog(options) => benches::cluster_log::run(&context, &options),
        Bench::Cluster(options) => benches::cluster::run(&context, &options),
        Bench::Sockets(options) => benches::sockets::run(&context, &options),
        Bench::Outbox(options) => benches::outbox::run(&context, &options),
        Bench::OutboxHttp(options) => benches::outbox_http::run(&context, &options),
        Bench::OutboxScale(options) => benches::outbox_scale::run(&context, &options),
        Bench::OutboxFairness(options) => benches::outbox_fairness::run(&context, &options),
        Bench::Load(options) => benches::load::run(&context, &options),
        Bench::Bank(options) => benches::bank::run(&context, &options),
        Bench::All => benches::run_all(&context),
        Bench::Cbor(options) => benches::cbor::run(&context, &options),
        Bench::Outcomes(options) => benches::outcomes::run(&context, &options),
        Bench::Budget(options) => benches::budget::run(&context, &options),
        Bench::Stalls(options) => benches::stalls::run(&context, &options),
        Bench::Soak(options) => soak::run(&context, &options),
        Bench::Child(_) => unreachable!("handled above"),
    }
}
