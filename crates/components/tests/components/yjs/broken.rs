//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use abide_components::broken::{VARIABLE, Variant};
use abide_harness::PATIENCE_VARIABLE;

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::ChangeUnstored => {
            "sync::what_was_heard_survives_a_kill_and_what_was_done_offline_is_merged"
        }
        Variant::WorkUnbounded => {
            "work::a_quadratic_update_is_refused_and_the_document_still_works"
        }
        Variant::ReaderWrites => "sync::a_reader_hears_changes_and_makes_none",
        Variant::RefusedKept | Variant::DocumentUnbounded => {
            "compaction::a_document_that_would_be_too_long_is_compacted_first_and_then_refused"
        }
        Variant::UpdatesUnmerged | Variant::UpdatesKept => {
            "compaction::updates_become_a_snapshot_past_their_number"
        }
        Variant::RepeatStored => "sync::an_update_that_comes_twice_is_stored_once",
        Variant::RestUnasked => "sync::an_early_update_is_requested_again_with_its_dependencies",
        Variant::GoneStay => "awareness::who_comes_sees_who_is_there_and_who_goes_is_gone",
        Variant::DepartedForgotten | Variant::StrangerBelieved => {
            "awareness::states_repeated_by_others_change_nothing_and_revive_no_client"
        }
        Variant::StatesUnattached => "awareness::states_outlive_the_object_in_memory",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    // With some variants a client waits for what never comes.
    let settings = [(PATIENCE_VARIABLE, "20")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("yjs"), caught_by);
}
