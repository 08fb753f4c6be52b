//! `spawn`: work that continues after the response.

use std::{cell::Cell, time::Duration};

use abide::{limits::IDLE_TIMEOUT, prelude::*};

use crate::support::{Signals, World, is_answered, run, signals};

#[durable_object]
struct Cleaner {
    ctx: Ctx,
    signals: Signals,
    calls: Cell<u32>,
}

impl DurableObject for Cleaner {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
            calls: Cell::new(0),
        })
    }
}

/// Writes when it is dropped.
struct Farewell(Ctx);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.storage().put("dropped", &true).unwrap();
    }
}

#[rpc]
impl Cleaner {
    /// Starts work that writes, waits, and writes again.
    pub async fn start(&self) -> Result<()> {
        let (ctx, signals) = (self.ctx.clone(), self.signals.clone());
        self.ctx.spawn(async move {
            let farewell = Farewell(ctx);
            let storage = farewell.0.storage();
            storage.put("begun", &true).unwrap();
            signals.give("begun");
            signals.wait("go").await;
            storage.put("ended", &true).unwrap();
            signals.give("ended");
        })
    }

    pub async fn start_and_panic(&self) -> Result<()> {
        let signals = self.signals.clone();
        self.ctx.spawn(async move {
            signals.wait("go").await;
            panic!("in the background");
        })
    }

    pub async fn block(&self) -> Result<()> {
        let signals = self.signals.clone();
        let blocked = self.ctx.block_concurrency_while(async move {
            signals.give("closed");
            signals.wait("open").await;
            Ok(())
        });
        blocked.await
    }

    /// Which of these were written.
    pub async fn written(&self) -> Result<Vec<String>> {
        let keys = ["begun", "dropped", "ended"];
        let found = self.ctx.storage().get_many::<bool, _>(keys)?;
        Ok(found.into_keys().collect())
    }

    /// How often this has been called since the object came to life.
    pub async fn count(&self) -> u32 {
        self.calls.set(self.calls.get() + 1);
        self.calls.get()
    }
}

const LIMIT: Duration = Duration::from_secs(25);

fn world() -> World {
    let options = ClassOptions::default().background_timeout(LIMIT);
    World::new(|node| node.class::<Cleaner>(options))
}

fn cleaner(world: &World) -> Stub<Cleaner> {
    world.env().object::<Cleaner>().get_by_name("cleaner")
}

async fn written(world: &World) -> Vec<String> {
    cleaner(world).written().await.unwrap()
}

/// The object is not evicted before what it wrote is durable, so it may be looked at several times.
async fn leaves_memory(world: &World) {
    while world.node.stats().evicted == 0 {
        world.clock.advance(IDLE_TIMEOUT);
        tokio::task::yield_now().await;
    }
}

#[test]
fn background_work_keeps_its_object_in_memory_until_it_is_done() {
    run(async {
        let world = world();
        assert_eq!(cleaner(&world).count().await.unwrap(), 1);
        cleaner(&world).start().await.unwrap();
        world.signals.wait("begun").await;
        world.clock.advance(IDLE_TIMEOUT * 2);
        world.fence().await;
        assert_eq!(cleaner(&world).count().await.unwrap(), 2);
        world.signals.give("go");
        world.signals.wait("ended").await;
        world.fence().await;
        leaves_memory(&world).await;
        assert_eq!(cleaner(&world).count().await.unwrap(), 1);
        assert_eq!(written(&world).await, ["begun", "dropped", "ended"]);
    });
}

#[test]
fn background_work_over_its_limit_is_dropped_and_its_object_survives() {
    run(async {
        let world = world();
        assert_eq!(cleaner(&world).count().await.unwrap(), 1);
        cleaner(&world).start().await.unwrap();
        world.signals.wait("begun").await;
        world.fence().await;
        world.clock.advance(LIMIT);
        world
            .until(|node| node.stats().background_timeouts == 1)
            .await;
        world.fence().await;
        // What it wrote stays, and what it writes while it is dropped.
        assert_eq!(written(&world).await, ["begun", "dropped"]);
        assert_eq!(cleaner(&world).count().await.unwrap(), 2);
        assert_eq!(world.node.stats().resets, 0);
        // It holds nothing any more.
        leaves_memory(&world).await;
        assert_eq!(written(&world).await, ["begun", "dropped"]);
    });
}

#[test]
fn background_work_is_not_dropped_while_the_gate_is_closed() {
    run(async {
        let world = world();
        cleaner(&world).start().await.unwrap();
        world.signals.wait("begun").await;
        let blocking = cleaner(&world).block();
        world.signals.wait("closed").await;
        world.clock.advance(LIMIT);
        world
            .until(|node| node.stats().background_timeouts == 1)
            .await;
        world.fence().await;
        let mut reading = cleaner(&world).written();
        assert!(!is_answered(&mut reading));
        world.signals.give("open");
        blocking.await.unwrap();
        world.fence().await;
        assert_eq!(written(&world).await, ["begun", "dropped"]);
    });
}

#[test]
fn a_panic_in_the_background_resets_the_object() {
    run(async {
        let world = world();
        assert_eq!(cleaner(&world).count().await.unwrap(), 1);
        cleaner(&world).start_and_panic().await.unwrap();
        world.signals.give("go");
        world.until(|node| node.stats().resets == 1).await;
        assert_eq!(cleaner(&world).count().await.unwrap(), 1);
    });
}

#[test]
fn a_node_that_stops_waits_for_background_work() {
    run(async {
        let world = world();
        cleaner(&world).start().await.unwrap();
        world.signals.wait("begun").await;
        let (cleaner, signals) = (cleaner(&world), world.signals.clone());
        let stopping = tokio::spawn(world.stop());
        while cleaner.count().await.is_ok() {}
        signals.give("go");
        signals.wait("ended").await;
        let again = World::on(stopping.await.unwrap(), 1, |node| {
            node.class::<Cleaner>(ClassOptions::default())
        });
        assert_eq!(written(&again).await, ["begun", "dropped", "ended"]);
    });
}
