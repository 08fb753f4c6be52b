//! Tests the tests: each deliberately broken variant must be caught by a test of the guarantee that it violates.

use abide_components::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::SchemaIgnored
        | Variant::RuleIgnored
        | Variant::WrittenInParts
        | Variant::HookForgotten
        | Variant::HookFirst
        | Variant::MemoryTrusted
        | Variant::ClockTrusted
        | Variant::SnapshotAhead
        | Variant::ChainCompacted => {
            "model::a_chain_is_what_was_acknowledged_whatever_happens_to_the_node"
        }
        Variant::SnapshotUnchecked => "snapshot::a_damaged_snapshot_is_not_used",
        Variant::UpcastSkipped => "versions::old_outcomes_are_brought_forward_version_by_version",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let settings = [("ABIDE_OUTCOMES_SEEDS", "4")];
    abide_harness::hunt(VARIABLE, &settings, Variant::of("outcomes"), caught_by);
}
