//! Sharded namespaces, and what their coordinators add up.

use std::collections::BTreeMap;

use abide::limits::patterns::{MAX_FIGURES, MAX_SHARDS, MAX_TOTALS};
use abide::{
    patterns::sharding::{self, Coordinator, Figures, Sharded, ShardingError, ShardingOptions},
    prelude::*,
};

use crate::patterns::support::{Random, World, each_seed, millis, run, secs};

#[durable_object]
struct Views {
    ctx: Ctx,
    figures: Figures,
}

impl DurableObject for Views {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        let figures = Figures::open(&ctx, ShardingOptions::default())?;
        Ok(Self { ctx, figures })
    }
}

#[rpc]
impl Views {
    pub async fn add(&self, key: String, amount: i64) -> Result<(), ShardingError> {
        let count = self.count(key.clone()).await? + amount;
        self.ctx.storage().put(&key, &count)?;
        self.figures.add("views", amount)?;
        self.figures.set("largest", count)?;
        Ok(())
    }

    pub async fn count(&self, key: String) -> Result<i64> {
        Ok(self.ctx.storage().get(&key)?.unwrap_or(0))
    }

    pub async fn figure(&self, name: String) -> Result<i64> {
        self.figures.get(&name)
    }

    pub async fn set(&self, name: String, value: i64) -> Result<(), ShardingError> {
        self.figures.set(&name, value)
    }
}

/// A timeline.
fn first() -> String {
    "1".to_owned()
}

fn world() -> World {
    World::new(|node| {
        node.class::<Views>(ClassOptions::default())
            .class::<Coordinator>(sharding::class_options())
    })
}

fn views(world: &World, shards: u32) -> Sharded<Views> {
    Sharded::new(world.node.env(), "views", shards).unwrap()
}

async fn simulate(seed: u64, mut random: Random) {
    let shards = 1 + random.below(5);
    let mut world = world();
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    let mut largest: BTreeMap<u32, i64> = BTreeMap::new();
    for step in 0..100 {
        let views = views(&world, shards);
        let case = format!("seed {seed}, step {step}");
        match random.below(8) {
            0..=4 => {
                let key = format!("page {}", random.below(20));
                let amount = i64::from(random.below(9)) - 3;
                views.of(&key).add(key.clone(), amount).await.unwrap();
                let count = counts.entry(key.clone()).or_default();
                *count += amount;
                largest.insert(views.number_of(&key), *count);
            }
            5 => {
                let each = views.each(|shard| shard.figure("views".to_owned())).await;
                let sum: i64 = each.into_iter().map(|figure| figure.unwrap()).sum();
                assert_eq!(sum, counts.values().sum::<i64>(), "{case}: all are exact");
            }
            6 => world.advance(millis(random.below(1_500))).await,
            _ => world = world.killed_or_crashed(&mut random),
        }
    }
    for (key, count) in &counts {
        let found = views(&world, shards)
            .of(key)
            .count(key.clone())
            .await
            .unwrap();
        assert_eq!(found, *count, "seed {seed}: {key}");
    }
    // A report that a kill cut off is made again after at most some waits.
    for _ in 0..10 {
        world.advance(secs(60)).await;
    }
    let totals = views(&world, shards).totals().await.unwrap();
    assert_eq!(
        totals.get("views"),
        counts.values().sum::<i64>(),
        "seed {seed}: {totals:?}"
    );
    assert_eq!(
        totals.get("largest"),
        largest.values().sum::<i64>(),
        "seed {seed}"
    );
    assert_eq!(totals.shards as usize, largest.len(), "seed {seed}");
    assert_eq!(
        world.alarms(),
        0,
        "seed {seed}: no shard reports without news"
    );
}

#[test]
fn totals_are_exact_once_nothing_changes_whatever_happened() {
    each_seed(simulate);
}

#[test]
fn a_report_that_comes_late_or_twice_counts_once() {
    run(async {
        let world = world();
        let coordinator = world.stub::<Coordinator>("views");
        let figures = |views: i64| BTreeMap::from([("views".to_owned(), views)]);
        for (shard, change, views, sum) in [
            (0, 10, 5, 5),
            (0, 10, 5, 5),
            (1, 3, 2, 7),
            (0, 12, 1, 3),
            (0, 11, 99, 3),
            (1, 4, -1, 0),
        ] {
            coordinator
                .report(shard, first(), change, figures(views))
                .await
                .unwrap();
            let totals = coordinator.totals().await.unwrap();
            assert_eq!(totals.get("views"), sum, "{shard} {change}");
        }
        // A figure that is not reported any more.
        coordinator
            .report(0, first(), 20, BTreeMap::new())
            .await
            .unwrap();
        assert_eq!(coordinator.totals().await.unwrap().get("views"), -1);
        let refused = coordinator.report(0, first(), 21, figures(i64::MIN)).await;
        assert!(
            matches!(refused, Err(ShardingError::Invalid(_))),
            "{refused:?}"
        );
        assert_eq!(coordinator.totals().await.unwrap().get("views"), -1);
    });
}

