//! Money that goes back.

use std::time::Duration;

use abide::workflow::{StepKind, StepState, Workflows};
use abide_harness::run;
use billing::{
    BillingError, Money,
    gateway::{RefundEvent, RefundStatus},
    payment::{self, Refunding},
    resource::View,
    resources::{Invoice, NewCreditNote, NewPaymentRefund, PaymentIntent, Refund, Subscription},
    states::{self, CreditEffect, CreditNote, Credited, RefundTo},
};
use serde_json::json;

use crate::payment::{
    gateway::Luck,
    world::{INTENT, INVOICE, SUBSCRIPTION, World},
};

fn euro(amount: i64) -> Money {
    Money::new(amount, "EUR".parse().unwrap()).unwrap()
}

fn wanted(id: &str, amount: Option<i64>) -> NewPaymentRefund {
    NewPaymentRefund {
        refund: id.into(),
        amount: amount.map(euro),
        to: RefundTo::Card,
        reason: None,
        credit_note: None,
    }
}

fn note(id: &str, amount: Option<i64>, to: RefundTo) -> NewCreditNote {
    NewCreditNote {
        id: id.into(),
        amount: amount.map(euro),
        to,
        reason: Some("a mistake".into()),
    }
}

/// A world in which the first invoice, over 1,000, is paid with a card.
async fn paid(luck: Luck, card: &str) -> World {
    let world = World::new(luck).await;
    world.subscribe(card).await;
    world.becomes(SUBSCRIPTION, "active").await;
    world
}

/// A world in which the card of the first invoice was refused.
async fn owing() -> World {
    let world = World::new(Luck::None).await;
    world.subscribe("card_declined").await;
    world.becomes(INTENT, "canceled").await;
    world.ends().await;
    world
}

async fn refund(world: &World, id: &str, amount: Option<i64>) -> Result<(), BillingError> {
    let intent = world.env().object::<PaymentIntent>().get_by_name(INTENT);
    let refund = intent.refund(wanted(id, amount)).await;
    refund.map(drop)
}

async fn credit(world: &World, note: NewCreditNote) -> Result<View, BillingError> {
    let invoice = world.env().object::<Invoice>().get_by_name(INVOICE);
    invoice.credit(note).await
}

/// What went back at the gateway, the smallest refund first: refunds that were requested together are made in any order.
fn back(world: &World) -> Vec<i64> {
    let refunds = world.gateway.refunds().into_iter();
    let refunds = refunds.filter(|refund| refund.status == RefundStatus::Succeeded);
    let mut amounts: Vec<i64> = refunds.map(|refund| refund.amount.amount()).collect();
    amounts.sort_unstable();
    amounts
}

async fn subscription(world: &World) -> states::Subscription {
    serde_json::from_value(world.show(SUBSCRIPTION).await.data).unwrap()
}

#[test]
fn a_payment_is_refunded_in_parts_and_whole_and_never_beyond() {
    run(async {
        let world = paid(Luck::None, "card_ok").await;
        for _ in 0..3 {
            refund(&world, "re_some", Some(300)).await.unwrap();
        }
        let refused = refund(&world, "re_much", Some(701)).await.unwrap_err();
        assert!(refused.to_string().contains("7.00 EUR"), "{refused}");
        let other = refund(&world, "re_some", Some(200)).await.unwrap_err();
        assert!(other.to_string().contains("different content"), "{other}");
        refund(&world, "re_rest", None).await.unwrap();
        for id in ["re_some", "re_rest"] {
            world.becomes(id, "succeeded").await;
        }
        assert!(refund(&world, "re_more", Some(1)).await.is_err());
        assert_eq!(back(&world), [300, 700]);
        world.passes(Duration::from_hours(48)).await;
        assert_eq!(back(&world), [300, 700]);
        let intent: states::PaymentIntent =
            serde_json::from_value(world.show(INTENT).await.data).unwrap();
        assert_eq!(intent.refundable().unwrap(), euro(0));
        assert!(intent.refunds.values().all(|refund| refund.succeeded));
        // It was paid, and stays so; who was charged by mistake gets a credit note.
        assert_eq!(world.state(INVOICE).await, "paid");
    });
}

