use abide_cluster_sim::{Plan, Report, simulate, simulate_with_stores};

/// `ABIDE_CLUSTER_SEEDS` says how many, from `ABIDE_CLUSTER_FIRST_SEED` on.
#[test]
fn clusters_keep_their_promises_on_every_seed() {
    let first = number("ABIDE_CLUSTER_FIRST_SEED", 0);
    for seed in first..first + number("ABIDE_CLUSTER_SEEDS", 200) {
        report(seed);
    }
}

/// `ABIDE_STORED_SEEDS` says how many, from `ABIDE_CLUSTER_FIRST_SEED` on.
#[test]
fn nodes_with_stores_keep_their_promises_on_every_seed() {
    let first = number("ABIDE_CLUSTER_FIRST_SEED", 0);
    let seeds = first..first + number("ABIDE_STORED_SEEDS", 20);
    let all: Vec<Report> = seeds
        .map(|seed| report_of(seed, simulate_with_stores))
        .collect();
    let sum = |of: fn(&Report) -> usize| all.iter().map(of).sum::<usize>();
    assert!(sum(|of| of.moves) > 0 && sum(|of| of.answers) > 1_000);
}

#[test]
fn a_seed_always_has_the_same_run() {
    for seed in 0..10 {
        assert_eq!(report(seed), report(seed), "seed {seed}");
        let stored = [(); 2].map(|()| report_of(seed, simulate_with_stores));
        assert_eq!(stored[0], stored[1], "seed {seed}");
    }
}

#[test]
fn seeds_reach_what_can_go_wrong() {
    let all: Vec<Report> = (0..100).map(report).collect();
    let sum = |of: fn(&Report) -> usize| all.iter().map(of).sum::<usize>();
    for (what, least, reached) in [
        ("answers", 50_000, sum(|of| of.answers)),
        ("sessions", 400, sum(|of| of.sessions)),
        ("fenced sessions", 80, sum(|of| of.fenced)),
        ("sessions that noticed a loss", 1, sum(|of| of.lost_commits)),
        ("sessions that left", 30, sum(|of| of.left)),
        ("unknown outcomes", 2_000, sum(|of| of.unknown)),
        ("late statements", 200, sum(|of| of.late)),
        ("lost commits", 50, sum(|of| of.lost)),
        ("moves", 50, sum(|of| of.moves)),
    ] {
        assert!(reached >= least, "{reached} {what}");
    }
}

fn report(seed: u64) -> Report {
    report_of(seed, simulate)
}

fn report_of(seed: u64, simulate: impl Fn(&Plan) -> Result<Report, String>) -> Report {
    let plan = Plan::new(seed);
    simulate(&plan).unwrap_or_else(|violation| panic!("seed {seed}: {violation}\n{plan:?}"))
}

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect(name))
}
