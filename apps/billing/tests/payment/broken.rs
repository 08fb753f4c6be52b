//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::KeyOfEachTry | Variant::LostMeansRefused => {
            "answers_that_are_lost_are_asked_for_again_and_the_payment_is_one"
        }
        Variant::RefusalBelieved => "a_customer_who_is_faster_than_the_taking_back_has_paid",
        Variant::NeverAsked | Variant::SubscriptionUntold => {
            "a_payment_of_which_no_webhook_tells_is_asked_about"
        }
        Variant::WrittenAgain => {
            "a_payment_that_is_done_again_from_its_first_step_comes_to_the_same"
        }
        Variant::EventHeardTwice | Variant::EventForgotten => {
            "a_webhook_is_heard_soon_and_its_copies_are_not"
        }
        Variant::WaitCutShort => "however_often_the_gateway_tells_of_it_a_customer_has_a_day",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("payment"), caught_by);
}