#[test]
fn a_refund_that_is_reserved_again_is_one() {
    run(async {
        let world = paid(Luck::None, "card_ok").await;
        refund(&world, "re_some", Some(300)).await.unwrap();
        world.becomes("re_some", "succeeded").await;
        let intent = world.env().object::<PaymentIntent>().get_by_name(INTENT);
        let view = intent.get_state().await.unwrap();
        let live: states::PaymentIntent = serde_json::from_value(view.data.clone()).unwrap();
        let order = live.refunds["re_some"].order.clone();
        assert_eq!(intent.reserve(order).await.unwrap(), view);
    });
}

#[test]
fn a_refund_with_lost_answers_is_polled_and_made_once() {
    run(async {
        let world = paid(Luck::FirstAnswersLost, "card_slow").await;
        refund(&world, "re_some", Some(400)).await.unwrap();
        world.becomes("re_some", "succeeded").await;
        let refunds = world.gateway.refunds();
        assert_eq!(refunds.len(), 1, "{refunds:?}");
        assert_eq!(back(&world), [400]);
    });
}

#[test]
fn a_refund_that_fails_at_the_gateway_is_told_and_can_be_made_otherwise() {
    run(async {
        let world = paid(Luck::None, "card_unrefundable").await;
        refund(&world, "re_card", None).await.unwrap();
        world.becomes("re_card", "failed").await;
        let failure = world.show("re_card").await.data["failure"].clone();
        assert_eq!(failure, "closed_card");
        assert_eq!(back(&world), [0; 0]);
        // A credit note that could not be carried out is none.
        let issued = credit(&world, note("cn_1", None, RefundTo::Card)).await;
        issued.unwrap();
        world.becomes("re_cn_1", "failed").await;
        world.becomes(INVOICE, "paid").await;
        world.passes(Duration::from_hours(1)).await;
        let notes = world.show(INVOICE).await.data["credit_notes"].clone();
        assert_eq!(notes, json!(null));
        // To the next invoice it goes.
        let issued = credit(&world, note("cn_2", None, RefundTo::Balance)).await;
        issued.unwrap();
        world.becomes("re_cn_2", "succeeded").await;
        assert_eq!(subscription(&world).await.pending[0].amount, euro(-1_000));
    });
}

#[test]
fn money_that_comes_when_the_subscription_has_expired_goes_back() {
    run(async {
        let days = Duration::from_hours(5 * 24);
        let world = World::new(Luck::TakesItsTime(days)).await;
        world.subscribe("card_ok").await;
        world.becomes(SUBSCRIPTION, "incomplete_expired").await;
        world.becomes(INTENT, "succeeded").await;
        let refund = format!("re_{INTENT}_late");
        world.becomes(&refund, "succeeded").await;
        assert_eq!(back(&world), [1_000]);
        assert_eq!(world.state(SUBSCRIPTION).await, "incomplete_expired");
    });
}

#[test]
fn late_money_for_an_ended_subscription_is_returned_less_usage() {
    run(async {
        let days = Duration::from_hours(5 * 24);
        let world = World::new(Luck::TakesItsTime(days)).await;
        world.subscribe("card_ok").await;
        world.becomes(INTENT, "processing").await;
        let ended = world.env().object::<Subscription>();
        let ended = ended.get_by_name(SUBSCRIPTION).cancel(false).await;
        assert_eq!(ended.unwrap().state, "canceled");
        world
            .becomes(&format!("re_{INTENT}_late"), "succeeded")
            .await;
        assert_eq!(back(&world), [1_000]);

        let world = paid(Luck::None, "card_ok").await;
        let ended = world.env().object::<Subscription>();
        ended.get_by_name(SUBSCRIPTION).cancel(false).await.unwrap();
        world.passes(Duration::from_hours(48)).await;
        assert_eq!(back(&world), [0; 0]);
    });
}

