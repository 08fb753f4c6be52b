//! What restores and forks of a shard mean.

use std::time::Duration;

use abide::{
    prelude::*,
    queue::{QueueMessage, QueueShard},
};

use crate::queue::support::{World, message, run, words};

fn shard(world: &World, number: u32) -> Stub<QueueShard> {
    let name = format!("words/{number}");
    world.node.env().object::<QueueShard>().get_by_name(&name)
}

async fn bookmark(world: &World) -> Bookmark {
    let shard = shard(world, 0);
    world.node.bookmark(shard.untyped(), None).await.unwrap()
}

fn later(body: &str) -> QueueMessage {
    message(body).delay(Duration::from_mins(1))
}

/// The id under which the consumer saw a body, each time.
fn ids(world: &World, body: &str) -> Vec<String> {
    let seen = world.script.seen().into_iter();
    seen.flat_map(|seen| seen.bodies.into_iter().zip(seen.ids))
        .filter(|(seen, _)| seen == body)
        .map(|(_, id)| id)
        .collect()
}

#[test]
fn a_restored_shard_delivers_again_under_ids_never_reused() {
    run(async {
        let world = World::new(words);
        let queue = world.queue("words");
        queue.send(later("waiting")).await.unwrap();
        let then = bookmark(&world).await;
        world.clock.advance(Duration::from_mins(1));
        world.until_consumed(1).await;
        world.send(&["undone"]).await;
        world.until_consumed(2).await;
        let stub = shard(&world, 0);
        world.node.restore(stub.untyped(), then).await.unwrap();
        world.send(&["anew"]).await;
        world.until_consumed(2).await;
        // At least once, and a consumer knows it by its id.
        let waiting = ids(&world, "waiting");
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting[0], waiting[1]);
        assert_ne!(ids(&world, "undone"), ids(&world, "anew"));
    });
}

#[test]
fn a_forked_shard_delivers_nothing_until_activated() {
    run(async {
        let world = World::new(words);
        world.queue("words").send(later("waiting")).await.unwrap();
        let (node, now) = (&world.node, bookmark(&world).await);
        let original = shard(&world, 0);
        for number in [7, 8] {
            let name = format!("words/{number}");
            node.fork(original.untyped(), now, &name).await.unwrap();
            let own = vec![message(&format!("own of {number}"))];
            shard(&world, number).send(own).await.unwrap();
        }
        let waiting = || ids(&world, "waiting").len();
        world
            .pass_until("the original's", async || waiting() == 1)
            .await;
        for _ in 0..100 {
            world.clock.advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(world.script.bodies(), ["waiting"]);
        let (fresh, continued) = (shard(&world, 7), shard(&world, 8));
        node.activate(fresh.untyped(), Activation::Fresh)
            .await
            .unwrap();
        node.activate(continued.untyped(), Activation::Continue)
            .await
            .unwrap();
        let counts = fresh.counts().await.unwrap();
        assert_eq!((counts.messages, counts.bytes), (0, 0));
        world
            .pass_until("the continued one's", async || {
                waiting() == 2 && ids(&world, "own of 8").len() == 1
            })
            .await;
        assert!(ids(&world, "own of 7").is_empty());
        let more = vec![message("more")];
        fresh.send(more).await.unwrap();
        world
            .pass_until("it works", async || ids(&world, "more").len() == 1)
            .await;
    });
}
