//! (v) What copies of the history cost: commits, requests and money; and how long it takes to have a lost store back.

mod commits;
mod hour;
mod restored;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::context::Context;

#[derive(Args)]
pub(crate) struct Options {
    /// What is measured; several with commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["commits", "restore", "hour"])]
    parts: Vec<Part>,
    /// How many objects commit.
    #[arg(long, default_value_t = 1_000)]
    objects: usize,
    /// How many commits may be in flight.
    #[arg(long, default_value_t = 16)]
    inflight: usize,
    /// Seconds of each slice of commits; the shared `--seconds` is too short for several checkpoints.
    #[arg(long, default_value_t = 5.0)]
    slice: f64,
    /// Seconds between two checkpoints, and between two copies, while commits are measured.
    #[arg(long, default_value_t = 1.0)]
    interval: f64,
    /// How many small objects are restored.
    #[arg(long, default_value_t = 100_000)]
    small: usize,
    /// Mebibytes of the large object that is restored.
    #[arg(long, default_value_t = 256)]
    large: u64,
    /// Commits per second of the hours; several with commas.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 100])]
    rates: Vec<u32>,
    /// How many hours, of a minute each.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Commits beside copies.
    Commits,
    /// Downloading a copy, building the directory, and the first answer.
    Restore,
    /// Requests and bytes of an hour, and their price.
    Hour,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<()> {
    let wants = |part| options.parts.contains(&part);
    if wants(Part::Commits) {
        commits::run(context, options)?;
    }
    if wants(Part::Restore) && context.wants_ours() {
        restored::run(context, options)?;
    }
    if wants(Part::Hour) && context.wants_ours() {
        hour::run(context, options)?;
    }
    Ok(())
}
