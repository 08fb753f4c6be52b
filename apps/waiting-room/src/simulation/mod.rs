//! The three ways to divide slots, compared: several data centres with delayed links, workers that come and go, spikes from one place
//! and from many, into a room that is nearly empty and one that is nearly full.
//!
//! The simulation decides with [`logic`](crate::logic), as the program does; only time, links and visitors are made up. Two things are
//! measured. *Overshoot*: how many visitors were inside beyond the limit, at most. *Queued too early*: visitors who were queued although
//! the room had a free slot at that moment.

mod plot;
mod random;
mod scenario;
mod world;

use std::path::Path;

use anyhow::Context;

use crate::logic::division::Division;
use scenario::Scenario;

/// The ways that are compared.
pub const DIVISIONS: [(&str, Division); 3] = [
    ("even", Division::Even),
    ("curve", Division::Curve { factor: 1.0 }),
    ("counters", Division::Counters),
];

/// The limit of the room in each scenario.
pub const LIMIT: u64 = 1_000;

/// Runs of each scenario, each with other visitors.
const RUNS: u64 = 10;

/// What one way did in one scenario, on average over the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The scenario.
    pub scenario: &'static str,
    /// The way.
    pub division: &'static str,
    /// Visitors.
    pub visitors: f64,
    /// Inside beyond the limit at most.
    pub overshoot: f64,
    /// The worst of the runs.
    pub worst_overshoot: u64,
    /// Queued although there was a slot.
    pub queued_too_early: f64,
    /// Of those who were told how long they would wait, the part that waited more than twice as long, in percent.
    pub told_too_little: f64,
}

/// All scenarios and ways, this many times each, with visitors that a seed decides.
pub fn compare(seed: u64, runs: u64) -> Vec<Outcome> {
    let scenarios = scenario::all();
    let pairs = scenarios
        .iter()
        .flat_map(|scenario| DIVISIONS.map(|division| (scenario, division)));
    pairs
        .map(|(scenario, (name, division))| average(scenario, name, division, seed, runs))
        .collect()
}

fn average(
    scenario: &Scenario,
    name: &'static str,
    division: Division,
    seed: u64,
    runs: u64,
) -> Outcome {
    let runs: Vec<_> = (0..runs)
        .map(|run| world::run(scenario, division, seed + run))
        .collect();
    let mean = |of: &dyn Fn(&world::Measured) -> u64| {
        runs.iter().map(of).sum::<u64>() as f64 / runs.len().max(1) as f64
    };
    Outcome {
        scenario: scenario.name,
        division: name,
        visitors: mean(&|run| run.visitors),
        overshoot: mean(&|run| run.overshoot),
        worst_overshoot: runs.iter().map(|run| run.overshoot).max().unwrap_or(0),
        queued_too_early: mean(&|run| run.queued_too_early),
        told_too_little: 100.0 * mean(&|run| run.told_too_little) / mean(&|run| run.told).max(1.0),
    }
}

/// The table, in Markdown.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "| scenario | division | visitors | overshoot | worst | queued too early | waited twice as long as told |\n|---|---|---:|---:|---:|---:|---:|\n",
    );
    for outcome in outcomes {
        let Outcome {
            scenario,
            division,
            visitors,
            overshoot,
            worst_overshoot,
            queued_too_early,
            told_too_little,
        } = outcome;
        let row = format!(
            "| {scenario} | {division} | {visitors:.0} | {overshoot:.1} | {worst_overshoot} | {queued_too_early:.1} | {told_too_little:.0} % |\n"
        );
        text.push_str(&row);
    }
    text
}

/// Compares, prints the table and writes it beside the plot.
pub fn run(out: &Path, seed: u64) -> anyhow::Result<()> {
    let outcomes = compare(seed, RUNS);
    let table = table(&outcomes);
    print!("{table}");
    let write = |name: &str, text: &str| {
        let path = out.join(name);
        std::fs::write(&path, text).with_context(|| {
            format!(
                "{} cannot be written; name a directory with --out",
                path.display()
            )
        })?;
        println!("{}", path.display());
        anyhow::Ok(())
    };
    write("simulation.md", &table)?;
    write("simulation.svg", &plot::draw(&outcomes)?)
}
