//! The `abide` command: serves ready-made objects, inspects a data directory, and manages a running node.
#![forbid(unsafe_code)]

mod alarms;
mod audit;
mod backup;
mod class;
mod client;
mod cluster;
mod data;
mod export;
mod front;
mod help;
mod import;
mod kv;
mod meter;
mod new;
mod node;
mod object;
mod objects;
mod outbox;
mod projection;
mod queue;
mod recovery;
mod repair;
mod schedule;
mod sql;
mod standby;
mod text;
mod timeline;
mod token;
mod verify;
mod workflow;

use std::{
    backtrace::BacktraceStatus,
    io::{self, Write},
    process::ExitCode,
};

use abide::outbox::service;
use abide::{
    Host,
    server::{Config, ServeArgs},
};
use anyhow::Result;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{
    alarms::Alarms,
    audit::AuditArgs,
    backup::{HistoryArgs, VerifyArgs},
    class::Classes,
    cluster::Cluster,
    data::DataArgs,
    export::ExportArgs,
    import::ImportArgs,
    new::NewArgs,
    node::NodeArgs,
    projection::Projection,
    queue::Queue,
    recovery::{ActivateArgs, BookmarkArgs, ForkArgs, RestoreArgs},
    repair::RepairArgs,
    schedule::Schedule,
    sql::SqlArgs,
    standby::{PromoteArgs, StandbyArgs},
    timeline::{DormantArgs, TimelineArgs},
    token::Tokens,
    workflow::Workflow,
};

/// Uses a fifth less CPU per request than glibc's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Information for users of every command.
const AFTER_HELP: &str = "\
Example:
  abide serve                       # then open http://127.0.0.1:8080, and in another terminal:
  abide alarms list

Objects:
  An object is given as its class, a slash, and its name (Kv/ada) or its id. The first digits of an id are enough
  if they are unique, and so is the name alone.

Data directories:
  alarms, bookmark, restore, fork, timeline, dormant, quarantined, repair, sql, export and import work on a directory that no
  node serves, and otherwise use the node that serves it. activate needs a running node. class, objects, verify,
  checkpoint and sql --write need a directory that no node serves. token and audit work either way. history, restore --from, standby and verify
  --from read copies in an object store, which a node may be writing.

Exit codes:
  0 done, 1 failed (one line on standard error says why), 2 the command line is invalid. RUST_BACKTRACE=1 adds a stack
  trace to an error.";

/// Serve durable objects, and inspect their data directory
#[derive(Parser)]
#[command(name = "abide", version, after_help = AFTER_HELP)]
enum Command {
    /// Serve key-value objects and outboxes over HTTP
    Serve(ServeArgs),
    /// Create a project with a durable object, its test and its settings
    New(NewArgs),
    /// List alarms, and rerun failed ones
    #[command(subcommand)]
    Alarms(Alarms),
    /// Manage the outboxes of a running node
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Manage the schedules of objects on a running node
    #[command(subcommand)]
    Schedule(Schedule),
    /// Manage the workflows of a program on a running node
    #[command(subcommand)]
    Workflow(Workflow),
    /// Manage the queues of a program on a running node
    #[command(subcommand)]
    Queue(Queue),
    /// Look after what objects feed to read models on a running node
    #[command(subcommand)]
    Projection(Projection),
    /// List the objects of a data directory
    #[command(subcommand)]
    Objects(Objects),
    /// List the classes of a data directory, and delete one with all its objects
    #[command(subcommand)]
    Class(Classes),
    /// Create the tables of a cluster, list its nodes, and end one that is lost
    #[command(subcommand)]
    Cluster(Cluster),
    /// Run SQL on one object, as it is or was
    Sql(SqlArgs),
    /// Print the bookmark of an object, now or at an earlier time
    Bookmark(BookmarkArgs),
    /// Restore an object to an earlier point in time, or a lost data directory from its copy in an object store
    Restore(RestoreArgs),
    /// Keep a copy of another machine's history in a directory, to be promoted if that machine is lost
    Standby(StandbyArgs),
    /// Make the directory of a standby a data directory, which continues the history of the lost machine
    Promote(PromoteArgs),
    /// Create an object with the content that another one had at an earlier time
    Fork(ForkArgs),
    /// Let a dormant object act: a fork, or an object that was restored with --dormant
    Activate(ActivateArgs),
    /// Show what an object was restored or forked from, and whether it is dormant
    Timeline(TimelineArgs),
    /// List the dormant objects: forks, and objects restored with --dormant, that were not activated
    Dormant(DormantArgs),
    /// List the objects that are unavailable until they are repaired, and why
    Quarantined(NodeArgs),
    /// Repair a quarantined object that `abide restore` cannot restore
    Repair(RepairArgs),
    /// Create, list and revoke tokens for access over TCP
    #[command(subcommand)]
    Token(Tokens),
    /// List changes by operators, newest first
    Audit(AuditArgs),
    /// List the copies of a data directory's history in an object store
    History(HistoryArgs),
    /// Check the log, the archive and every object's database, or a copy in an object store
    Verify(VerifyArgs),
    /// Write the database of an object to a file, as it is or was, or those of all objects as of one moment
    Export(ExportArgs),
    /// Create objects from an export, or one from any SQLite database
    Import(ImportArgs),
    /// Bring every object's file up to date
    Checkpoint(DataArgs),
}

