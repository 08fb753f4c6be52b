//! The tests are tested: each deliberately broken variant of who goes first must be caught by a test of the promise that it
//! breaks. The simulation hunts for the others.

use abide_patterns::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::ThrottledCounts => {
            "throttling::being_throttled_is_no_attempt_and_is_bounded_by_age"
        }
        Variant::RepetitionsLast => "fairness::a_retry_does_not_wait_for_the_backlog",
        Variant::PriorityStrict => "fairness::no_priority_starves",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("outbox_turns"), caught_by);
}
