//! The three ways to divide slots, compared by the simulation.

use waiting_room::simulation::{DIVISIONS, LIMIT, Outcome, compare, table};

/// What few runs leave to chance, in visitors of 1,000.
const CHANCE: f64 = 2.0;

/// The outcomes of each scenario: even, curve, counters.
fn by_scenario(outcomes: &[Outcome]) -> impl Iterator<Item = &[Outcome; 3]> {
    outcomes
        .chunks_exact(DIVISIONS.len())
        .filter_map(|outcomes| outcomes.try_into().ok())
}

#[test]
fn no_division_exceeds_the_limit_by_more_than_5_percent() {
    for outcome in compare(1, 3) {
        assert!(outcome.worst_overshoot * 20 <= LIMIT, "{outcome:?}");
    }
}

#[test]
fn counters_queue_no_visitor_while_slots_are_free() {
    for [_, _, counters] in by_scenario(&compare(2, 3)) {
        // Slots that became free elsewhere are known after a delay.
        assert!(
            counters.queued_too_early <= counters.visitors / 500.0,
            "{counters:?}"
        );
    }
}

#[test]
fn counters_are_no_worse_than_the_others_in_either_measure() {
    for [even, curve, counters] in by_scenario(&compare(3, 3)) {
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
    assert_eq!(table(&compare(7, 1)), table(&compare(7, 1)));
}
