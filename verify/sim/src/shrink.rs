//! Searches for the shortest schedule that still violates the same guarantee, by removing steps.

use crate::{plan::Plan, simulate};

/// Maximum number of runs of a search.
const MAX_RUNS: u32 = 2_000;

/// Removes steps in ever smaller pieces as long as the plan still violates the guarantee: the *ddmin* algorithm of
/// Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (IEEE TSE 2002).
pub fn shrink(plan: &Plan, breaks: impl Fn(&Plan) -> bool) -> Plan {
    let mut shortest = plan.clone();
    let mut pieces = 2;
    let mut runs = 0;
    while shortest.steps.len() > 1 && runs < MAX_RUNS {
        let len = shortest.steps.len();
        let size = len.div_ceil(pieces);
        let without = (0..len).step_by(size).find_map(|start| {
            runs += 1;
            let mut plan = shortest.clone();
            plan.steps.drain(start..(start + size).min(len));
            breaks(&plan).then_some(plan)
        });
        match without {
            Some(shorter) => {
                shortest = shorter;
                pieces = (pieces - 1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(len),
        }
    }
    shortest
}

/// The shortest plan found that violates the same guarantee as this one.
pub fn shortest(plan: &Plan, property: &str) -> Plan {
    shrink(plan, |plan| {
        simulate(plan)
            .violation
            .is_some_and(|violation| violation.property == property)
    })
}
