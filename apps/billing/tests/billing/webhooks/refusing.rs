//! An endpoint whose outbox takes nothing more, because its receiver takes nothing.

use std::time::Duration;

use abide::outbox::OutboxOptions;
use abide_harness::{Random, run};
use billing::resources::Product;
use serde_json::json;

use crate::webhooks::{create_product, world::World};

/// Messages for which an outbox has room.
const ROOM: i64 = 4;

/// Outcomes, of which some have no room.
const OUTCOMES: i64 = ROOM + 3;

fn world() -> World {
    let outbox = OutboxOptions::default().max_queued(ROOM);
    World::with_outboxes(1, 0, outbox)
}

/// What is told of a product that was created and then updated.
fn told() -> Vec<String> {
    (1..=OUTCOMES)
        .map(|seq| match seq {
            1 => "prod_tea.1.created".to_owned(),
            seq => format!("prod_tea.{seq}.updated"),
        })
        .collect()
}

fn taken(world: &World, path: &str) -> Vec<String> {
    let taken = world.receiver.taken(path).into_iter();
    taken.map(|notice| notice.id).collect()
}

/// All of it happens, one after the other.
async fn happens(world: &World) {
    create_product(world, "prod_tea").await;
    for number in 2..=OUTCOMES {
        world.passes(Duration::from_secs(1)).await;
        let product = world.env().object::<Product>().get_by_name("prod_tea");
        let name = json!({ "name": format!("Tea {number}") });
        let updated = product.transition("update".into(), "updated".into(), name);
        updated.await.unwrap();
    }
}

#[test]
fn a_refused_delivery_stays_with_its_resource_and_is_delivered_once() {
    run(async {
        let world = world();
        let first = world.listens("/first", &[]).await;
        world.listens("/second", &[]).await;
        world.receiver.closes("/first");
        happens(&world).await;
        world
            .soon(async || taken(&world, "/second") == told())
            .await;
        assert_eq!(taken(&world, "/first"), [""; 0]);
        let (counts, _) = world.outbox(&first).overview().await.unwrap();
        assert!(counts.queued + counts.sending < OUTCOMES, "{counts:?}");

        world.receiver.opens();
        world
            .until(async || taken(&world, "/first").len() == told().len())
            .await;
        assert_eq!(taken(&world, "/first"), told());
        assert_eq!(taken(&world, "/second"), told());
        assert_eq!(world.receiver.copies(), 0);
    });
}

#[test]
fn what_an_outbox_refuses_outlives_the_node() {
    run(async {
        let mut random = Random::new(1);
        let mut world = world();
        world.listens("/first", &[]).await;
        world.receiver.closes("/first");
        happens(&world).await;
        for _ in 0..4 {
            world = world.dies(&mut random);
            world.passes(Duration::from_mins(10)).await;
        }
        world.receiver.opens();
        world
            .until(async || taken(&world, "/first").len() == told().len())
            .await;
        assert_eq!(taken(&world, "/first"), told());
    });
}
