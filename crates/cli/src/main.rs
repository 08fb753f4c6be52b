//! The `abide` command: serve ready-made objects, look into a data directory that nothing serves, and talk to a node that
//! runs.
#![forbid(unsafe_code)]

mod alarms;
mod audit;
mod data;
mod kv;
mod node;
mod objects;
mod outbox;
mod recovery;
mod repair;
mod sql;
mod token;
mod verify;

use std::{io::Write, process::ExitCode};

use abide::{
    Host,
    server::{Config, ServeArgs},
};
use abide_patterns::service;
use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{
    alarms::Alarms,
    audit::AuditArgs,
    data::DataArgs,
    node::NodeArgs,
    recovery::{BookmarkArgs, ForkArgs, RestoreArgs},
    repair::RepairArgs,
    sql::SqlArgs,
    token::Tokens,
};

/// A fifth less CPU for each request than with the allocator of glibc.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable objects: serve them, and look into their data directory
#[derive(Parser)]
#[command(name = "abide", version)]
enum Command {
    /// Serve the ready-made objects over HTTP: key-value stores and outboxes
    Serve(ServeArgs),
    /// The alarms of a node, or of a data directory that nothing serves
    #[command(subcommand)]
    Alarms(Alarms),
    /// The outboxes of a running node
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// What a data directory holds; for this and the commands below, nothing may serve it meanwhile
    #[command(subcommand)]
    Objects(Objects),
    /// Run SQL on one object
    Sql(SqlArgs),
    /// Tell the bookmark of an object, now or at an earlier time
    Bookmark(BookmarkArgs),
    /// Bring an object back to an earlier moment
    Restore(RestoreArgs),
    /// Make a new object with the content that another had at an earlier moment
    Fork(ForkArgs),
    /// List the objects that are refused until they are repaired, and why
    Quarantined(NodeArgs),
    /// End the quarantine of an object that `abide restore` cannot bring back
    Repair(RepairArgs),
    /// The tokens that let clients in over TCP
    #[command(subcommand)]
    Token(Tokens),
    /// What operators have changed, newest first: when, who, from where, what, and how it ended
    Audit(AuditArgs),
    /// Check the log, the archive and every object's database
    Verify(DataArgs),
    /// Bring every object's file up to date
    Checkpoint(DataArgs),
}

#[derive(Subcommand)]
enum Objects {
    /// List every object: its class, its id, its name, its size in bytes
    List(DataArgs),
}

fn main() -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match Command::parse() {
        Command::Serve(args) => {
            // The host prints for itself.
            drop(out);
            serve(args)?;
        }
        Command::Alarms(command) => alarms::run(&command, &mut out)?,
        Command::Outbox(command) => outbox::run(&command, &mut out)?,
        Command::Objects(Objects::List(args)) => objects::list(&args, &mut out)?,
        Command::Sql(args) => sql::run(&args, &mut out)?,
        Command::Bookmark(args) => recovery::bookmark(&args, &mut out)?,
        Command::Restore(args) => recovery::restore(&args, &mut out)?,
        Command::Fork(args) => recovery::fork(&args, &mut out)?,
        Command::Quarantined(args) => repair::list(&args, &mut out)?,
        Command::Repair(args) => repair::repair(&args, &mut out)?,
        Command::Token(command) => token::run(&command, &mut out)?,
        Command::Audit(args) => audit::run(&args, &mut out)?,
        Command::Verify(args) => return verify::run(&args, &mut out),
        Command::Checkpoint(args) => {
            let data = args.open()?;
            data.store.checkpoint()?;
            data.close()?;
            writeln!(out, "every object's file is up to date")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn serve(args: ServeArgs) -> Result<()> {
    let (config, settings) = Config::load_with::<outbox::Settings>(&args.into())?;
    let options = settings.options();
    let host = Host::from_config(config).object::<kv::Kv>(kv::BINDING);
    service::install(host, settings.registry(), options)
        .router(|env| kv::router(env.clone()).merge(service::router(env)))
        .serve()
        .await?;
    Ok(())
}
