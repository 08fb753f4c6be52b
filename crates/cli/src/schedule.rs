//! `abide schedule`: the timers of an object's schedule, and retries of failed runs.

use std::io::Write;

use abide::schedule::{Entry, Run, Timer};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use crate::{
    node::{Node, NodeArgs, segment},
    object::ObjectArg,
    text::{plain, time},
};

/// Timers and runs per request; more are requested page by page.
const PAGE: usize = 1_000;

#[derive(Subcommand)]
pub(crate) enum Schedule {
    /// List the timers of an object by name: state, next time, attempts, last error
    List(ScheduleArgs),
    /// List failed runs that wait for an operator, oldest first
    Failed(ScheduleArgs),
    /// Show the history, newest first
    History(HistoryArgs),
    /// Run a timer now
    Run(TimerArgs),
    /// Retry all failed runs of a timer
    Retry(TimerArgs),
    /// Discard all failed runs of a timer
    Discard(TimerArgs),
}

#[derive(Args)]
pub(crate) struct ScheduleArgs {
    #[command(flatten)]
    object: ObjectArg,

    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Args)]
pub(crate) struct HistoryArgs {
    /// Only entries of this timer
    #[arg(long, value_name = "NAME")]
    timer: Option<String>,

    /// Maximum number of entries, from 1 to 1000
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,

    #[command(flatten)]
    schedule: ScheduleArgs,
}

#[derive(Args)]
pub(crate) struct TimerArgs {
    #[command(flatten)]
    schedule: ScheduleArgs,

    /// The name of the timer
    timer: String,
}

#[derive(Deserialize)]
struct Timers {
    timers: Vec<Timer>,
}

#[derive(Deserialize)]
struct Runs {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Entries {
    entries: Vec<Entry>,
}

/// The schedule of an object on a running node.
struct Opened {
    node: Node,
    path: String,
}

impl ScheduleArgs {
    fn open(&self) -> Result<Opened> {
        let node = self.node.node()?;
        let path = self.object.on_node(&node)?;
        let path = path.path("objects", "components/schedule");
        Ok(Opened { node, path })
    }
}

pub(crate) fn run(command: &Schedule, out: &mut impl Write) -> Result<()> {
    match command {
        Schedule::List(args) => list(args, out),
        Schedule::Failed(args) => failed(args, out),
        Schedule::History(args) => history(args, out),
        Schedule::Run(args) => change(args, "run", "runs now", out),
        Schedule::Retry(args) => change(args, "retry", "is retried", out),
        Schedule::Discard(args) => change(args, "discard", "has no failed runs any more", out),
    }
}

fn list(args: &ScheduleArgs, out: &mut impl Write) -> Result<()> {
    let Opened { node, path } = args.open()?;
    let mut after = String::new();
    loop {
        let Timers { timers } = node.get(&format!("{path}/timers?limit={PAGE}{after}"))?;
        if after.is_empty() {
            writeln!(out, "TIMER\tPHASE\tDUE\tATTEMPTS\tERROR")?;
        }
        for timer in &timers {
            let run = timer.run.as_ref();
            writeln!(
                out,
                "{}\t{}\t{}\t{}\t{}",
                plain(&timer.name),
                timer.phase,
                time(timer.due_at),
                run.map_or(0, |run| run.attempts),
                plain(run.and_then(|run| run.last_error.as_deref()).unwrap_or("-"))
            )?;
        }
        match timers.last() {
            Some(last) if timers.len() == PAGE => {
                after = format!("&after={}", segment(&last.name));
            }
            _ => return Ok(()),
        }
    }
}

fn failed(args: &ScheduleArgs, out: &mut impl Write) -> Result<()> {
    let Opened { node, path } = args.open()?;
    let mut after = 0;
    loop {
        let Runs { runs } = node.get(&format!("{path}/failed?limit={PAGE}&after={after}"))?;
        if after == 0 {
            writeln!(out, "TIMER\tDUE\tATTEMPTS\tERROR")?;
        }
        for run in &runs {
            writeln!(
                out,
                "{}\t{}\t{}\t{}",
                plain(&run.timer),
                time(Some(run.due_at)),
                run.attempts,
                plain(run.last_error.as_deref().unwrap_or("-"))
            )?;
        }
        match runs.last() {
            Some(last) if runs.len() == PAGE => after = last.id,
            _ => return Ok(()),
        }
    }
}

fn history(args: &HistoryArgs, out: &mut impl Write) -> Result<()> {
    let Opened { node, path } = args.schedule.open()?;
    let timer = args
        .timer
        .as_ref()
        .map_or_else(String::new, |timer| format!("&timer={}", segment(timer)));
    let Entries { entries } = node.get(&format!("{path}/history?limit={}{timer}", args.limit))?;
    for entry in &entries {
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}",
            time(Some(entry.at)),
            plain(&entry.timer),
            entry.event,
            time(entry.due_at),
            plain(entry.detail.as_deref().unwrap_or("-"))
        )?;
    }
    Ok(())
}

fn change(args: &TimerArgs, verb: &str, told: &str, out: &mut impl Write) -> Result<()> {
    let Opened { node, path } = args.schedule.open()?;
    let which = json!({ "timer": args.timer });
    let _: Option<Timer> = node.post(&format!("{path}/{verb}"), &which)?;
    writeln!(out, "timer {} {told}", plain(&args.timer))?;
    Ok(())
}
