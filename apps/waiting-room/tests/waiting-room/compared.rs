//! The three ways to divide slots, compared by the simulation.

use std::sync::LazyLock;

use waiting_room::simulation::{DIVISIONS, LIMIT, Outcome, compare, table};

/// One run of each scenario.
static OUTCOMES: LazyLock<Vec<Outcome>> = LazyLock::new(|| compare(1, 1));

/// What one run leaves to chance, in visitors of 1,000.
const CHANCE: f64 = 2.0;

/// The outcomes of each scenario: even, curve, counters.
fn by_scenario(outcomes: &[Outcome]) -> impl Iterator<Item = &[Outcome; 3]> {
    outcomes
        .chunks_exact(DIVISIONS.len())
        .filter_map(|outcomes| outcomes.try_into().ok())
}

#[test]
fn no_division_exceeds_the_limit_by_more_than_5_percent() {
    for outcome in &*OUTCOMES {
        assert!(outcome.worst_overshoot * 20 <= LIMIT, "{outcome:?}");
    }
}

#[test]
fn counters_queue_no_visitor_while_slots_are_free() {
    for [_, _, counters] in by_scenario(&OUTCOMES) {
        // But those that become free elsewhere are known after a delay.
        assert!(
            counters.queued_too_early <= counters.visitors / 250.0,
            "{counters:?}"
        );
    }
}

#[test]
fn counters_are_no_worse_than_the_others_in_either_measure() {
    for [even, curve, counters] in by_scenario(&OUTCOMES) {
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
    }
}

#[test]
fn the_same_seed_gives_the_same_table() {
    assert_eq!(table(&compare(1, 1)), table(&OUTCOMES));
}
