//! Restores, undos, copies and activations of the shards of a queue, in random lives.
//!
//! All shards are restored to the same moment. What was sent since then is forgotten, and its senders send it again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use abide::{
    prelude::*,
    queue::{Counts, QueueShard},
};
use abide_harness::Random;

use crate::queue::support::World;

/// The shards of the queue.
pub(crate) const SHARDS: u32 = 2;

/// What senders know.
#[derive(Clone, Default)]
pub(crate) struct Senders {
    /// Bodies that the queue said it has.
    pub(crate) acknowledged: BTreeSet<String>,
    /// Bodies without an answer: they may arrive at any time.
    pub(crate) unanswered: BTreeSet<String>,
}

#[derive(Default)]
pub(crate) struct Restores {
    pasts: Vec<(Vec<Bookmark>, Senders)>,
    copies: Vec<(u32, Counts)>,
    /// How often the shards were restored: then attempts have the same numbers again.
    pub(crate) times: usize,
    /// What was undone, and how many batches were seen until then.
    undone: Option<(BTreeSet<String>, usize)>,
}

fn shard(world: &World, number: u32) -> Stub<QueueShard> {
    let name = format!("words/{number}");
    world.node.env().object::<QueueShard>().get_by_name(&name)
}

async fn counts(world: &World, number: u32) -> Counts {
    shard(world, number).counts().await.unwrap()
}

/// The bookmarks of all shards, once they exist.
async fn bookmarks(world: &World) -> Option<Vec<Bookmark>> {
    let mut all = Vec::new();
    for number in 0..SHARDS {
        let stub = shard(world, number);
        all.push(world.node.bookmark(stub.untyped(), None).await.ok()?);
    }
    Some(all)
}

impl Restores {
    pub(crate) async fn travel(
        &mut self,
        world: &World,
        random: &mut Random,
        senders: &mut Senders,
    ) {
        match random.below(6) {
            0..=2 => {
                if let Some(now) = bookmarks(world).await {
                    self.pasts.push((now, senders.clone()));
                }
            }
            3 if !self.pasts.is_empty() && self.copies.len() < 3 => {
                let number = SHARDS + u32::try_from(self.copies.len()).unwrap();
                let (stub, name) = (shard(world, 0), format!("words/{number}"));
                let (at, _) = self.pasts.last().unwrap();
                let forked = world.node.fork(stub.untyped(), at[0], &name).await;
                forked.unwrap();
                self.copies.push((number, counts(world, number).await));
            }
            4 | 5 if !self.pasts.is_empty() => {
                let chosen = random.below(u32::try_from(self.pasts.len()).unwrap());
                let (at, known) = self.pasts[chosen as usize].clone();
                self.restore(world, &at, known, random.below(3) == 0, senders)
                    .await;
            }
            _ => {}
        }
    }

    async fn restore(
        &mut self,
        world: &World,
        at: &[Bookmark],
        known: Senders,
        dormant: bool,
        senders: &mut Senders,
    ) {
        let node = &world.node;
        let before = senders.clone();
        let mut undos = Vec::new();
        for (number, at) in (0..SHARDS).zip(at) {
            let stub = shard(world, number);
            undos.push(if dormant {
                node.restore_dormant(stub.untyped(), *at).await.unwrap()
            } else {
                node.restore(stub.untyped(), *at).await.unwrap()
            });
        }
        self.times += 1;
        senders.acknowledged = known.acknowledged;
        let seen = world.script.seen().len();
        let undone = before.acknowledged.difference(&senders.acknowledged);
        self.undone = Some((undone.cloned().collect(), seen));
        self.pasts.push((undos, before));
        if dormant {
            for _ in 0..30 {
                world.clock.advance(Duration::from_millis(100));
                tokio::task::yield_now().await;
            }
            assert_eq!(world.script.seen().len(), seen, "the shards are dormant");
            for number in 0..SHARDS {
                let stub = shard(world, number);
                node.activate(stub.untyped(), Activation::Continue)
                    .await
                    .unwrap();
            }
        }
    }

    /// What was undone was not seen since; a body that is sent again no longer is.
    pub(crate) fn check_undone(&self, world: &World, seed: u64, senders: &Senders) {
        let Some((undone, since)) = &self.undone else {
            return;
        };
        let known = |body: &String| {
            senders.acknowledged.contains(body) || senders.unanswered.contains(body)
        };
        for batch in &world.script.seen()[*since..] {
            let found = batch.bodies.iter().find(|body| undone.contains(*body));
            assert!(
                found.is_none_or(known),
                "seed {seed}: {found:?} was undone, and is consumed"
            );
        }
    }

    /// Copies have done nothing, and drop all when they are activated; no id is that of two messages.
    pub(crate) async fn check(&self, world: &World, seed: u64) {
        println!("{} restores, {} copies", self.times, self.copies.len());
        for (number, had) in &self.copies {
            assert_eq!(counts(world, *number).await, *had, "seed {seed}");
            let stub = shard(world, *number);
            let node = &world.node;
            node.activate(stub.untyped(), Activation::Fresh)
                .await
                .unwrap();
            assert_eq!(counts(world, *number).await.messages, 0, "seed {seed}");
        }
        let mut ids: BTreeMap<String, String> = BTreeMap::new();
        for batch in world.script.seen() {
            for (id, body) in batch.ids.into_iter().zip(batch.bodies) {
                let known = ids.entry(id).or_insert_with(|| body.clone());
                assert_eq!(*known, body, "seed {seed}: two messages have one id");
            }
        }
    }
}
