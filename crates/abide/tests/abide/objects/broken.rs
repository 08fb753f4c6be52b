//! Tests the tests: with a deliberately broken variant of the product each must fail. The nodes have threads, so each
//! variant runs in its own process.

use abide::broken::{runtime, storage};
use abide_harness::hunt;

#[test]
fn every_broken_variant_of_budget_and_gate_is_caught() {
    hunt(
        storage::VARIABLE,
        &[],
        storage::Variant::of("memory"),
        |_| "memory::events_count_their_bytes_and_calls_between_objects_still_run",
    );
    hunt(
        runtime::VARIABLE,
        &[],
        &[runtime::Variant::UnconfirmedForgotten],
        |_| "output_gate::a_second_node_on_one_store_does_not_show_what_is_not_durable_yet",
    );
}
