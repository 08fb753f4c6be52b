//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::RefusedMeansTaken | Variant::OneStopsAll | Variant::DedupForgotten => {
            "refusing::a_refused_delivery_stays_with_its_resource_and_is_delivered_once"
        }
        Variant::NoticesGoneFirst | Variant::NeverAgain => {
            "refusing::what_an_outbox_refuses_outlives_the_node"
        }
        Variant::NumbersRepeat => "restored::webhooks_of_a_restored_resource_have_new_ids",
        Variant::WantsIgnored | Variant::SignedByAnother => {
            "an_endpoint_is_told_what_it_wants_and_nothing_of_what_was_refused"
        }
        Variant::AnyUrlSigned => "a_notice_goes_nowhere_but_to_the_url_of_its_endpoint",
        Variant::GoneRetried => "deliveries_to_a_deleted_endpoint_become_dead_letters",
        Variant::OrderingForgotten | Variant::StateForgotten => {
            "crashes::every_outcome_is_delivered_in_order_despite_faults"
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
