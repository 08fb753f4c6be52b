//! The tests are tested: each deliberately broken variant must be caught by a test of the promise that it breaks.

use billing::broken::{VARIABLE, Variant};

/// The test that is to catch a variant.
fn caught_by(variant: Variant) -> &'static str {
    match variant {
        Variant::KeyOfEachTry | Variant::LostMeansRefused => {
            "answers_that_are_lost_are_asked_for_again_and_the_payment_is_one"
        }
        Variant::RefusalBelieved => "a_customer_who_is_faster_than_the_taking_back_has_paid",
        Variant::QuestionRefused => {
            "a_payment_of_unknown_status_is_polled_until_the_gateway_answers"
        }
        Variant::AnswerUnchecked => "what_the_gateway_says_of_another_payment_does_not_count",
        Variant::StrangerDeclined => "a_wrong_key_at_the_gateway_is_no_fault_of_a_card",
        Variant::NeverAsked | Variant::SubscriptionUntold => {
            "a_payment_of_which_no_webhook_tells_is_asked_about"
        }
        Variant::WrittenAgain => {
            "a_payment_that_is_done_again_from_its_first_step_comes_to_the_same"
        }
        Variant::EventHeardTwice | Variant::EventForgotten => {
            "a_webhook_is_heard_soon_and_its_copies_are_not"
        }
        Variant::RefundKeyOfEachTry => {
            "refunds::a_refund_with_lost_answers_is_polled_and_made_once"
        }
        Variant::RefundBelieved => {
            "refunds::a_refund_that_fails_at_the_gateway_is_told_and_can_be_made_otherwise"
        }
        Variant::LateMoneyKept => {
            "refunds::money_that_comes_when_the_subscription_has_expired_goes_back"
        }
        Variant::RefundUnbounded => {
            "refunds::a_payment_is_refunded_in_parts_and_whole_and_never_beyond"
        }
        Variant::RefundTwice => "refunds::a_refund_that_is_reserved_again_is_one",
        Variant::CreditUnbounded | Variant::CreditTwice => {
            "refunds::a_credit_note_lessens_what_is_owed_and_only_the_rest_is_charged"
        }
        Variant::NoteBehindPayment => {
            "refunds::a_payment_that_beats_a_credit_note_refunds_the_credited_amount"
        }
        Variant::CardKept | Variant::BothCards => {
            "cards::who_gives_a_better_card_is_not_asked_to_prove_who_they_are"
        }
        Variant::TrialWaits => "cards::a_trial_that_ends_without_a_way_to_pay_expires_at_once",
        Variant::GivenBackTwice => "refunds::what_was_refunded_of_a_period_is_not_given_back_again",
        Variant::WaitCutShort => "repeated_gateway_events_do_not_extend_the_customer_s_time",
        _ => panic!("{variant:?} is of another part"),
    }
}

#[test]
fn every_broken_variant_is_caught() {
    abide_harness::hunt(VARIABLE, &[], Variant::of("payment"), caught_by);
}
