//! Tests the tests: each deliberately broken variant must be caught by a test of the guarantee that it violates.

use abide_components::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::CopyGoesOff => "timelines::timers_of_a_fork_do_not_go_off",
        Variant::TimerEarly => "times::timers_go_off_at_their_times_the_earliest_first",
        Variant::EndForgotten | Variant::FailureKept | Variant::FailedForgotten => {
            "simulation::each_occurrence_takes_effect_once_or_fails_under_any_fault"
        }
        Variant::CutOffForgotten | Variant::FiringUncounted => {
            "background::a_firing_interrupted_by_a_kill_is_repeated_as_another_attempt"
        }
        Variant::RetriedForEver => {
            "retries::a_timer_without_attempts_left_stays_failed_until_an_operator_acts"
        }
        Variant::UnplannedEnds => {
            "retries::a_timer_with_an_unknown_next_time_fails_until_it_is_known"
        }
        Variant::ListIsRhythm => "times::each_time_of_a_list_goes_off_once_a_day_over_both_jumps",
        Variant::RetriedAtOnce => {
            "retries::a_failed_attempt_is_repeated_by_the_policy_and_leaves_nothing"
        }
        Variant::MisfireIgnored => "missed::a_timer_that_goes_off_once_is_late_or_has_ended",
        Variant::OverlapAllowed | Variant::QueuedDropped => {
            "background::an_occurrence_during_the_last_one_is_skipped_waits_or_overlaps"
        }
        Variant::SetAnew => {
            "setting::setting_a_timer_as_it_is_changes_nothing_also_when_it_has_ended"
        }
        Variant::StaleRetried => {
            "background::a_timer_that_was_canceled_or_set_anew_while_it_ran_is_not_repeated"
        }
        Variant::CatchUpFirst => "missed::a_timer_that_is_due_is_not_behind_the_catch_up_of_others",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let settings = [("ABIDE_SCHEDULE_SEEDS", "2")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("schedule"), caught_by);
}
