//! Many seeds: whatever happens to a node, it keeps its promises. `ABIDE_SIM_SEEDS` says how many, `ABIDE_SIM_FIRST_SEED`
//! the first. Half of them have a focus, each in turn.

use abide_harness::{on_all_cores, setting};
use abide_sim::{Focus, Plan, expect_panics, shrink::shortest, simulate};
use clap::ValueEnum as _;

#[test]
fn every_promise_is_kept_whatever_happens() {
    expect_panics();
    let first = setting("ABIDE_SIM_FIRST_SEED", 0);
    let seeds = first..first + setting("ABIDE_SIM_SEEDS", 200);
    on_all_cores(seeds, |seed| {
        let about = Focus::value_variants().get(seed as usize % 10);
        let plan = Plan::new(seed, about.copied());
        if let Some(violation) = simulate(&plan).violation {
            let short = shortest(&plan, violation.property);
            panic!("{}: {}\n{short}", violation.property, violation.text);
        }
    });
}