#[test]
fn a_credit_note_lessens_what_is_owed_and_only_the_rest_is_charged() {
    run(async {
        let world = owing().await;
        let refused = credit(&world, note("cn_much", Some(1_001), RefundTo::Card)).await;
        assert!(refused.is_err());
        for _ in 0..2 {
            let noted = credit(&world, note("cn_1", Some(400), RefundTo::Card)).await;
            assert_eq!(noted.unwrap().state, "open");
        }
        // It is told again, as after a crash.
        let told = Credited {
            id: "cn_1".into(),
            invoice: INVOICE.into(),
            amount: euro(400),
            reason: None,
        };
        let object = world.env().object::<Subscription>();
        let object = object.get_by_name(SUBSCRIPTION);
        object.reduce(told).await.unwrap();
        assert_eq!(subscription(&world).await.owed[INVOICE].amount, euro(600));
        let refused = credit(&world, note("cn_more", Some(601), RefundTo::Card)).await;
        assert!(refused.is_err());
        world.pays_with("card_ok").await;
        world.becomes(SUBSCRIPTION, "active").await;
        let payments = world.gateway.payments();
        assert_eq!(payments.last().unwrap().amount, euro(600));
        // Of what was paid no more goes back than that.
        let refused = credit(&world, note("cn_late", Some(601), RefundTo::Card)).await;
        assert!(refused.is_err());
        let noted = credit(&world, note("cn_rest", None, RefundTo::Card)).await;
        noted.unwrap();
        world.becomes("re_cn_rest", "succeeded").await;
        assert_eq!(back(&world), [600]);
        assert!(
            credit(&world, note("cn_3", Some(1), RefundTo::Card))
                .await
                .is_err()
        );
        let object = world.env().object::<Invoice>().get_by_name(INVOICE);
        object.check().await.unwrap();
    });
}

#[test]
fn a_payment_that_beats_a_credit_note_refunds_the_credited_amount() {
    run(async {
        let mut world = paid(Luck::None, "card_ok").await;
        // The subscription has taken it before it heard of the payment, and tells the invoice afterwards.
        for (id, amount) in [("cn_1", 400), ("cn_2", 100)] {
            let told = CreditNote {
                id: id.into(),
                amount: euro(amount),
                effect: CreditEffect::Reduced,
                refund: None,
                reason: None,
            };
            for _ in 0..2 {
                let invoice = world.env().object::<Invoice>().get_by_name(INVOICE);
                let noted = invoice.take_note(told.clone()).await.unwrap();
                assert_eq!(noted.state, "paid");
                world = world.killed();
            }
            let refund = format!("re_{INTENT}_late_{id}");
            world.becomes(&refund, "succeeded").await;
        }
        assert_eq!(back(&world), [100, 400]);
        let invoice: states::Invoice =
            serde_json::from_value(world.show(INVOICE).await.data).unwrap();
        assert_eq!(invoice.due, Some(euro(500)));
        // It is no price of the period that has gone back.
        assert_eq!(subscription(&world).await.given_back, None);
        // The rest can go back by another one.
        let noted = credit(&world, note("cn_rest", None, RefundTo::Card)).await;
        noted.unwrap();
        world.becomes("re_cn_rest", "succeeded").await;
        assert_eq!(back(&world), [100, 400, 500]);
    });
}

#[test]
fn a_credit_note_over_all_that_is_owed_settles_the_invoice() {
    run(async {
        let world = owing().await;
        let noted = credit(&world, note("cn_1", None, RefundTo::Card)).await;
        assert_eq!(noted.unwrap().state, "paid");
        assert_eq!(world.state(SUBSCRIPTION).await, "active");
        assert!(subscription(&world).await.owed.is_empty());
        // There was no payment: a pause gives nothing back.
        let object = world.env().object::<Subscription>();
        object.get_by_name(SUBSCRIPTION).pause().await.unwrap();
        assert_eq!(subscription(&world).await.pending, []);
    });
}

#[test]
fn what_was_refunded_of_a_period_is_not_given_back_again() {
    run(async {
        let world = paid(Luck::None, "card_ok").await;
        refund(&world, "re_some", Some(900)).await.unwrap();
        world.becomes("re_some", "succeeded").await;
        world.passes(Duration::from_hours(1)).await;
        let object = world.env().object::<Subscription>();
        let object = object.get_by_name(SUBSCRIPTION);
        object.pause().await.unwrap();
        let pending = subscription(&world).await.pending;
        let credit: i64 = pending.iter().map(|line| line.amount.amount()).sum();
        assert!((-100..=-98).contains(&credit), "{credit}");
    });
}

