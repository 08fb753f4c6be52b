//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use abide_components::broken::{VARIABLE, Variant};
use abide_harness::PATIENCE_VARIABLE;

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::ExceptIgnored | Variant::TagIgnored => {
            "room::a_message_reaches_those_with_the_tag_but_not_those_who_are_excepted"
        }
        Variant::StateUnkept => "room::a_connection_keeps_its_state_while_the_object_leaves_memory",
        Variant::RoomOverfull => "refusals::a_full_room_refuses_connections_until_one_leaves",
        Variant::OldestFound => {
            "room::a_client_that_comes_back_is_found_beside_its_older_connection"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    // With some variants a client waits for what never comes.
    let settings = [(PATIENCE_VARIABLE, "20")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("party"), caught_by);
}
