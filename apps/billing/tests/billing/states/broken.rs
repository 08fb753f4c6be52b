//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::PartRoundedAlone | Variant::CreditLost | Variant::ChangeUnbilled => {
            "bills_equal_the_accruals_and_the_chain_replays_to_the_live_state"
        }
        Variant::HalvesGained => "half_a_minor_unit_goes_to_the_even_neighbour",
        Variant::PeriodsDrift => "months_from_the_31st_do_not_drift",
        Variant::EndUnheeded => {
            "a_subscription_that_ends_with_its_period_is_not_billed_for_the_next"
        }
        Variant::LateMoneyIgnored => {
            "a_failed_payment_is_tried_again_on_days_1_3_5_and_7_and_no_longer"
        }
        Variant::RulesReplayed => "chains::every_recorded_chain_still_replays",
        Variant::SettledEarly => "of_two_invoices_that_are_owed_the_last_one_paid_ends_dunning",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    // What fails here is no finding to be kept.
    let settings = [("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("states"), caught_by);
}
