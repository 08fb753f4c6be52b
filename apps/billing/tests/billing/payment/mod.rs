//! Payments as workflows, with a gateway that loses answers, customers who take their time, and webhooks that come often or
//! never.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod cards;
mod gateway;
mod races;
mod refunds;
mod world;

use std::time::Duration;

use abide::workflow::StepKind;
use abide_harness::run;
use billing::gateway::{GatewayEvent, Payment, PaymentStatus};

use crate::payment::{
    gateway::Luck,
    world::{INTENT, INVOICE, SUBSCRIPTION, World},
};

/// More webhooks than there are questions in a customer's day.
const MANY: u32 = 20;

fn event(number: u32, payment: &Payment) -> GatewayEvent {
    GatewayEvent {
        id: format!("evt_{number}"),
        payment: payment.clone(),
    }
}

#[test]
fn answers_that_are_lost_are_asked_for_again_and_the_payment_is_one() {
    run(async {
        let world = World::new(Luck::FirstAnswersLost).await;
        world.subscribe("card_slow").await;
        world.becomes(SUBSCRIPTION, "active").await;
        assert_eq!(world.state(INTENT).await, "succeeded");
        let payments = world.gateway.payments();
        assert_eq!(payments.len(), 1, "{payments:?}");
        assert_eq!(payments[0].status, PaymentStatus::Succeeded);
    });
}

#[test]
fn a_payment_that_is_done_again_from_its_first_step_comes_to_the_same() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe("card_ok").await;
        world.becomes(SUBSCRIPTION, "active").await;
        let all = [SUBSCRIPTION, INVOICE, INTENT];
        let mut before = Vec::new();
        for id in all {
            before.push(world.show(id).await);
        }
        world.ends().await;
        world
            .workflows()
            .restart_from(INTENT, "create")
            .await
            .unwrap();
        world.ends().await;
        for (id, before) in all.into_iter().zip(before) {
            assert_eq!(world.show(id).await, before);
        }
        assert_eq!(world.gateway.tally().succeeded, 1);
        assert_eq!(world.gateway.payments().len(), 1);
    });
}

#[test]
fn a_payment_of_which_no_webhook_tells_is_asked_about() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe("card_3ds").await;
        let payment = world.waits_for_its_customer().await;
        world.gateway.authenticate(&payment.id, true).unwrap();
        world.becomes(SUBSCRIPTION, "active").await;
        assert_eq!(world.state(INTENT).await, "succeeded");
    });
}

#[test]
fn a_webhook_is_heard_soon_and_its_copies_are_not() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe("card_3ds").await;
        let payment = world.waits_for_its_customer().await;
        for _ in 0..3 {
            world.hears(&event(1, &payment)).await;
        }
        world.has_asked().await;
        let paid = world.gateway.authenticate(&payment.id, true).unwrap();
        world.hears(&event(2, &paid)).await;
        world.becomes_soon(SUBSCRIPTION, "active").await;
        world.ends().await;
        let steps = world.workflows().history(INTENT, 0).await.unwrap();
        let heard = steps.iter().filter(|step| step.kind == StepKind::Event);
        assert_eq!(heard.count(), 2, "{steps:?}");
        // It has ended, and needs no more.
        world.hears(&event(3, &paid)).await;
    });
}

#[test]
fn repeated_gateway_events_do_not_extend_the_customer_s_time() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe("card_3ds").await;
        let payment = world.waits_for_its_customer().await;
        for number in 0..MANY {
            world.hears(&event(number, &payment)).await;
            world.passes(Duration::from_mins(30)).await;
        }
        let paid = world.gateway.authenticate(&payment.id, true).unwrap();
        world.hears(&event(MANY, &paid)).await;
        world.becomes_soon(INTENT, "succeeded").await;
        world.becomes_soon(SUBSCRIPTION, "active").await;
    });
}

#[test]
fn a_payment_whose_customer_does_not_come_is_taken_back_after_22_hours() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe("card_3ds").await;
        world.waits_for_its_customer().await;
        let begun = world.now();
        world.becomes(INTENT, "canceled").await;
        let took = world.now().saturating_sub(begun).as_secs() / 3_600;
        // Hours pass at a time, and some while a busy machine has not done yet what they made due.
        assert!((22..44).contains(&took), "{took} h");
        assert_eq!(world.gateway.tally().canceled, 1);
        assert_eq!(world.state(INVOICE).await, "open");
    });
}

#[test]
fn a_customer_who_is_faster_than_the_taking_back_has_paid() {
    run(async {
        let world = World::new(Luck::CustomerComesLast).await;
        world.subscribe("card_3ds").await;
        world.waits_for_its_customer().await;
        world.becomes(INVOICE, "paid").await;
        assert_eq!(world.state(INTENT).await, "succeeded");
        assert_eq!(world.gateway.tally().succeeded, 1);
    });
}

#[test]
fn a_payment_that_takes_weeks_is_waited_for() {
    run(async {
        let weeks = Duration::from_hours(3 * 7 * 24);
        let world = World::new(Luck::TakesItsTime(weeks)).await;
        world.subscribe("card_ok").await;
        world.becomes(INVOICE, "paid").await;
        assert!(world.now() >= weeks);
        assert_eq!(world.state(INTENT).await, "succeeded");
    });
}

#[test]
fn a_payment_of_unknown_status_is_polled_until_the_gateway_answers() {
    run(async {
        let world = World::new(Luck::Forgets(Duration::from_hours(6))).await;
        world.subscribe("card_slow").await;
        world.becomes(SUBSCRIPTION, "active").await;
        assert!(world.now() >= Duration::from_hours(6));
        assert_eq!(world.state(INTENT).await, "succeeded");
        assert_eq!(world.gateway.tally().succeeded, 1);
    });
}

#[test]
fn what_the_gateway_says_of_another_payment_does_not_count() {
    run(async {
        let world = World::new(Luck::MistakesIt(Duration::from_hours(6))).await;
        world.subscribe("card_3ds").await;
        let payment = world.waits_for_its_customer().await;
        world.hears(&event(1, &payment)).await;
        world.passes(Duration::from_hours(5)).await;
        assert_eq!(world.state(INTENT).await, "requires_action");
        world.gateway.authenticate(&payment.id, false).unwrap();
        world.becomes(INTENT, "canceled").await;
        assert_eq!(world.state(INVOICE).await, "open");
    });
}

#[test]
fn a_wrong_key_at_the_gateway_is_no_fault_of_a_card() {
    run(async {
        let world = World::new(Luck::DoesNotKnowUs(Duration::from_hours(6))).await;
        world.subscribe("card_ok").await;
        world.becomes(SUBSCRIPTION, "active").await;
        assert!(world.now() >= Duration::from_hours(6));
        assert_eq!(world.state(INTENT).await, "succeeded");
    });
}
