//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::SignatureUnchecked | Variant::OldEventHeard => {
            "a_webhook_that_is_not_the_gateways_is_not_heard"
        }
        Variant::TimerUnseen => {
            "troubles::a_subscriptions_timers_are_shown_and_so_is_one_that_has_failed"
        }
        Variant::KeyIgnored => "a_subscription_is_created_once_paid_and_seen_on_the_pages",
        Variant::RebuildLeavesOut => {
            "chains_are_replayed_and_checked_and_the_read_model_is_made_anew"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("api"), caught_by);
}
