//! Many seeds: whatever happens to a node, it keeps its promises. `ABIDE_SIM_SEEDS` says how many, `ABIDE_SIM_FIRST_SEED`
//! the first. Half of them have a focus, each in turn.

use abide_sim::{Focus, Plan, expect_panics, shrink::shortest, simulate};
use clap::ValueEnum as _;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn every_promise_is_kept_whatever_happens() {
    expect_panics();
    let first = setting("ABIDE_SIM_FIRST_SEED", 0);
    for seed in first..first + setting("ABIDE_SIM_SEEDS", 200) {
        let about = Focus::value_variants().get(seed as usize % 10);
        let plan = Plan::new(seed, about.copied());
        if let Some(violation) = simulate(&plan).violation {
            let short = shortest(&plan, violation.property);
            panic!("{}: {}\n{short}", violation.property, violation.text);
        }
    }
}