#[test]
fn totals_of_too_many_figures_are_refused_and_not_shortened() {
    run(async {
        let world = world();
        let coordinator = world.stub::<Coordinator>("views");
        let report = async |shard: u32, change, value: i64| {
            let name = |number| format!("figure {shard} {number}");
            let figures = (0..MAX_FIGURES).map(|number| (name(number), value));
            let told = coordinator.report(shard, first(), change, figures.collect());
            told.await.unwrap();
        };
        let most = u32::try_from(MAX_TOTALS / MAX_FIGURES).unwrap();
        for shard in 0..most {
            report(shard, 1, 7).await;
        }
        let totals = coordinator.totals().await.unwrap();
        assert_eq!(totals.figures.len(), MAX_TOTALS);
        report(most, 1, 7).await;
        let refused = coordinator.totals().await;
        assert!(
            matches!(refused, Err(ShardingError::Invalid(_))),
            "{refused:?}"
        );
        // What is nothing takes no place.
        report(0, 2, 0).await;
        let totals = coordinator.totals().await.unwrap();
        assert_eq!(
            (totals.get("figure 0 0"), totals.get("figure 64 99")),
            (0, 7)
        );
    });
}

#[test]
fn the_number_of_shards_is_fixed_by_the_first_who_says_it() {
    run(async {
        let mut world = world();
        views(&world, 10).declare().await.unwrap();
        views(&world, 10).declare().await.unwrap();
        world = world.killed();
        let refused = views(&world, 11).declare().await;
        assert!(
            matches!(
                refused,
                Err(ShardingError::Declared {
                    shards: 10,
                    wanted: 11
                })
            ),
            "{refused:?}"
        );
    });
}

#[test]
fn invalid_input_is_refused() {
    run(async {
        let world = world();
        let env = world.node.env();
        for (name, shards) in [
            ("", 1),
            ("a/b", 1),
            (&*"n".repeat(256), 1),
            ("views", 0),
            ("views", MAX_SHARDS + 1),
        ] {
            let refused = Sharded::<Views>::new(env, name, shards).map(drop);
            assert!(
                matches!(refused, Err(ShardingError::Invalid(_))),
                "{name} {shards}"
            );
        }
        for name in [
            "views",
            "views/",
            "views/x",
            "views/4294967296",
            "views/01",
            "views/+1",
            "a/b/1",
            "/1",
        ] {
            let refused = world.stub::<Views>(name).count("key".to_owned()).await;
            assert!(refused.is_err(), "{name} is no shard");
        }
        let shard = views(&world, 1).shard(0);
        for name in [String::new(), "f".repeat(65)] {
            assert!(shard.set(name, 1).await.is_err());
        }
        for number in 0..MAX_FIGURES {
            shard.set(format!("figure {number}"), 1).await.unwrap();
        }
        assert!(shard.set("one more".to_owned(), 1).await.is_err());
        shard.set("figure 0".to_owned(), 2).await.unwrap();
    });
}

/// No call reaches the shard.
#[test]
fn totals_follow_a_restored_shard() {
    run(async {
        let world = world();
        let shard = world.stub::<Views>("views/0");
        let add = async |amount| {
            let added = shard.add("page".to_owned(), amount).await;
            added.unwrap();
            world.advance(secs(60)).await;
        };
        let total = async || {
            let coordinator = world.stub::<Coordinator>("views");
            coordinator.totals().await.unwrap().get("views")
        };
        add(5).await;
        let then = world.node.bookmark(shard.untyped(), None).await.unwrap();
        for _ in 0..3 {
            add(100).await;
        }
        assert_eq!(total().await, 305);
        // The clock tells nothing about which change is later.
        world.clock.set_wall(-3_600_000);
        world.node.restore(shard.untyped(), then).await.unwrap();
        world.advance(secs(60)).await;
        assert_eq!(total().await, 5);
        add(1).await;
        assert_eq!(total().await, 6);
    });
}
