//! Webhooks of a resource that was restored or copied.

use std::time::Duration;

use abide::{Stub, prelude::*};
use abide_harness::run;
use billing::resources::{Customer, Invoice, NewSubscription, Price, Product, Subscription};
use serde_json::json;

use crate::webhooks::{create_product, world::World};

async fn update(world: &World, id: &str, name: &str) {
    let product = world.env().object::<Product>().get_by_name(id);
    let name = json!({ "name": name });
    let updated = product.transition("update".into(), "updated".into(), name);
    updated.await.unwrap();
}

/// What the receiver was told: the id of each notice, and the product's name.
fn told(world: &World) -> Vec<(String, String)> {
    let taken = world.receiver.taken("/all").into_iter();
    taken
        .map(|notice| {
            let name = notice.resource.data["name"].as_str().unwrap().to_owned();
            (notice.id, name)
        })
        .collect()
}

/// A subscription that costs 10 a day.
async fn subscribe(world: &World) -> Stub<Subscription> {
    create_product(world, "prod_tea").await;
    let price = json!({
        "product": "prod_tea",
        "unit_amount": { "amount": 1_000, "currency": "EUR" },
        "every": { "count": 1, "unit": "day" },
    });
    let prices = world.env().object::<Price>();
    let created =
        prices
            .get_by_name("price_day")
            .transition("create".into(), "created".into(), price);
    created.await.unwrap();
    let ada = json!({ "name": "Ada", "email": "ada@example.com", "payment_method": "card_ok" });
    let customers = world.env().object::<Customer>();
    let created =
        customers
            .get_by_name("cus_ada")
            .transition("create".into(), "created".into(), ada);
    created.await.unwrap();
    let subscriptions = world.env().object::<Subscription>();
    let original = subscriptions.get_by_name("sub_ada");
    let new = NewSubscription {
        customer: "cus_ada".into(),
        price: "price_day".into(),
        quantity: 1,
        trial_days: 0,
    };
    original.create(new).await.unwrap();
    original
}

/// The first period is paid, and the subscription knows it.
async fn is_active(world: &World, subscription: &Stub<Subscription>) {
    world
        .until(async || subscription.get_state().await.unwrap().state == "active")
        .await;
    assert_eq!(world.gateway.payments().len(), 1);
}

fn told_of(world: &World, path: &str) -> usize {
    world.receiver.taken(path).len()
}

#[test]
fn webhooks_of_a_restored_resource_have_new_ids() {
    run(async {
        let world = World::new(1, 0);
        world.listens("/all", &[]).await;
        create_product(&world, "prod_tea").await;
        world.until(async || told(&world).len() == 1).await;
        let product = world.env().object::<Product>().get_by_name("prod_tea");
        let node = world.node();
        let then = node.bookmark(product.untyped(), None).await.unwrap();
        // Two: the restore itself takes the number of the first.
        update(&world, "prod_tea", "Undone").await;
        update(&world, "prod_tea", "Undone too").await;
        world.until(async || told(&world).len() == 3).await;
        node.restore(product.untyped(), then).await.unwrap();
        update(&world, "prod_tea", "Green tea").await;
        update(&world, "prod_tea", "Black tea").await;
        world.until(async || told(&world).len() == 6).await;
        let names: Vec<_> = told(&world).into_iter().map(|(_, name)| name).collect();
        assert_eq!(
            names,
            [
                "Tea",
                "Undone",
                "Undone too",
                "Tea",
                "Green tea",
                "Black tea"
            ]
        );
        let mut ids: Vec<_> = told(&world).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids[1], "prod_tea.2.updated");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6, "{ids:?}");
    });
}

#[test]
fn a_copied_resource_tells_nothing_until_it_is_activated() {
    run(async {
        let world = World::new(1, 0);
        world.listens("/all", &[]).await;
        create_product(&world, "prod_tea").await;
        world.until(async || told(&world).len() == 1).await;
        let product = world.env().object::<Product>().get_by_name("prod_tea");
        let node = world.node();
        let now = node.bookmark(product.untyped(), None).await.unwrap();
        let fork = node.fork(product.untyped(), now, "prod_copy");
        fork.await.unwrap();
        update(&world, "prod_copy", "Copy").await;
        world.passes(Duration::from_hours(1)).await;
        assert_eq!(told(&world).len(), 1);
        let copy = world.env().object::<Product>().get_by_name("prod_copy");
        node.activate(copy.untyped(), Activation::Fresh)
            .await
            .unwrap();
        update(&world, "prod_copy", "Copied tea").await;
        world.until(async || told(&world).len() == 2).await;
        let (id, name) = told(&world).remove(1);
        assert_eq!(name, "Copied tea");
        assert!(id.starts_with("prod_copy."), "{id}");
    });
}

#[test]
fn a_copied_subscription_makes_no_charge() {
    run(async {
        let world = World::new(1, 0);
        let original = subscribe(&world).await;
        is_active(&world, &original).await;
        let node = world.node();
        let now = node.bookmark(original.untyped(), None).await.unwrap();
        let fork = node.fork(original.untyped(), now, "sub_copy");
        fork.await.unwrap();
        let copy = world.env().object::<Subscription>().get_by_name("sub_copy");
        // An operator looks at it, and can change nothing.
        copy.timers().await.unwrap();
        let changed = copy.change("price_day".into(), Some(3)).await;
        assert!(changed.is_err(), "{changed:?}");
        assert!(!copy.entitlement().await.unwrap().entitled);
        world.passes(Duration::from_hours(3 * 24)).await;
        let payments_of = || -> Vec<String> {
            let payments = world.gateway.payments().into_iter();
            payments.map(|payment| payment.reference).collect()
        };
        let of_copy = |charged: Vec<String>| charged.iter().any(|of| of.contains("copy"));
        assert!(
            payments_of().len() >= 4 && !of_copy(payments_of()),
            "{:?}",
            payments_of()
        );
        node.activate(copy.untyped(), Activation::Fresh)
            .await
            .unwrap();
        assert_eq!(copy.get_state().await.unwrap().state, "copy");
        world.passes(Duration::from_hours(3 * 24)).await;
        assert!(!of_copy(payments_of()), "{:?}", payments_of());
    });
}

