//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::ReportTwice => {
            "a_payment_result_is_heard_once_by_the_invoice_and_by_the_subscription"
        }
        Variant::NobodysReport | Variant::AmountUnchecked => {
            "results_of_unknown_payments_are_refused"
        }
        Variant::AttemptBesideAttempt => "overdue_invoices_are_paid_by_hand_one_attempt_at_a_time",
        Variant::PaidAttempted | Variant::DraftUnchecked => {
            "an_invoice_is_created_once_for_a_period_and_for_nothing_else"
        }
        Variant::NumberUnchecked => {
            "a_subscription_is_not_moved_to_where_its_machine_does_not_lead"
        }
        Variant::VoidBesideAttempt | Variant::VoidUntold => {
            "an_unpayable_invoice_is_not_owed_nor_voided_while_being_paid"
        }
        Variant::DeletedSold => "a_subscription_needs_an_existing_customer_and_price",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("resources"), caught_by);
}
