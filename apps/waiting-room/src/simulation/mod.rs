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
const DIVISIONS: [(&str, Division); 3] = [
    ("even", Division::Even),
    ("curve", Division::Curve { factor: 1.0 }),
    ("counters", Division::Counters),
];

/// Runs of each scenario, each with visitors of its own.
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
}

/// Everything, for visitors that a seed decides; so many runs of each scenario.
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
    }
}

/// The table, in Markdown.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "| scenario | division | visitors | overshoot | worst | queued too early |\n|---|---|---:|---:|---:|---:|\n",
    );
    for outcome in outcomes {
        let Outcome {
            scenario,
            division,
            visitors,
            overshoot,
            worst_overshoot,
            queued_too_early,
        } = outcome;
        let row = format!(
            "| {scenario} | {division} | {visitors:.0} | {overshoot:.1} | {worst_overshoot} | {queued_too_early:.1} |\n"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_no_worse_than_the_others_in_either_measure_and_the_weaknesses_of_those_show() {
        /// What few runs leave to chance, in visitors of 1,000.
        const CHANCE: f64 = 2.0;
        let outcomes = compare(1, 4);
        let overshoot = |division: &str| -> f64 {
            let own = outcomes
                .iter()
                .filter(|outcome| outcome.division == division);
            own.map(|outcome| outcome.overshoot).sum()
        };
        assert!(overshoot("counters") < overshoot("even"));
        assert!(overshoot("counters") < overshoot("curve"));
        for of_scenario in outcomes.chunks(DIVISIONS.len()) {
            let [even, curve, counters] = of_scenario else {
                panic!("three ways for each scenario");
            };
            for other in [even, curve] {
                assert!(
                    counters.overshoot <= other.overshoot + CHANCE,
                    "{counters:?} {other:?}"
                );
                assert!(
                    counters.queued_too_early <= other.queued_too_early,
                    "{counters:?} {other:?}"
                );
            }
            assert!(
                even.queued_too_early > curve.queued_too_early,
                "{even:?} {curve:?}"
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_table() {
        assert_eq!(table(&compare(7, 1)), table(&compare(7, 1)));
    }
}