#[derive(Subcommand)]
enum Objects {
    /// List every object: its class, its id, its name, its size in bytes
    List(DataArgs),
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::from(CLOSED_PIPE),
        Err(error) => {
            eprintln!("error: {}", sentence(&error));
            if error.backtrace().status() == BacktraceStatus::Captured {
                eprintln!("\n{}", error.backtrace());
            }
            ExitCode::FAILURE
        }
    }
}

/// The exit code that a shell reports for a program that SIGPIPE ended.
const CLOSED_PIPE: u8 = 141;

/// Whether the reader of the output has closed it, as in `abide outbox list shop | head`, which is not a failure.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    // An error of another pipe has a context.
    let bare = error.chain().len() == 1;
    let error = error.downcast_ref::<io::Error>();
    bare && error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// An error with its causes on one line, except causes that it already includes.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    // It may quote text sent by clients; a control character must not reach a terminal.
    text.chars().fold(String::new(), |mut shown, letter| {
        if letter.is_control() {
            shown.extend(letter.escape_debug());
        } else {
            shown.push(letter);
        }
        shown
    })
}

fn run() -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    let matches = help::with_notes(Command::command()).get_matches();
    match Command::from_arg_matches(&matches)? {
        Command::Serve(args) => {
            // The host prints its own output.
            drop(out);
            serve(args)?;
        }
        Command::New(args) => new::run(&args, &mut out)?,
        Command::Alarms(command) => alarms::run(&command, &mut out)?,
        Command::Schedule(command) => schedule::run(&command, &mut out)?,
        Command::Workflow(command) => workflow::run(&command, &mut out)?,
        Command::Queue(command) => queue::run(&command, &mut out)?,
        Command::Projection(command) => projection::run(&command, &mut out)?,
        Command::Outbox(command) => outbox::run(&command, &mut out)?,
        Command::Objects(Objects::List(args)) => objects::list(&args, &mut out)?,
        Command::Class(command) => class::run(&command, &mut out)?,
        Command::Cluster(command) => cluster::run(&command, &mut out)?,
        Command::Sql(args) => sql::run(&args, &mut out)?,
        Command::Bookmark(args) => recovery::bookmark(&args, &mut out)?,
        Command::Restore(args) => recovery::restore(&args, &mut out)?,
        Command::Standby(args) => standby::follow(&args, &mut out)?,
        Command::Promote(args) => standby::promote(args, &mut out)?,
        Command::Fork(args) => recovery::fork(&args, &mut out)?,
        Command::Activate(args) => recovery::activate(&args, &mut out)?,
        Command::Timeline(args) => timeline::show(&args, &mut out)?,
        Command::Dormant(args) => timeline::dormant(&args, &mut out)?,
        Command::Quarantined(args) => repair::list(&args, &mut out)?,
        Command::Repair(args) => repair::repair(&args, &mut out)?,
        Command::Token(command) => token::run(&command, &mut out)?,
        Command::Audit(args) => audit::run(&args, &mut out)?,
        Command::Export(args) => export::run(&args, &mut out)?,
        Command::Import(args) => import::run(&args, &mut out)?,
        Command::Verify(args) => return backup::verify(&args, &mut out),
        Command::History(args) => backup::history(&args, &mut out)?,
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
    let host = Host::from_config(config).object::<kv::Kv>();
    service::install(host, settings.registry(), options)
        .front_page(front::page())
        .router(|env| {
            kv::router(env.clone())
                .merge(front::guides(&env))
                .merge(service::router(env))
        })
        .serve()
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn unread_output_is_not_an_error() {
        let closed = || anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(is_closed_pipe(&closed()));
        assert!(!is_closed_pipe(&closed().context("cannot ask the node")));
        assert!(!is_closed_pipe(&anyhow!("broken pipe")));
    }

    #[test]
    fn an_error_is_one_line_that_names_each_cause_once() {
        let error = anyhow!("permission denied").context("cannot open data: permission denied");
        assert_eq!(sentence(&error), "cannot open data: permission denied");
        let hostile = anyhow!("no object \u{1b}[2J\nof this name");
        assert_eq!(sentence(&hostile), "no object \\u{1b}[2J\\nof this name");
        let error = Err::<(), _>(error).context("cannot serve").unwrap_err();
        assert_eq!(
            sentence(&error),
            "cannot serve: cannot open data: permission denied"
        );
    }

    #[test]
    fn every_command_is_well_formed() {
        help::with_notes(Command::command()).debug_assert();
    }
}
