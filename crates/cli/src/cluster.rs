//! `abide cluster`: the tables of a cluster, and its nodes.

use std::io::Write;

use abide::server::{ClusterStatus, HistoryPlace, OwnedShards, cluster_database, rebuild_cluster};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::{backup::runtime, data::DataArgs, text::time};

#[derive(Subcommand)]
pub(crate) enum Cluster {
    /// Create the tables of a cluster in the database of cluster.postgres, or bring those of an earlier release to this one
    Init(DataArgs),
    /// List the nodes of the cluster, with the shards of each
    Status(DataArgs),
    /// List which node has which shards
    Shards(DataArgs),
    /// Have others take over the objects of a node whose machine is off, without waiting until it has been silent
    Fence(FenceArgs),
    /// Make the tables of a cluster whose database is lost, in an empty database, from its object store
    Rebuild(DataArgs),
}

#[derive(Args)]
pub(crate) struct FenceArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The number of the node's session, as `abide cluster status` shows it
    session: u64,
}

pub(crate) fn run(command: &Cluster, out: &mut impl Write) -> Result<()> {
    let args = match command {
        Cluster::Init(args)
        | Cluster::Status(args)
        | Cluster::Shards(args)
        | Cluster::Rebuild(args) => args,
        Cluster::Fence(args) => &args.data,
    };
    let config = args.config()?;
    let database = cluster_database(&config.cluster)?
        .context("there is no cluster: set cluster.postgres to the address of its database")?;
    let runtime = runtime()?;
    match command {
        Cluster::Init(_) => {
            runtime.block_on(database.init())?;
            runtime.block_on(database.check())?;
            writeln!(out, "the database has the tables of a cluster")?;
        }
        Cluster::Status(_) => status(&runtime.block_on(database.status())?, out)?,
        Cluster::Shards(_) => shards(&runtime.block_on(database.shards())?, out)?,
        Cluster::Fence(FenceArgs { session, .. }) => {
            if !runtime.block_on(database.fence(*session))? {
                bail!("there is no live session {session}: see `abide cluster status`");
            }
            writeln!(out, "session {session} has ended")?;
        }
        Cluster::Rebuild(_) => {
            let place = HistoryPlace::of(&config.archive)?;
            let place = place.context("set archive.url to the object store of the lost cluster")?;
            let rebuilt = runtime.block_on(rebuild_cluster(&database, place.copies()))?;
            let (runs, classes) = (rebuilt.runs.len(), rebuilt.namespaces.len());
            let at = time(Some(rebuilt.unix_millis.cast_signed()));
            writeln!(
                out,
                "the cluster has what was in its object store at {at}: {runs} runs of history, with objects of {classes} classes\n\
                 what its nodes had committed and was in no run by then, and what they committed afterwards, is lost"
            )?;
        }
    }
    Ok(())
}

fn status(status: &ClusterStatus, out: &mut impl Write) -> Result<()> {
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
    Ok(())
}

fn shards(owned: &[OwnedShards], out: &mut impl Write) -> Result<()> {
    writeln!(out, "SHARDS\tSESSION\tADDRESS")?;
    for of in owned {
        let (first, last) = (of.shards.start(), of.shards.end());
        let session = of
            .session
            .map_or("-".to_owned(), |number| number.to_string());
        let address = of.address.as_deref().unwrap_or("-");
        let shards = if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        };
        writeln!(out, "{shards}\t{session}\t{address}")?;
    }
    Ok(())
}
