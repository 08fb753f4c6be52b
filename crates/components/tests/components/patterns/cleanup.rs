//! Objects that delete themselves.

use std::time::Duration;

use abide::limits::patterns::MAX_KEPT_UNUSED;
use abide::{
    patterns::cleanup::{Cleanup, CleanupOptions, Decision},
    prelude::*,
};

use crate::patterns::support::{Random, World, each_seed, millis, run, secs};

const AFTER: i64 = 16_000;

#[durable_object]
struct Cart {
    ctx: Ctx,
    cleanup: Cleanup,
}

impl DurableObject for Cart {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS articles (name TEXT)", ())?;
        let asked = ctx.storage().clone();
        let options = CleanupOptions::default().after(millis(16_000));
        let cleanup = Cleanup::open_with(&ctx, options, move || match asked.get("keep")? {
            Some(true) => Ok(Decision::Keep),
            _ => Ok(Decision::Delete),
        })?;
        Ok(Self { ctx, cleanup })
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        Ok(())
    }
}

#[rpc]
impl Cart {
    pub async fn put(&self) -> Result<i64> {
        self.cleanup.used()?;
        let sql = self.ctx.sql();
        sql.exec("INSERT INTO articles VALUES ('a book')", ())?;
        self.count().await
    }

    pub async fn count(&self) -> Result<i64> {
        let sql = self.ctx.sql();
        sql.exec("SELECT count(*) FROM articles", ())?.one()
    }

    pub async fn remind(&self, after: Duration) -> Result<()> {
        self.ctx.storage().set_alarm(after)
    }

    pub async fn keep(&self, keep: bool) -> Result<()> {
        self.ctx.storage().put("keep", &keep)
    }

    pub async fn goes_at(&self) -> Result<Option<i64>> {
        self.cleanup.goes_at()
    }

    pub async fn open_with(&self, after: Duration) -> Option<String> {
        let opened = Cleanup::open(&self.ctx, CleanupOptions::default().after(after));
        opened.err().map(|error| error.to_string())
    }
}

fn world() -> World {
    World::new(|node| node.class::<Cart>(ClassOptions::default()))
}

fn cart(world: &World) -> Stub<Cart> {
    world.stub::<Cart>("ada")
}

async fn count(world: &World) -> i64 {
    cart(world).count().await.unwrap()
}

async fn simulate(seed: u64, mut random: Random) {
    let mut world = world();
    let (mut articles, mut used_at) = (0, 0);
    for step in 0..120 {
        match random.below(8) {
            0..=2 => {
                let found = cart(&world).put().await.unwrap();
                // It may be gone only if it could be.
                assert!(
                    found == articles + 1
                        || found == 1 && world.now() >= used_at + AFTER - AFTER / 16
                );
                (articles, used_at) = (found, world.now());
            }
            3..=5 => world.advance(millis(random.below(9_000))).await,
            6 => {
                world.advance(millis(random.below(9_000))).await;
                let (found, now) = (count(&world).await, world.now());
                let case = format!(
                    "seed {seed}, step {step}: {found} of {articles}, {} ms",
                    now - used_at
                );
                if now < used_at + AFTER - AFTER / 16 {
                    assert_eq!(found, articles, "{case}: it was used");
                } else if now >= used_at + AFTER {
                    assert_eq!(found, 0, "{case}: it is unused");
                }
                articles = found;
            }
            _ => world = world.killed_or_crashed(&mut random),
        }
    }
    world.advance(millis(16_000)).await;
    assert_eq!((count(&world).await, world.alarms()), (0, 0), "seed {seed}");
}

#[test]
fn an_object_is_deleted_only_after_it_was_unused_long_enough() {
    each_seed(simulate);
}

#[test]
fn an_object_that_has_something_to_do_is_kept() {
    run(async {
        let world = world();
        cart(&world).put().await.unwrap();
        cart(&world).remind(secs(20)).await.unwrap();
        world.advance(secs(16)).await;
        assert_eq!(count(&world).await, 1, "its own alarm is set");
        // That has gone off now; the object's time began anew when it was looked at.
        world.advance(secs(15)).await;
        assert_eq!(count(&world).await, 1);
        cart(&world).keep(true).await.unwrap();
        world.advance(secs(1)).await;
        assert_eq!(count(&world).await, 1, "the hook keeps it");
        let goes_at = cart(&world).goes_at().await.unwrap();
        assert_eq!(goes_at, Some(world.now() + AFTER));
        cart(&world).keep(false).await.unwrap();
        world.advance(secs(16)).await;
        assert_eq!((count(&world).await, world.alarms()), (0, 0));
    });
}

#[test]
fn what_is_never_used_is_never_written_and_bad_options_are_refused() {
    run(async {
        let world = world();
        assert_eq!(count(&world).await, 0);
        assert_eq!(world.written::<Cart>(), 0);
        for after in [
            Duration::ZERO,
            MAX_KEPT_UNUSED + secs(1),
            Duration::MAX,
            secs(60),
        ] {
            // The last is refused because the object has one already.
            assert!(
                cart(&world).open_with(after).await.unwrap().is_some(),
                "{after:?}"
            );
        }
    });
}
