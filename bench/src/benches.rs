//! The benches, one file each. Each has `Options` and `run`.

pub(crate) mod alarms;
pub(crate) mod archive;
pub(crate) mod backup;
pub(crate) mod bank;
pub(crate) mod budget;
pub(crate) mod cbor;
pub(crate) mod cluster;
pub(crate) mod cluster_log;
pub(crate) mod cold_start;
pub(crate) mod commits;
pub(crate) mod http;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod n_plus_one;
pub(crate) mod outbox;
pub(crate) mod outbox_fairness;
pub(crate) mod outbox_http;
pub(crate) mod outbox_scale;
pub(crate) mod outcomes;
pub(crate) mod recovery;
pub(crate) mod rpc;
pub(crate) mod sockets;
pub(crate) mod stalls;

use anyhow::Result;
use clap::{Args, Parser};

use crate::context::Context;

/// A bench's options, as the command line has them.
#[derive(Parser)]
struct Parsed<O: Args> {
    #[command(flatten)]
    options: O,
}

fn options<O: Args>(given: &[&str]) -> O {
    Parsed::parse_from([&["bench"], given].concat()).options
}

/// Every bench whose peer needs no manual installation, those with workerd first. Of `commits`, only two cells of the
/// grid.
pub(crate) fn run_all(context: &Context) -> Result<()> {
    if context.wants_peer() {
        crate::peers::workerd::install()?;
    }
    http::run(context, &options(&[]))?;
    rpc::run(context, &options(&[]))?;
    bank::run(context, &options(&[]))?;
    sockets::run(context, &options(&[]))?;
    memory::run(context, &options(&[]))?;
    cold_start::run(context, &options(&[]))?;
    n_plus_one::run(context, &options(&[]))?;
    let cells = ["--objects", "1000", "--inflight", "1,64"];
    commits::run(context, &options(&cells))
}
