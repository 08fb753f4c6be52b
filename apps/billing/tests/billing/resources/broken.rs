//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::ReportTwice => {
            "a_payment_result_is_heard_once_by_the_invoice_and_by_the_subscription"
        }
        Variant::NobodysReport | Variant::AmountUnchecked => {
            "results_of_payments_that_nobody_began_are_refused"
        }
        Variant::AttemptBesideAttempt => {
            "what_is_past_due_or_given_up_is_paid_by_hand_and_one_attempt_at_a_time"
        }
        Variant::PaidAttempted | Variant::DraftUnchecked => {
            "an_invoice_is_created_once_for_a_period_and_for_nothing_else"
        }
        Variant::NumberUnchecked => {
            "a_subscription_is_not_moved_to_where_its_machine_does_not_lead"
        }
        Variant::VoidBesideAttempt | Variant::VoidUntold => {
            "an_invoice_that_nobody_is_to_pay_is_not_owed_and_is_not_voided_while_it_is_paid"
        }
        Variant::DeletedSold => {
            "a_subscription_needs_a_customer_and_a_price_of_a_product_that_are_there"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("resources"), caught_by);
}
