//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use abide_components::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::LimiterUnsaved | Variant::WindowLeavesEarly => {
            "limiter::a_window_admits_exactly_its_limit"
        }
        Variant::TokenRepeated => "lock::one_holder_has_the_lock_and_tokens_grow_whatever_happens",
        Variant::DormantGrants => "lock::a_fork_of_a_lock_grants_nothing",
        Variant::LeaseLeftOpen => "lock::the_longest_waiter_is_next_and_leases_expire",
        Variant::FenceOpen => "lock::a_fence_refuses_older_holders_also_after_a_kill",
        Variant::SessionLeftOpen | Variant::SessionLeftStored => {
            "sessions::a_session_lives_exactly_as_long_as_it_was_promised"
        }
        Variant::ReportRepeated => "sharding::a_report_that_comes_late_or_twice_counts_once",
        Variant::ReportForgotten => {
            "sharding::totals_are_exact_once_nothing_changes_whatever_happened"
        }
        Variant::TieIgnored => {
            "leaderboard::places_are_those_of_a_list_that_is_sorted_anew_each_time"
        }
        Variant::SilentStay | Variant::BrokenIsClosed => {
            "presence::only_visitors_that_send_heartbeats_are_present"
        }
        Variant::UnsureRepeated => "retry::what_may_have_run_is_made_again_only_with_a_key",
        Variant::KeyDropped => {
            "retry::a_call_with_a_key_is_applied_once_whatever_happens_to_its_attempts"
        }
        Variant::CleanupBlind => "cleanup::an_object_that_has_something_to_do_is_kept",
        Variant::UseIgnored => "cleanup::an_object_is_deleted_only_after_it_was_unused_long_enough",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("patterns"), caught_by);
}
