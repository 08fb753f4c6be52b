//! The engine's webhooks, to a receiver that checks each signature and misbehaves.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod crashes;
mod expected;
mod receiver;
mod refusing;
mod restored;
mod world;

use abide::{
    outbox::service::Delayed,
    outbox::{DeadLetterFilter, MessageFilter, OutboxMessage},
};
use abide_harness::run;
use billing::resources::{Customer, Product};
use serde_json::json;

use world::World;

async fn create_product(world: &World, id: &str) {
    let product = world.env().object::<Product>().get_by_name(id);
    let created = product.transition("create".into(), "created".into(), json!({ "name": "Tea" }));
    created.await.unwrap();
}

#[test]
fn an_endpoint_is_told_what_it_wants_and_nothing_of_what_was_refused() {
    run(async {
        let world = World::new(1, 0);
        let all = world.listens("/all", &[]).await;
        world.listens("/some", &["product.updated"]).await;
        create_product(&world, "prod_tea").await;
        let product = world.env().object::<Product>().get_by_name("prod_tea");
        for (action, outcome) in [("create", "created"), ("update", "deleted")] {
            let refused =
                product.transition(action.into(), outcome.into(), json!({ "name": "No" }));
            refused.await.unwrap_err();
        }
        let updated = product.transition(
            "update".into(),
            "updated".into(),
            json!({ "name": "Green tea" }),
        );
        updated.await.unwrap();
        let customer = world.env().object::<Customer>().get_by_name("cus_ada");
        let ada = json!({ "name": "Ada", "email": "ada@example.com" });
        let created = customer.transition("create".into(), "created".into(), ada);
        created.await.unwrap();
        world
            .until(async || {
                world.receiver.taken("/all").len() >= 3 && !world.receiver.taken("/some").is_empty()
            })
            .await;
        let ids = |path: &str| {
            let mut ids: Vec<String> = world
                .receiver
                .taken(path)
                .into_iter()
                .map(|notice| notice.id)
                .collect();
            ids.sort();
            ids
        };
        assert_eq!(
            ids("/all"),
            [
                "cus_ada.1.created",
                "prod_tea.1.created",
                "prod_tea.2.updated"
            ]
        );
        assert_eq!(ids("/some"), ["prod_tea.2.updated"]);
        let told = world.receiver.taken("/some").remove(0);
        assert_eq!(told.resource.kind, "product");
        assert_eq!(told.resource.data["name"], "Green tea");
        let (counts, _) = world.outbox(&all).overview().await.unwrap();
        assert_eq!((counts.failed, counts.queued), (0, 0));
    });
}

#[test]
fn deliveries_to_a_deleted_endpoint_become_dead_letters() {
    run(async {
        let world = World::new(1, 0);
        let gone = world.listens("/gone", &[]).await;
        let id = gone.endpoint.id.clone();
        world.endpoints().remove(id.clone()).await.unwrap();
        let missing = world.endpoints().show(id.clone()).await;
        assert!(missing.unwrap_err().to_string().contains(&id));
        // As one that was enqueued a moment before.
        let told = json!({
            "endpoint": id,
            "webhook": { "endpoint": gone.endpoint.url, "type": "product.created", "data": {} },
        });
        let message = Delayed {
            message: OutboxMessage::new("notice", &told).unwrap(),
            delay: None,
        };
        let outbox = world.outbox(&gone);
        outbox.enqueue(vec![message]).await.unwrap();
        world
            .until(async || {
                let dead = outbox.dead_letters(DeadLetterFilter::default());
                !dead.await.unwrap().records.is_empty()
            })
            .await;
        let dead = outbox.list(MessageFilter::default()).await.unwrap();
        let error = dead.records[0].last_error.clone().unwrap();
        assert!(error.contains("was deleted"), "{error}");

        world.listens("/all", &[]).await;
        create_product(&world, "prod_tea").await;
        world
            .until(async || world.receiver.taken("/all").len() == 1)
            .await;
        assert!(world.receiver.taken("/gone").is_empty());
    });
}

#[test]
fn a_notice_goes_nowhere_but_to_the_url_of_its_endpoint() {
    run(async {
        let world = World::new(1, 0);
        let endpoint = world.listens("/shop", &[]).await;
        world.receiver.knows("/elsewhere", &endpoint.secret);
        let told = json!({
            "endpoint": endpoint.endpoint.id,
            "webhook": {
                "endpoint": format!("https://{}/elsewhere", receiver::HOST),
                "type": "product.created",
                "data": {
                    "id": "prod_tea.1.created",
                    "type": "product.created",
                    "resource": { "id": "prod_tea", "kind": "product", "state": "active", "seq": 1, "data": {} },
                },
            },
        });
        let message = Delayed {
            message: OutboxMessage::new("notice", &told).unwrap(),
            delay: None,
        };
        let outbox = world.outbox(&endpoint);
        outbox.enqueue(vec![message]).await.unwrap();
        world
            .soon(async || {
                let (counts, _) = outbox.overview().await.unwrap();
                counts.queued + counts.sending == 0
            })
            .await;
        assert!(world.receiver.taken("/elsewhere").is_empty());
        let dead = outbox.list(MessageFilter::default()).await.unwrap();
        let error = dead.records[0].last_error.clone().unwrap();
        assert!(error.contains("registered with another URL"), "{error}");
    });
}
