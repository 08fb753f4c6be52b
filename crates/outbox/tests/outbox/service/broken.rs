//! Tests the tests: each deliberately broken variant must be caught by a test of the guarantee that it violates.

use abide_outbox::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::ClosedKindTaken | Variant::ClosedKindEdited => {
            "refusals::a_client_writes_no_message_of_a_kind_that_is_not_open"
        }
        Variant::ClosedKindCalled => "refusals::a_call_by_json_enqueues_nothing",
        Variant::SecretHeaderShown => "messages::credentials_in_headers_are_never_shown",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("service"), caught_by);
}
