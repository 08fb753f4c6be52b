//! `abide alarms`: what will go off, what was given up, and another try for that.
//!
//! If nothing serves the data directory it is opened; otherwise, or with `--admin`, the running node is asked.

use std::io::Write;

use abide::{AlarmCursor, AlarmState, AlarmTime};
use abide_storage::AlarmRow;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Deserialize;

use crate::{
    data::Data,
    node::{NodeArgs, Source, segment},
};

/// Alarms of one question; more are asked for page by page.
const PAGE: usize = 1_000;

#[derive(Subcommand)]
pub(crate) enum Alarms {
    /// List the alarms by time: class, object, when it is due, attempts so far
    List(ListArgs),
    /// Run an alarm again that was given up, as if for the first time
    Rerun(RerunArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Those that were given up, instead of those that will go off
    #[arg(long)]
    failed: bool,

    /// At most so many
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Args)]
pub(crate) struct RerunArgs {
    /// The object: its class, a slash, and its id or name
    #[arg(value_name = "CLASS/OBJECT")]
    object: String,

    #[command(flatten)]
    node: NodeArgs,
}

/// An alarm, from wherever it is listed.
#[derive(Deserialize)]
struct Listed {
    class: String,
    id: String,
    due: i64,
    attempts: u32,
}

/// A page of a running node's list.
#[derive(Deserialize)]
struct Page {
    alarms: Vec<Listed>,
    next: Option<String>,
}

pub(crate) fn run(command: &Alarms, out: &mut impl Write) -> Result<()> {
    match command {
        Alarms::List(args) => list(args, out),
        Alarms::Rerun(args) => rerun(args, out),
    }
}

fn list(args: &ListArgs, out: &mut impl Write) -> Result<()> {
    let mut left = args.limit.unwrap_or(usize::MAX);
    writeln!(out, "CLASS\tID\tDUE\tATTEMPTS")?;
    match args.node.source()? {
        Source::Data(data) => {
            let mut after = None;
            while left > 0 {
                let (alarms, next) = stored(&data, args.failed, after, left.min(PAGE));
                left -= alarms.len();
                print(&alarms, out)?;
                after = next;
                if after.is_none() {
                    break;
                }
            }
            data.close()
        }
        Source::Node(node) => {
            let state = if args.failed { "failed" } else { "pending" };
            let mut after = String::new();
            while left > 0 {
                let limit = left.min(PAGE);
                let page: Page =
                    node.get(&format!("/alarms?state={state}&limit={limit}{after}"))?;
                left -= page.alarms.len();
                print(&page.alarms, out)?;
                match page.next {
                    Some(next) => after = format!("&after={}", segment(&next)),
                    None => break,
                }
            }
            Ok(())
        }
    }
}

/// A page of a data directory's alarms, and where the next one begins.
fn stored(
    data: &Data,
    failed: bool,
    after: Option<AlarmCursor>,
    limit: usize,
) -> (Vec<Listed>, Option<AlarmCursor>) {
    let state = if failed {
        AlarmState::Failed
    } else {
        AlarmState::Pending
    };
    let classes = data.store.namespaces();
    let found = data.store.alarms().list(state, after, limit);
    let next = found.last().map(|(key, entry)| (entry.due, *key));
    let listed = found.into_iter().map(|(key, entry)| {
        let known = classes.iter().find(|(number, _)| *number == key.namespace);
        Listed {
            class: known.map_or_else(String::new, |(_, class)| class.clone()),
            id: key.id_hex(),
            due: entry.due,
            attempts: u32::from(entry.attempts),
        }
    });
    (listed.collect(), next)
}

fn print(alarms: &[Listed], out: &mut impl Write) -> Result<()> {
    for alarm in alarms {
        let due = AlarmTime::from_unix_millis(alarm.due);
        writeln!(
            out,
            "{}\t{}\t{due}\t{}",
            alarm.class, alarm.id, alarm.attempts
        )?;
    }
    Ok(())
}

fn rerun(args: &RerunArgs, out: &mut impl Write) -> Result<()> {
    let Some((class, object)) = args.object.split_once('/') else {
        bail!(
            "{:?} is no object: write its class, a slash, and its id or name",
            args.object
        );
    };
    match args.node.source()? {
        Source::Node(node) => {
            let path = format!("/alarms/{}/{}/rerun", segment(class), segment(object));
            node.post::<()>(&path, &())?;
            writeln!(out, "it goes off now")?;
        }
        Source::Data(data) => {
            let db = data.find(object, Some(class))?;
            let Some(failed) = db.alarm()?.filter(|alarm| alarm.failed) else {
                bail!("the object has no alarm that was given up");
            };
            db.set_alarm(Some(&AlarmRow::at(failed.scheduled)))?;
            db.commit()?;
            drop(db);
            data.close()?;
            writeln!(out, "it goes off when a node serves the directory")?;
        }
    }
    Ok(())
}
