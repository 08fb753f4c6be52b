//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::RefusedMeansTaken | Variant::OneStopsAll | Variant::DedupForgotten => {
            "refusing::what_one_outbox_refuses_waits_with_its_resource_and_everybody_gets_all_of_it_once_and_in_order"
        }
        Variant::NoticesGoneFirst | Variant::NeverAgain => {
            "refusing::what_an_outbox_refuses_outlives_the_node"
        }
        Variant::NumbersRepeat => "restored::webhooks_of_a_restored_resource_have_ids_of_their_own",
        Variant::WantsIgnored | Variant::SignedByAnother => {
            "an_endpoint_is_told_what_it_wants_and_nothing_of_what_was_refused"
        }
        Variant::AnyUrlSigned => "a_notice_goes_nowhere_but_to_the_url_of_its_endpoint",
        Variant::GoneRetried => {
            "what_waits_for_a_deleted_endpoint_becomes_dead_letters_and_others_go_on"
        }
        Variant::OrderingForgotten | Variant::StateForgotten => {
            "crashes::every_outcome_is_told_at_least_once_and_in_order_whatever_happens_to_the_node"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(
        VARIABLE,
        &[("BILLING_SEEDS", "1")],
        Variant::of("webhooks"),
        caught_by,
    );
}
