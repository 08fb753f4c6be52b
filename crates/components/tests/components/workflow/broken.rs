//! Tests the tests: each deliberately broken variant must be caught by a test of the guarantee that it violates.

use abide_components::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::ChildUnasked => {
            "timelines::a_restored_parent_learns_the_result_of_a_child_that_ended"
        }
        Variant::ResultUnstored | Variant::KeyOfAttempt => {
            "crash::a_workflow_comes_to_its_end_through_failures_kills_and_power_cuts"
        }
        Variant::ToldOnce => {
            "crash::a_workflow_that_is_meddled_with_comes_to_an_end_that_fits_its_history"
        }
        Variant::AttemptNotDurable => {
            "steps::a_function_is_not_called_before_its_attempt_is_on_disk"
        }
        Variant::AttemptUncounted => "steps::an_attempt_counts_although_the_process_dies_in_it",
        Variant::StepForEver => {
            "steps::a_step_fails_with_its_last_attempt_or_at_once_if_it_cannot_succeed"
        }
        Variant::StepAtOnce => {
            "steps::a_failed_step_is_tried_again_with_the_same_key_and_pauses_that_grow"
        }
        Variant::EventsDropped | Variant::EventsReversed => {
            "events::events_that_wait_are_taken_one_by_one"
        }
        Variant::EventHeardTwice => "events::an_event_with_a_key_counts_once",
        Variant::SleepEarly => "steps::a_sleep_does_not_end_early_when_it_is_inspected",
        Variant::CancelIgnored => "control::a_sleeper_is_canceled_at_once",
        Variant::PauseUnheeded => "control::nothing_begins_in_an_instance_that_is_paused",
        Variant::MovedUnnoticed => "changes::steps_that_have_changed_places_are_found",
        Variant::MissingUnnoticed => "changes::a_step_that_is_not_asked_for_any_more_is_found",
        Variant::InsertedUnnoticed => {
            "changes::a_step_that_is_new_in_the_past_is_found_and_nothing_is_done"
        }
        Variant::LaterKept => "control::a_restart_keeps_unrelated_results_and_returns_events",
        Variant::ChildrenForgotten => "children::a_child_that_is_no_longer_awaited_is_canceled",
        Variant::OrderedWhenStored => "concurrent::two_chains_of_steps_side_by_side_complete",
        Variant::CanceledTogether => "control::branches_that_are_canceled_do_the_same_in_each_life",
        Variant::NamesCollide => {
            "steps::a_name_with_a_number_is_not_the_second_use_of_the_name_without"
        }
        Variant::EventsRenamed => {
            "control::a_restart_finds_every_event_again_that_was_taken_after_the_step"
        }
        Variant::ChildAdopted => "children::an_instance_started_by_another_caller_is_not_a_child",
        Variant::FirstEventLost => {
            "events::an_event_starts_the_instance_that_it_is_for_or_is_kept_for_it"
        }
        Variant::VersionForgotten => {
            "versions::an_instance_that_reaches_the_change_keeps_the_new_function"
        }
        Variant::HistoryKept => {
            "continued::an_instance_continues_with_an_empty_history_and_the_events_that_wait"
        }
        Variant::WaitsFollowClock => {
            "clock::a_clock_set_back_lengthens_no_wait_and_advances_no_named_time"
        }
        Variant::StaleListed => "steps::a_directory_believes_what_is_newest_whatever_it_hears_last",
        Variant::StepThrottledCounts => "steps::throttled_attempts_do_not_count",
        Variant::StepsBlamedTogether => {
            "crash::a_step_in_flight_with_one_that_ends_the_process_has_not_failed"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let settings = [("ABIDE_WORKFLOW_SEEDS", "3"), ("ABIDE_TEST_ROUNDS", "2000")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("workflow"), caught_by);
}
