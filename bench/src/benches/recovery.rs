//! (f) Seconds to reopen a store after a crash, for each GB of log after the last checkpoint.
//!
//! A child fills the log with small commits over many objects and kills itself; opening the store replays the log.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use abide_storage::StoreOptions;
use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::{
    context::Context,
    ours::commits::{self, Engine},
    process::{self, Owned},
    report::{Measurement, Unit},
};

#[derive(Args)]
pub(crate) struct Options {
    /// Megabytes of log to leave behind.
    #[arg(long, default_value_t = 1_000)]
    megabytes: u64,
    /// How many objects the log is about.
    #[arg(long, default_value_t = 1_000)]
    objects: usize,
}

const MEGABYTE: u64 = 1_000_000;
const GIGABYTE: f64 = 1e9;
/// Commits in flight while the log is filled.
const INFLIGHT: usize = 256;
/// How long the child writes before it looks at the log's length again.
const FILL_SLICE: Duration = Duration::from_millis(250);

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    if !context.wants_ours() {
        return Ok(());
    }
    let dir = context.fresh_dir("ours")?;
    let mut child = Owned::spawn(
        Command::new(std::env::current_exe()?)
            .args(["child", "recovery", "--data"])
            .arg(&dir)
            .args(["--objects", &options.objects.to_string()])
            .args(["--log-bytes", &(options.megabytes * MEGABYTE).to_string()]),
    )?;
    child.wait()?;
    let disk = context.probe()?;
    let begun = Instant::now();
    let engine = Engine::open(&dir, without_checkpoints())
        .context("the store does not open after the crash")?;
    let seconds = begun.elapsed().as_secs_f64();
    let replayed = engine.store().stats().log_tail_bytes;
    ensure!(
        replayed >= options.megabytes * MEGABYTE / 2,
        "only {replayed} bytes of log were left to replay: the child's error is above"
    );
    let note = format!(
        "{seconds:.3} s for {} MB of log over {} objects",
        replayed / MEGABYTE,
        options.objects
    );
    context.print(
        &Measurement::new("recovery", Unit::SecondsPerGigabyte, disk)
            .ours(seconds * GIGABYTE / replayed as f64)
            .note(note),
    );
    Ok(())
}

fn without_checkpoints() -> StoreOptions {
    commits::options().checkpoint_bytes(u64::MAX)
}

/// The child's part.
pub(crate) fn write_and_die(dir: &Path, objects: usize, log_bytes: u64) -> Result<()> {
    let engine = Engine::open(dir, without_checkpoints())?;
    let crew = engine.crew(process::cores(), objects)?;
    while engine.store().stats().log_bytes < log_bytes {
        crew.run(INFLIGHT, FILL_SLICE)?;
    }
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    Ok(())
}
