//! Tests the tests: each deliberately broken variant must be caught by a test of the guarantee that it violates.

use abide_component::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::DormantWorks => "a_fork_works_only_when_it_is_activated",
        Variant::GuardUnset | Variant::CutOffUnnoticed => {
            "work_continues_after_a_kill_although_nothing_calls"
        }
        Variant::KickUnheard | Variant::TwoTasks => {
            "work_begins_while_other_work_is_in_flight_in_one_task"
        }
        Variant::DroppedRuns => "a_dropped_task_is_followed_by_another",
        Variant::BegunBeforeDurable => "no_attempt_begins_before_its_claim_is_on_disk",
        Variant::ResultsDropped => "a_result_that_cannot_be_written_is_written_later",
        Variant::RestUnarmed => "due_work_is_done_once_and_the_task_ends",
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let settings = [("ABIDE_TEST_ROUNDS", "2000")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("worker"), caught_by);
}
