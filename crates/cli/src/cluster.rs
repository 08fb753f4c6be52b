//! `abide cluster`: the tables of a cluster, and its nodes.

use std::io::Write;

use abide::server::cluster_database;
use anyhow::{Context, Result};
use clap::Subcommand;

use crate::{backup::runtime, data::DataArgs};

#[derive(Subcommand)]
pub(crate) enum Cluster {
    /// Create the tables of a cluster in the database of cluster.postgres, unless they are there
    Init(DataArgs),
    /// List the nodes of the cluster, with the shards of each
    Status(DataArgs),
}

pub(crate) fn run(command: &Cluster, out: &mut impl Write) -> Result<()> {
    let (Cluster::Init(args) | Cluster::Status(args)) = command;
    let database = cluster_database(&args.config()?.cluster)?
        .context("there is no cluster: set cluster.postgres to the address of its database")?;
    let runtime = runtime()?;
    match command {
        Cluster::Init(_) => {
            runtime.block_on(database.init())?;
            runtime.block_on(database.check())?;
            writeln!(out, "the database has the tables of a cluster")?;
        }
        Cluster::Status(_) => {
            let status = runtime.block_on(database.status())?;
            writeln!(out, "SESSION\tSTATE\tSHARDS\tUNARCHIVED\tADDRESS")?;
            for session in &status.sessions {
                let state = if session.is_fenced { "ended" } else { "live" };
                let address = session.address.as_deref().unwrap_or("-");
                let (number, shards) = (session.number, session.shards);
                let unarchived = session.unarchived;
                writeln!(out, "{number}\t{state}\t{shards}\t{unarchived}\t{address}")?;
            }
            let (unowned, inherited) = (status.unowned, status.inherited);
            let runs = status.runs;
            writeln!(
                out,
                "shards without a live node: {unowned}; with records of earlier nodes to archive: {inherited}; runs of history: {runs}"
            )?;
        }
    }
    Ok(())
}
