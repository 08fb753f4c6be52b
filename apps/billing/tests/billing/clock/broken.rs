//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::LatePeriodsSkipped => {
            "a_node_that_was_down_for_a_year_bills_every_period_in_its_order"
        }
        Variant::NeverEntered | Variant::FreeUnsettled => "what_costs_nothing_needs_no_payment",
        Variant::TrialKept => "a_trial_costs_nothing_until_it_ends",
        Variant::UnservedBilled => {
            "who_pays_after_service_has_ended_is_billed_for_the_rest_of_the_period"
        }
        Variant::RetryDaysFromLast | Variant::GraceForgotten | Variant::GraceUnserved => {
            "a_failed_payment_is_retried_on_days_1_3_5_7_then_service_ends"
        }
        Variant::RestUnbilled => "service_resumed_in_a_skipped_period_is_billed_for_the_rest",
        Variant::DebtForgotten => "who_owes_after_a_pause_is_dunned",
        Variant::ExpiredCharged => "what_has_expired_before_its_payment_could_begin_costs_nothing",
        Variant::ExpiryForgotten => "a_first_invoice_that_is_not_paid_expires_after_23_hours",
        Variant::TimersKept => "a_retry_that_succeeds_ends_the_dunning",
        Variant::OrderNotRepeated => "a_payment_that_cannot_begin_begins_as_soon_as_it_can",
        Variant::SetBackTaken => "crashes::no_period_is_skipped_after_a_kill_and_a_clock_set_back",
        Variant::Overtaken => "money::requests_do_not_overtake_work_missed_during_downtime",
        Variant::ReadStale => {
            "reads::a_subscription_that_ended_during_downtime_is_not_entitled_after_it"
        }
        Variant::ChangeLeftOut => {
            "money::the_cost_of_a_change_is_billed_when_the_subscription_ends"
        }
        Variant::PauseBilled => "money::a_pause_inside_a_period_is_not_billed",
        Variant::ChangeUnbounded => "money::a_change_that_could_not_be_billed_is_refused",
        Variant::GivenUpCharged => {
            "money::an_invoice_that_was_written_off_is_not_charged_again_and_can_be_paid"
        }
        Variant::VoidMints => "money::an_invoice_that_is_voided_after_a_downgrade_leaves_no_credit",
        Variant::OldDebtDue => "money::who_comes_back_with_an_old_debt_has_the_days_of_dunning",
        Variant::DunningBurst => "money::retries_that_were_missed_are_a_day_apart",
        Variant::GraceUntold => "money::what_is_said_of_service_does_not_go_beyond_the_grace",
        Variant::CustomerDeleted => "money::a_customer_with_active_subscriptions_is_not_deleted",
        Variant::CentCharged => "terms::an_invoice_below_the_minimum_charge_is_on_the_next_one",
        Variant::LengthChargedTwice => {
            "plans::who_goes_from_months_to_a_year_pays_each_day_once_and_back_again"
        }
        Variant::NoticeLate => "terms::trial_ends_and_invoices_are_announced_in_advance",
        Variant::QuantityForgotten => "money::a_change_without_a_quantity_keeps_it",
        Variant::GraceBilled => "money::what_is_left_of_a_period_when_the_grace_ends_is_given_back",
        Variant::UnservedOwed => "money::who_was_never_served_owes_nothing",
        Variant::VoidKeepsCredit => "money::credit_that_a_voided_invoice_has_used_comes_back",
        Variant::GivenBackKept => {
            "money::a_period_credit_is_reversed_when_its_invoice_is_voided_later"
        }
        Variant::ReportOvertakes => {
            "money::a_payment_does_not_overtake_what_a_node_that_was_away_makes_good"
        }
        Variant::OrderPutOff => {
            "money::what_is_ordered_after_the_clock_was_set_back_is_not_put_off"
        }
        Variant::BegunUnheard => {
            "money::an_expiring_subscription_waits_for_an_unreported_first_payment"
        }
        Variant::NoteClawedBack => "money::a_credit_note_is_kept_when_service_continues",
        Variant::NoteOfOthersWithheld => {
            "money::a_credit_note_for_what_waited_for_its_invoice_lessens_no_later_credit"
        }
        Variant::OrderGivenUp => "a_payment_that_cannot_begin_is_listed_until_it_does",
        Variant::RetriedAfterGrace => {
            "money::downtime_causes_no_retry_that_was_due_after_the_grace_period"
        }
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("clock"), caught_by);
}