#[test]
fn a_restored_subscription_charges_no_period_twice() {
    run(async {
        let world = World::new(1, 0);
        world.listens("/all", &["subscription.restored"]).await;
        let subscription = subscribe(&world).await;
        is_active(&world, &subscription).await;
        let node = world.node();
        let object = subscription.untyped();
        let then = node.bookmark(object, None).await.unwrap();
        let first = subscription.get_state().await.unwrap();
        let more = subscription.change("price_day".into(), Some(3)).await;
        more.unwrap();
        world
            .until(async || world.gateway.payments().len() == 3)
            .await;
        let undo = node.restore(object, then).await.unwrap();
        world.passes(Duration::from_hours(24)).await;
        // Two days cost 10, the third was paid for three: what was too much is credit.
        let charged: Vec<String> = world
            .gateway
            .payments()
            .into_iter()
            .map(|payment| payment.reference)
            .collect();
        let unique: std::collections::BTreeSet<&String> = charged.iter().collect();
        assert_eq!(unique.len(), charged.len(), "{charged:?}");
        let live = subscription.get_state().await.unwrap();
        assert_eq!(live.state, "active");
        assert_eq!(live.data["owed"], json!({}), "{live:?}");
        assert!(subscription.entitlement().await.unwrap().entitled);
        // A reader of the history sees when, back to which point, and which timeline.
        let history = subscription.get_history(first.seq, 1).await.unwrap();
        let entry = &history[0].entry;
        assert_eq!((&*entry.action, &*entry.outcome), ("restore", "restored"));
        let data: serde_json::Value = serde_json::from_str(entry.json()).unwrap();
        assert_eq!(data["to"], json!(then.to_string()));
        assert_eq!(data["to_at"], json!(first.at));
        assert_eq!(data["timeline"], json!(undo.to_string()));
        world.until(async || told_of(&world, "/all") == 1).await;
    });
}

#[test]
fn a_dormant_restored_subscription_acts_when_it_continues() {
    for how in [Activation::Continue, Activation::Fresh] {
        run(async {
            let world = World::new(1, 0);
            let subscription = subscribe(&world).await;
            let payments = || world.gateway.payments().len();
            is_active(&world, &subscription).await;
            let (node, object) = (world.node(), subscription.untyped());
            let then = node.bookmark(object, None).await.unwrap();
            world.until(async || payments() == 2).await;
            node.restore_dormant(object, then).await.unwrap();
            world.passes(Duration::from_hours(3 * 24)).await;
            assert_eq!(payments(), 2);
            // It can be looked at.
            let view = subscription.get_state().await.unwrap();
            assert_eq!(view.state, "active");
            node.activate(object, how).await.unwrap();
            world.until(async || payments() == 5).await;
            let live = subscription.get_state().await.unwrap();
            assert_eq!(live.data["owed"], json!({}), "{live:?}");
            let charged: std::collections::BTreeSet<String> = world
                .gateway
                .payments()
                .into_iter()
                .map(|payment| payment.reference)
                .collect();
            assert_eq!(charged.len(), payments(), "{charged:?}");
        });
    }
}

#[test]
fn a_restored_subscription_accepts_that_its_invoice_is_void() {
    run(async {
        let world = World::new(1, 0);
        let subscription = subscribe(&world).await;
        is_active(&world, &subscription).await;
        let (node, object) = (world.node(), subscription.untyped());
        let then = node.bookmark(object, None).await.unwrap();
        pay_with(&world, "card_declined").await;
        world
            .until(async || subscription.get_state().await.unwrap().state == "past_due")
            .await;
        let open = subscription.get_state().await.unwrap().data["owed"].clone();
        let open = open.as_object().unwrap().keys().next().unwrap().clone();
        subscription.void(open.clone()).await.unwrap();
        let invoice = world.env().object::<Invoice>().get_by_name(&open);
        world
            .until(async || invoice.get_state().await.unwrap().state == "void")
            .await;
        node.restore(object, then).await.unwrap();
        pay_with(&world, "card_ok").await;
        world.passes(Duration::from_hours(2 * 24)).await;
        let live = subscription.get_state().await.unwrap();
        assert_eq!((&*live.state, &live.data["owed"]), ("active", &json!({})));
        let more = subscription.change("price_day".into(), Some(3)).await;
        more.unwrap();
        let invoice = invoice.get_state().await.unwrap();
        assert_eq!(invoice.state, "void");
    });
}

/// Gives Ada another card.
async fn pay_with(world: &World, card: &str) {
    let customer = world.env().object::<Customer>().get_by_name("cus_ada");
    let card = json!({ "name": "Ada", "email": "ada@example.com", "payment_method": card });
    let updated = customer.transition("update".into(), "updated".into(), card);
    updated.await.unwrap();
}
