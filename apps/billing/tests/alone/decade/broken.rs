//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::RowForgotten => "years_of_billing_are_exact_to_the_cent_despite_faults",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let settings = [
        ("BILLING_SUBSCRIPTIONS", "3"),
        ("BILLING_YEARS", "1"),
        ("BILLING_CRASHES", "2"),
        ("BILLING_AILMENTS", "0"),
    ];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("decade"), caught_by);
}
