//! The tests are tested: each deliberately broken variant of who goes first, who is given up, what is counted and what is remembered must be caught by a
//! test of the promise that it breaks. The simulation hunts for the others.

use abide_outbox::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::CopyDelivers => "timelines::a_fork_delivers_nothing_until_it_is_activated",
        Variant::SuspectsBuried => {
            "suspects::what_was_in_flight_at_a_crash_is_tried_alone_rather_than_buried"
        }
        Variant::SuspectsTogether => {
            "suspects::a_message_that_ends_the_process_is_buried_and_no_other"
        }
        Variant::CountedThoughUndone => "metrics::what_could_not_be_written_is_not_counted",
        Variant::ThrottledCounts => {
            "throttling::being_throttled_is_no_attempt_and_is_bounded_by_age"
        }
        Variant::RepetitionsLast => "fairness::a_retry_does_not_wait_for_the_backlog",
        Variant::PriorityStrict => "fairness::no_priority_starves",
        Variant::BucketBehind => "pace::a_rate_is_kept_when_the_process_is_killed",
        Variant::UndoneTrusted => {
            "crash::a_message_is_sent_after_a_kill_although_another_was_undone"
        }
        Variant::TurnsRepeated => {
            "fairness::less_urgent_messages_are_sent_although_each_attempt_kills"
        }
        Variant::EntryUnnoticed => "ready::a_message_is_sent_although_nothing_waited_before",
        Variant::ReadyTrusted => "ready::a_message_that_was_canceled_before_its_time_is_not_sent",
        Variant::ParkedLeft => "crash::any_number_of_destinations_continue_after_a_kill",
        Variant::PollsPastCircuit => {
            "operations::nothing_is_asked_of_a_destination_whose_circuit_is_open"
        }
        Variant::RememberedRepeated => {
            "retries::what_a_receiver_remembers_as_failed_is_sent_under_another_key"
        }
        Variant::SameEditRenews => {
            "dead_letters::an_edit_without_changes_keeps_a_key_that_may_have_been_used"
        }
        Variant::NeverGivenUp => {
            "giving_up::what_will_never_be_taken_is_failing_and_can_be_canceled"
        }
        Variant::SilentTakeAll => "silent::silent_destinations_do_not_delay_answering_ones",
        Variant::CallbackForgotten => {
            "callbacks::a_callback_that_fails_is_repeated_and_holds_nothing_up"
        }
        Variant::HistoryCut => "history::what_happened_before_the_first_failure_is_kept",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("outbox_turns"), caught_by);
}
