//! (h) Alarms: how fast they are set, how late they go off while very many others wait, how long a start takes with all
//! of them pending, and how fast they go off when all are overdue.
//!
//! Each alarm belongs to its own object, which has its own file: a million take 12 GB of disk.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::{
    context::Context,
    ours::alarms::{Dormitory, now},
    process::{self, Owned},
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// How many alarms are set.
    #[arg(long, default_value_t = 1_000_000)]
    alarms: usize,
    /// How many of them go off when all are overdue.
    #[arg(long, default_value_t = 100_000)]
    fired: usize,
    /// How many further alarms go off each second while lateness is measured.
    #[arg(long, default_value_t = 1_000)]
    rate: usize,
}

/// When the alarms are due: long after the bench.
const FAR: Duration = Duration::from_hours(24);
/// How far the clock is set forward so that all are overdue.
const AHEAD: Duration = Duration::from_hours(48);
/// The period of the alarms whose lateness is measured, in milliseconds.
const PERIOD: i64 = 1_000;
const POLL: Duration = Duration::from_millis(1);
const MEBIBYTE: f64 = 1_048_576.0;

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    let dir = context.fresh_dir("ours")?;
    let alarms = options.alarms;
    let print = |name: &str, unit, value: f64, note: String| -> Result<()> {
        let name = format!("alarms/{name}/pending={alarms}");
        context.print(
            &Measurement::new(name, unit, context.probe()?)
                .ours(value)
                .note(note),
        );
        Ok(())
    };

    let mut child = Owned::ourselves("alarms", &dir, alarms)?;
    let line = child.lines()?.next();
    let seconds: f64 = line
        .context("the child process has ended; its error is above")??
        .parse()
        .context("the child process did not print a number")?;
    child.wait()?;
    print(
        "set",
        Unit::AlarmsPerSecond,
        alarms as f64 / seconds,
        format!("each by the first call of its object; {seconds:.1} s"),
    )?;

    let before = resident()?;
    let begun = Instant::now();
    let dormitory = Dormitory::open(&dir, Duration::ZERO)?;
    let opened = begun.elapsed().as_secs_f64();
    ensure!(
        dormitory.pending() == alarms as u64,
        "{} alarms are pending after a restart, not {alarms}",
        dormitory.pending()
    );
    dormitory.each(alarms..alarms + 1, |sleeper, _| sleeper.set(now()))?;
    wait_for(&dormitory, 1);
    let ready = begun.elapsed().as_secs_f64();
    let each = resident()?.saturating_sub(before) as f64 / alarms as f64;
    print(
        "start",
        Unit::Seconds,
        ready,
        format!(
            "until an alarm that was set then has gone off; the node took calls after {opened:.2} s; {:.0} MiB, {each:.0} bytes for each pending alarm",
            each * alarms as f64 / MEBIBYTE
        ),
    )?;

    lateness(context, &dormitory, options, &print)?;
    dormitory.close()?;

    let wanted = options.fired.min(alarms) as u64;
    let dormitory = Dormitory::open(&dir, AHEAD)?;
    let begun = Instant::now();
    wait_for(&dormitory, wanted);
    let seconds = begun.elapsed().as_secs_f64();
    print(
        "overdue",
        Unit::AlarmsPerSecond,
        dormitory.record.fired() as f64 / seconds,
        "fired: an object woken from its file, its attempt durable, its handler run, its end durable"
            .to_owned(),
    )?;
    dormitory.close()
}

/// Alarms that set themselves again each second, spread over it.
fn lateness(
    context: &Context,
    dormitory: &Dormitory,
    options: &Options,
    print: &impl Fn(&str, Unit, f64, String) -> Result<()>,
) -> Result<()> {
    let base = options.alarms + 1;
    let start = now() + PERIOD;
    let repeating = base..base + options.rate;
    dormitory.each(repeating.clone(), |sleeper, number| {
        let offset =
            (number - base).cast_signed() as i64 * PERIOD / options.rate.cast_signed() as i64;
        sleeper.repeat(start + offset, PERIOD)
    })?;
    std::thread::sleep(context.warm_up() + Duration::from_secs(2));
    dormitory.record.take_lateness();
    std::thread::sleep(context.slice() * u32::try_from(context.rounds())?);
    let lateness = dormitory.record.take_lateness();
    dormitory.each(repeating, |sleeper, _| sleeper.rest())?;
    let note = format!("{} alarms, {} a second", lateness.len(), options.rate);
    let [p50, p99] = lateness.percentiles_us([50.0, 99.0]);
    print("lateness-p50", Unit::Microseconds, p50, note.clone())?;
    print("lateness-p99", Unit::Microseconds, p99, note)
}

fn wait_for(dormitory: &Dormitory, fired: u64) {
    while dormitory.record.fired() < fired {
        std::thread::sleep(POLL);
    }
}

fn resident() -> Result<u64> {
    process::resident_bytes(std::process::id())
}

/// The child's part: sets the alarms, prints the seconds that took, and ends cleanly.
pub(crate) fn set_and_tell(dir: &Path, alarms: usize) -> Result<()> {
    let dormitory = Dormitory::open(dir, Duration::ZERO)?;
    let due = now() + i64::try_from(FAR.as_millis())?;
    let begun = Instant::now();
    dormitory.each(0..alarms, |sleeper, number| {
        sleeper.set(due + number.cast_signed() as i64)
    })?;
    println!("{}", begun.elapsed().as_secs_f64());
    dormitory.close()
}