#[test]
fn two_payments_of_one_invoice_are_one_and_the_other_goes_back() {
    run(async {
        let world = owing().await;
        world.pays_with("card_ok").await;
        world.becomes(SUBSCRIPTION, "active").await;
        // The first one was refused, said the gateway, and has paid all the same.
        let invoice = world.env().object::<Invoice>().get_by_name(INVOICE);
        let late = states::PaymentResult {
            invoice: INVOICE.into(),
            intent: INTENT.into(),
            attempt: 1,
            amount: euro(1_000),
            verdict: states::Verdict::Paid,
            reason: None,
        };
        for _ in 0..2 {
            let told = invoice.report_payment_result(late.clone()).await;
            let told = told.unwrap();
            let live: states::Invoice = serde_json::from_value(told.data).unwrap();
            assert_eq!(live.gives_back(&late), Some(euro(1_000)));
        }
        assert_eq!(world.state(INVOICE).await, "paid");
        invoice.check().await.unwrap();
    });
}

#[test]
fn a_webhook_of_a_refund_is_heard_soon_and_its_copies_are_not() {
    run(async {
        let world = paid(Luck::None, "card_slow").await;
        refund(&world, "re_some", Some(400)).await.unwrap();
        world.becomes_soon("re_some", "pending").await;
        // However much is written at the same time, its outcome is written once.
        for number in 0..120 {
            let annotation = [("number".to_owned(), Some(number.to_string()))];
            let object = world.env().object::<Refund>().get_by_name("re_some");
            let annotation = states::Annotation(annotation.into());
            object.annotate(annotation).await.unwrap();
        }
        let known = async || world.gateway.refunds().pop();
        let pending = world.soon("the gateway has the refund", known).await;
        for number in [1, 1, 1, 2] {
            let event = RefundEvent {
                id: format!("evt_{number}"),
                refund: pending.clone(),
            };
            payment::handle_refund_event(world.env(), &event)
                .await
                .unwrap();
        }
        world.becomes("re_some", "succeeded").await;
        world.passes(Duration::from_hours(1)).await;
        let refunds = Workflows::<Refunding>::new(world.env());
        let steps = refunds.history("re_some", 0).await.unwrap();
        let heard = steps.iter().filter(|step| step.kind == StepKind::Event);
        let heard = heard.filter(|step| step.state == StepState::Done);
        assert_eq!(heard.count(), 2, "{steps:?}");
        assert_eq!(back(&world), [400]);
        refunds.restart_from("re_some", "reserve").await.unwrap();
        world.passes(Duration::from_hours(1)).await;
        let record = refunds.status("re_some").await.unwrap();
        assert_eq!(record.error, None);
        assert_eq!(back(&world), [400]);
        // It has ended, and needs no more.
        let late = RefundEvent {
            id: "evt_3".into(),
            refund: pending,
        };
        payment::handle_refund_event(world.env(), &late)
            .await
            .unwrap();
    });
}

/// The second attempt at an invoice is on its way when the gateway says of the first one that it has paid, or has not.
async fn told_otherwise(world: &World, invoice: &str, attempt: u32, verdict: states::Verdict) {
    let result = states::PaymentResult {
        invoice: invoice.into(),
        intent: states::Invoice::intent(invoice, attempt),
        attempt,
        amount: euro(1_000),
        verdict,
        reason: None,
    };
    let object = world.env().object::<Invoice>().get_by_name(invoice);
    let told = object.report_payment_result(result.clone()).await;
    told.unwrap();
    let object = world.env().object::<Subscription>();
    let told = object
        .get_by_name(SUBSCRIPTION)
        .report_payment_result(result);
    told.await.unwrap();
}

