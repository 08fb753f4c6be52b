//! Tests the tests: each deliberately broken variant must be caught by a test of the guarantee that it violates.

use abide_components::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::RowsGoneFirst | Variant::AbsentMeansWritten | Variant::ChangeForgotten => {
            "troubles::committed_rows_reach_the_read_model_across_power_losses"
        }
        Variant::OlderWritten | Variant::TimelineIgnored => {
            "sqlite::it_does_what_every_read_model_does"
        }
        Variant::OldestOfBatch => "troubles::of_several_changes_of_a_row_the_newest_is_written",
        Variant::PutRefused | Variant::RefusedMeansTaken => {
            "troubles::a_full_queue_blocks_no_object_and_feeds_keep_the_newest_rows"
        }
        Variant::RefusedUnseen => "troubles::a_row_refused_by_the_read_model_is_a_dead_letter",
        Variant::WaitCounts => {
            "troubles::rows_wait_for_an_unready_read_model_through_any_number_of_tries"
        }
        Variant::RestoreUnsent => "timelines::a_restored_object_replaces_its_rows",
        Variant::RebuildHasty => {
            "rebuild::a_read_model_is_rebuilt_from_all_objects_and_says_how_far_it_is"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let settings = [
        ("ABIDE_PROJECTION_SEEDS", "3"),
        ("ABIDE_TEST_ROUNDS", "1500"),
    ];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("projection"), caught_by);
}
