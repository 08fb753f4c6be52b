//! A better card, and none.

use std::time::Duration;

use abide_harness::run;
use billing::{
    resources::{Invoice, Subscription},
    states,
};

use crate::payment::{
    gateway::Luck,
    world::{INTENT, INVOICE, SUBSCRIPTION, World},
};

const SECOND: &str = "pi_in_sub_1_0_2";

#[test]
fn who_gives_a_better_card_is_not_asked_to_prove_who_they_are() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe("card_3ds").await;
        let waiting = world.waits_for_its_customer().await;
        // With the card of before there is nothing to replace.
        world.pays_with("card_3ds").await;
        world.passes(Duration::from_mins(1)).await;
        assert_eq!(world.state(INTENT).await, "requires_action");
        world.pays_with("card_ok").await;
        // Once more it is the same payment, unless that was faster.
        let invoice = world.env().object::<Invoice>().get_by_name(INVOICE);
        let again = invoice.pay().await;
        assert!(again.is_ok() || world.state(INVOICE).await == "paid");
        world.becomes_soon(SUBSCRIPTION, "active").await;
        assert_eq!(world.state(INTENT).await, "canceled");
        assert_eq!(world.state(SECOND).await, "succeeded");
        assert_eq!(world.state(INVOICE).await, "paid");
        // The old one cannot pay any more.
        assert!(world.gateway.authenticate(&waiting.id, true).is_none());
        assert_eq!(world.gateway.tally().succeeded, 1);
    });
}

#[test]
fn authentication_during_a_card_replacement_charges_once() {
    run(async {
        let world = World::new(Luck::CustomerComesLast).await;
        world.subscribe("card_3ds").await;
        world.waits_for_its_customer().await;
        world.pays_with("card_ok").await;
        world.becomes_soon(SUBSCRIPTION, "active").await;
        assert_eq!(world.state(INTENT).await, "succeeded");
        world.passes(Duration::from_hours(48)).await;
        assert_eq!(world.gateway.payments().len(), 1);
    });
}

#[test]
fn a_card_that_is_replaced_counts_as_no_refusal() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe("card_3ds").await;
        world.waits_for_its_customer().await;
        world.pays_with("card_declined").await;
        world.becomes(SECOND, "canceled").await;
        let view = world.show(SUBSCRIPTION).await;
        let live: states::Subscription = serde_json::from_value(view.data).unwrap();
        assert_eq!(
            (live.owed[INVOICE].attempts, live.owed[INVOICE].before),
            (2, 1)
        );
        let object = world.env().object::<Subscription>();
        object.get_by_name(SUBSCRIPTION).check().await.unwrap();
    });
}

#[test]
fn a_trial_that_ends_without_a_way_to_pay_expires_at_once() {
    run(async {
        let world = World::new(Luck::None).await;
        world.subscribe_to(None, 7).await;
        assert_eq!(world.state(SUBSCRIPTION).await, "trialing");
        world.passes(Duration::from_hours(7 * 24)).await;
        world.becomes_soon(SUBSCRIPTION, "incomplete_expired").await;
        let invoice = world.env().object::<Invoice>().get_by_name(INVOICE);
        world.becomes_soon(INVOICE, "void").await;
        invoice.check().await.unwrap();
        assert_eq!(world.gateway.payments().len(), 0);

        // With one there are 23 hours.
        let world = World::new(Luck::None).await;
        world.subscribe_to(Some("card_declined"), 7).await;
        world.passes(Duration::from_hours(7 * 24 + 12)).await;
        assert_eq!(world.state(SUBSCRIPTION).await, "incomplete");
    });
}