/// Lets the node die again and again until a refund has succeeded, and some times after it.
async fn dies_until_refunded(mut world: World, refund: &str, seed: u64) -> World {
    for round in 0..80 {
        world = if round % 2 == 0 {
            world.killed()
        } else {
            world.without_power(seed + round)
        };
        let hours = [0, 1, 3, 9][usize::try_from((round + seed) % 4).unwrap()];
        world.passes(Duration::from_hours(hours)).await;
    }
    world.becomes(refund, "succeeded").await;
    world.killed()
}

#[test]
fn a_second_payment_of_an_invoice_is_refunded_once_across_kills() {
    run(async {
        for seed in 0..2 {
            let days = Duration::from_hours(5 * 24);
            let world = World::new(Luck::IsSlowBetween(Duration::from_hours(1), days)).await;
            world.subscribe("card_declined").await;
            world.becomes(INTENT, "canceled").await;
            world.ends().await;
            world.passes(Duration::from_hours(2)).await;
            world.pays_with("card_ok").await;
            let second = states::Invoice::intent(INVOICE, 2);
            world.becomes(&second, "processing").await;
            told_otherwise(&world, INVOICE, 1, states::Verdict::Paid).await;
            assert_eq!(world.state(SUBSCRIPTION).await, "active");
            let world = dies_until_refunded(world, &format!("re_{second}_late"), seed).await;
            world.passes(Duration::from_hours(48)).await;
            assert_eq!(back(&world), [1_000]);
            assert_eq!(world.state(&second).await, "succeeded");
            let invoice: states::Invoice =
                serde_json::from_value(world.show(INVOICE).await.data).unwrap();
            assert_eq!(invoice.paid_by.as_deref(), Some(INTENT));
            assert!(invoice.late.contains(&second));
            // It was no price of a period.
            assert_eq!(subscription(&world).await.given_back, None);
        }
    });
}

#[test]
fn money_for_a_voided_invoice_is_refunded_once_across_kills() {
    run(async {
        for seed in 0..2 {
            let year = Duration::from_hours(365 * 24);
            let slow = year + Duration::from_hours(5)..year + Duration::from_hours(10 * 24);
            let world = World::new(Luck::IsSlowBetween(slow.start, slow.end)).await;
            world.subscribe("card_ok").await;
            world.becomes(SUBSCRIPTION, "active").await;
            world.has_card("card_declined").await;
            world.passes_by_days(year).await;
            let invoice = states::Draft::id_of(SUBSCRIPTION, 1);
            world.becomes(SUBSCRIPTION, "past_due").await;
            while world.now() < slow.start {
                world.passes(Duration::from_hours(1)).await;
            }
            world.has_card("card_ok").await;
            let object = world.env().object::<Invoice>().get_by_name(&invoice);
            object.pay().await.unwrap();
            let intent = states::Invoice::intent(&invoice, 2);
            world.becomes(&intent, "processing").await;
            // An invoice is not voided while it is being paid; but the gateway says that it is not being paid.
            assert!(object.void().await.is_err());
            told_otherwise(&world, &invoice, 2, states::Verdict::Failed).await;
            object.void().await.unwrap();
            let world = dies_until_refunded(world, &format!("re_{intent}_late"), seed).await;
            world.passes(Duration::from_hours(48)).await;
            assert_eq!(back(&world), [1_000]);
            assert_eq!(world.state(&invoice).await, "void");
            assert_eq!(world.state(SUBSCRIPTION).await, "active");
        }
    });
}

#[test]
fn money_for_unserved_periods_is_refunded_once_across_kills() {
    run(async {
        for seed in 0..2 {
            let world = World::new(Luck::TakesItsTime(Duration::from_hours(5 * 24))).await;
            world.subscribe("card_ok").await;
            world.becomes(INTENT, "processing").await;
            let ended = world.env().object::<Subscription>();
            let ended = ended.get_by_name(SUBSCRIPTION).cancel(false).await;
            assert_eq!(ended.unwrap().state, "canceled");
            let world = dies_until_refunded(world, &format!("re_{INTENT}_late"), seed).await;
            world.passes(Duration::from_hours(48)).await;
            assert_eq!(back(&world), [1_000]);
        }
    });
}
