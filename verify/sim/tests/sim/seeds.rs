//! Many seeds: whatever happens to a node, it keeps its promises. `ABIDE_SIM_SEEDS` says how many, `ABIDE_SIM_FIRST_SEED`
//! the first. Half of them have a focus, each in turn.

use abide_harness::{on_all_cores, setting};
use abide_sim::{Plan, expect_panics, shrink::shortest, simulate};

#[test]
fn every_promise_is_kept_whatever_happens() {
    expect_panics();
    let first = setting("ABIDE_SIM_FIRST_SEED", 0);
    let seeds = first..first + setting("ABIDE_SIM_SEEDS", 200);
    on_all_cores(seeds, |seed| {
        let plan = Plan::varied(seed);
        if let Some(violation) = simulate(&plan).violation {
            let short = shortest(&plan, violation.property);
            panic!("{}: {}\n{short}", violation.property, violation.text);
        }
    });
}
