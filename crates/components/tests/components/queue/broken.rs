//! Tests the tests: each deliberately broken variant must be caught by a test of the guarantee that it violates.

use abide_components::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::IdsRepeated => "timelines::a_restored_shard_delivers_again_under_ids_never_reused",
        Variant::ClaimForEver
        | Variant::FailureAcknowledged
        | Variant::RetryAcknowledged
        | Variant::DedupIgnored => "crash::no_message_is_lost_or_taken_twice_whatever_happens",
        Variant::DeliveryUncounted => {
            "crash::a_message_whose_consumer_ends_the_process_each_time_is_given_up"
        }
        Variant::MarksForgotten => {
            "consuming::a_batch_that_fails_is_tried_again_but_for_what_was_acknowledged"
        }
        Variant::BuriedWithoutTrace | Variant::DeliveredForEver => {
            "dead_letters::a_message_is_given_up_after_its_last_attempt_with_the_reason"
        }
        Variant::DelayIgnored => "consuming::a_delayed_message_arrives_on_time_without_any_call",
        Variant::BoundIgnored => "sending::a_full_shard_refuses_and_takes_again_when_there_is_room",
        Variant::ConcurrencyIgnored => {
            "consuming::several_batches_are_on_their_way_at_once_and_no_more_than_may"
        }
        Variant::OrderReversed => {
            "consuming::what_arrives_while_batches_are_on_their_way_goes_together"
        }
        Variant::ForwardForgotten => "dead_letters::dead_letters_go_to_another_queue_once",
        Variant::PauseIgnored => {
            "consuming::a_paused_queue_consumes_nothing_until_resumed_even_after_a_kill"
        }
        Variant::ThrottledCounts => "throttling::a_throttling_server_uses_up_no_attempts",
        Variant::SuspectsTogether => {
            "suspects::a_message_in_flight_with_one_that_ends_the_process_is_not_given_up"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let settings = [("ABIDE_QUEUE_SEEDS", "4"), ("ABIDE_TEST_ROUNDS", "2000")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("queue"), caught_by);
}
