//! `abide alarms`: lists pending, failing and failed alarms, and reruns them.
//!
//! If no node serves the data directory, it is opened directly; otherwise, or with `--admin`, the running node is
//! queried.

use std::io::Write;

use abide::{
    AlarmStatus, Timestamp,
    clock::{Clock as _, SystemClock},
    storage::{AlarmCursor, AlarmState},
};
use abide_storage::ClockTime;
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Deserialize;

use crate::{
    data::Data,
    node::{NodeArgs, Source, segment},
    object::ObjectArg,
};

/// Alarms per request; more are requested page by page.
const PAGE: usize = 1_000;

#[derive(Subcommand)]
pub(crate) enum Alarms {
    /// List the alarms by time: class, object, its name if it has one, when it is due, attempts so far
    List(ListArgs),
    /// Run failing or failed alarms of an object now, as if for the first time
    Rerun(RerunArgs),
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Alarms whose last attempt failed and that will be retried, with their crash count and last error
    #[arg(long)]
    failing: bool,

    /// Alarms that were given up, likewise
    #[arg(long, conflicts_with = "failing")]
    failed: bool,

    /// At most the alarms of this many objects [default: all]
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,

    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Args)]
pub(crate) struct RerunArgs {
    #[command(flatten)]
    object: ObjectArg,

    /// Only the alarm with this name
    #[arg(long, value_name = "NAME")]
    alarm: Option<String>,

    #[command(flatten)]
    node: NodeArgs,
}

/// An alarm, from either source.
#[derive(Deserialize)]
struct Listed {
    class: String,
    id: String,
    #[serde(default)]
    alarm: Option<String>,
    due: i64,
    attempts: u32,
    #[serde(default)]
    crashes: Option<u32>,
    #[serde(default)]
    error: Option<String>,
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
    let state = match (args.failing, args.failed) {
        (true, _) => AlarmState::Failing,
        (_, true) => AlarmState::Failed,
        _ => AlarmState::Pending,
    };
    let troubles = match state {
        AlarmState::Pending => "",
        AlarmState::Failing | AlarmState::Failed => "\tCRASHES\tERROR",
    };
    writeln!(out, "CLASS\tID\tALARM\tDUE\tATTEMPTS{troubles}")?;
    match args.node.source()? {
        Source::Data(data) => {
            let mut after = None;
            while left > 0 {
                let limit = left.min(PAGE);
                let (alarms, next) = stored(&data, state, after, limit);
                left -= limit;
                print(&alarms, state, out)?;
                after = next;
                if after.is_none() {
                    break;
                }
            }
            data.close()
        }
        Source::Node(node) => {
            let name = match state {
                AlarmState::Pending => "pending",
                AlarmState::Failing => "failing",
                AlarmState::Failed => "failed",
            };
            let mut after = String::new();
            while left > 0 {
                let limit = left.min(PAGE);
                let page: Page = node.get(&format!("/alarms?state={name}&limit={limit}{after}"))?;
                left -= limit;
                print(&page.alarms, state, out)?;
                match page.next {
                    Some(next) => after = format!("&after={}", segment(&next)),
                    None => break,
                }
            }
            Ok(())
        }
    }
}

/// A page of a data directory's alarms, and the start of the next one.
fn stored(
    data: &Data,
    state: AlarmState,
    after: Option<AlarmCursor>,
    limit: usize,
) -> (Vec<Listed>, Option<AlarmCursor>) {
    let classes = data.store.namespaces();
    let found = data.store.alarms().list(state, after, limit);
    let set_back = data.store.alarms().set_back();
    let next = found
        .last()
        .map(|(key, entry)| (entry.due_at(set_back), *key));
    let listed = found.into_iter().flat_map(|(key, entry)| {
        let known = classes.iter().find(|(number, _)| *number == key.namespace);
        let listed = Listed {
            class: known.map_or_else(String::new, |(_, class)| class.clone()),
            id: key.id_hex(),
            alarm: None,
            due: entry.due_at(set_back),
            attempts: u32::from(entry.attempts),
            crashes: None,
            error: None,
        };
        if !entry.named && state == AlarmState::Pending {
            return vec![listed];
        }
        // The index contains neither names nor errors.
        let rows = data.store.open_object(key).and_then(|db| db.alarms());
        let all = match rows {
            Ok(rows) => rows
                .into_iter()
                .map(|(name, row)| AlarmStatus::new(&name, row, set_back)),
            Err(error) => {
                return vec![Listed {
                    error: Some(error.to_string()),
                    ..listed
                }];
            }
        };
        let of_object = AlarmStatus::listed(all.collect(), state).into_iter();
        of_object
            .map(|status| Listed {
                alarm: status.name.map(|name| name.to_string()),
                due: status.due.unix_millis(),
                attempts: status.attempts,
                crashes: Some(status.crashes),
                error: status.error,
                class: listed.class.clone(),
                id: listed.id.clone(),
            })
            .collect()
    });
    (listed.collect(), next)
}

fn print(alarms: &[Listed], state: AlarmState, out: &mut impl Write) -> Result<()> {
    for alarm in alarms {
        let due = Timestamp::from_unix_millis(alarm.due);
        write!(
            out,
            "{}\t{}\t{}\t{due}\t{}",
            alarm.class,
            alarm.id,
            one_line(alarm.alarm.as_deref()),
            alarm.attempts
        )?;
        if state != AlarmState::Pending {
            let crashes = alarm
                .crashes
                .map_or("-".to_owned(), |crashes| crashes.to_string());
            let error = one_line(alarm.error.as_deref());
            write!(out, "\t{crashes}\t{error}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Puts text from outside on the alarm's single line.
fn one_line(text: Option<&str>) -> String {
    text.unwrap_or("-").replace(char::is_control, " ")
}

fn rerun(args: &RerunArgs, out: &mut impl Write) -> Result<()> {
    match args.node.source()? {
        Source::Node(node) => {
            let mut path = args.object.on_node(&node)?.path("alarms", "rerun");
            if let Some(alarm) = &args.alarm {
                path = format!("{path}?alarm={}", segment(alarm));
            }
            node.post::<()>(&path, &())?;
            writeln!(out, "it fires now")?;
        }
        Source::Data(data) => {
            let object = args.object.in_data(&data)?;
            let db = data.store.open_object(object.key)?;
            let now = ClockTime {
                unix_millis: SystemClock::new().unix_millis().cast_signed(),
                set_back: data.store.alarms().set_back(),
            };
            let alarms = db.alarms()?.into_iter();
            let rerun: Vec<_> = alarms
                .filter(|(name, _)| args.alarm.as_deref().is_none_or(|only| only == &**name))
                .filter_map(|(name, row)| Some((name, row.rerun(now, db.generation())?)))
                .collect();
            if rerun.is_empty() {
                bail!("the object has no such alarm that was given up or waits for a retry");
            }
            data.audited("rerun_alarm", Some(&object), None, || {
                for (name, row) in &rerun {
                    db.set_named_alarm(name, Some(row))?;
                }
                Ok(db.commit()?)
            })?;
            drop(db);
            data.close()?;
            writeln!(out, "it fires when a node serves the directory")?;
        }
    }
    Ok(())
}
