//! From the first event to eviction, shutdown and restart.

use std::{cell::Cell, time::Duration};

use abide::{ErrorKind, prelude::*};

use crate::support::{Signals, World, is_answered, run, signals};

#[durable_object]
struct Counter {
    ctx: Ctx,
    signals: Signals,
    memory: Cell<u32>,
}

impl DurableObject for Counter {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
            memory: Cell::new(0),
        })
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.signals.note("dropped");
    }
}

#[rpc]
impl Counter {
    /// Counts in memory and in storage.
    pub async fn count(&self) -> Result<(u32, u32)> {
        self.memory.set(self.memory.get() + 1);
        let stored = self.ctx.storage().get("count")?.unwrap_or(0) + 1;
        self.ctx.storage().put("count", &stored)?;
        Ok((self.memory.get(), stored))
    }

    pub async fn whoami(&self) -> Option<String> {
        self.ctx.name()
    }

    pub async fn wait_then_count(&self) -> Result<()> {
        self.signals.give("waiting");
        self.signals.wait("go").await;
        self.count().await.map(drop)
    }

    pub async fn count_in_background(&self) -> Result<()> {
        let (storage, signals) = (self.ctx.storage().clone(), self.signals.clone());
        self.ctx.spawn(async move {
            signals.wait("go").await;
            storage.put("count", &100).unwrap();
            signals.give("done");
        })
    }
}

fn world() -> World {
    World::new(|node| node.class::<Counter>(ClassOptions::default()))
}

async fn name_of(world: &World, id: ObjectId) -> Option<String> {
    world
        .env()
        .object::<Counter>()
        .get(id)
        .whoami()
        .await
        .unwrap()
}

fn counter(world: &World) -> Stub<Counter> {
    world.env().object::<Counter>().get_by_name("counter")
}

#[test]
fn an_idle_object_leaves_memory_and_comes_back_from_storage() {
    run(async {
        let world = world();
        let counter = counter(&world);
        assert_eq!(counter.count().await.unwrap(), (1, 1));
        world.clock.advance(Duration::from_secs(9));
        assert_eq!(counter.count().await.unwrap(), (2, 2));
        world.clock.advance(Duration::from_secs(9));
        world.fence().await;
        assert_eq!(
            world.node.stats().evicted,
            0,
            "it was used nine seconds ago"
        );
        world.clock.advance(Duration::from_secs(1));
        world.until(|node| node.stats().evicted >= 1).await;
        world.until(|_| world.signals.notes() == ["dropped"]).await;
        assert_eq!(counter.count().await.unwrap(), (1, 3));
    });
}

#[test]
fn an_object_stays_in_memory_while_a_handler_waits() {
    run(async {
        let world = world();
        let counter = counter(&world);
        counter.count().await.unwrap();
        let call = counter.wait_then_count();
        world.signals.wait("waiting").await;
        world.clock.advance(Duration::from_mins(1));
        world.fence().await;
        world.signals.give("go");
        call.await.unwrap();
        assert_eq!(counter.count().await.unwrap(), (3, 3));
    });
}

#[test]
fn background_work_keeps_an_object_in_memory_and_writes_in_its_gates() {
    run(async {
        let world = world();
        let counter = counter(&world);
        counter.count().await.unwrap();
        counter.count_in_background().await.unwrap();
        world.clock.advance(Duration::from_mins(1));
        world.fence().await;
        world.signals.give("go");
        world.signals.wait("done").await;
        assert_eq!(counter.count().await.unwrap(), (2, 101));
    });
}

#[test]
fn an_object_knows_its_name_even_when_it_is_called_by_id() {
    run(async {
        let world = world();
        let counter = counter(&world);
        counter.count().await.unwrap();
        let disk = world.stop().await;
        let world = World::on(disk, 1, |node| {
            node.class::<Counter>(ClassOptions::default())
        });
        assert_eq!(
            name_of(&world, counter.id()).await.as_deref(),
            Some("counter")
        );
        let unique = world.env().object::<Counter>().unique_id();
        assert_eq!(name_of(&world, unique).await, None);

        // Called by its id first, by its name later.
        let late = world.env().object::<Counter>().get_by_name("late");
        assert_eq!(name_of(&world, late.id()).await, None);
        late.count().await.unwrap();
        assert_eq!(name_of(&world, late.id()).await.as_deref(), Some("late"));
        let disk = world.stop().await;
        let world = World::on(disk, 1, |node| {
            node.class::<Counter>(ClassOptions::default())
        });
        assert_eq!(name_of(&world, late.id()).await.as_deref(), Some("late"));
    });
}

#[test]
fn a_handler_finishes_though_its_caller_has_gone() {
    run(async {
        let world = world();
        let counter = counter(&world);
        let mut call = counter.wait_then_count();
        assert!(!is_answered(&mut call));
        world.signals.wait("waiting").await;
        drop(call);
        world.signals.give("go");
        world.until(|node| node.stats().outstanding == 0).await;
        assert_eq!(counter.count().await.unwrap(), (2, 2));
    });
}

#[test]
fn a_node_that_stops_lets_handlers_finish_and_takes_no_new_events() {
    run(async {
        let world = world();
        let counter = counter(&world);
        let call = counter.wait_then_count();
        world.signals.wait("waiting").await;
        let node = world.node.clone();
        let stopping = tokio::spawn(async move { node.shutdown(Duration::from_secs(10)).await });
        // The phase changes when the task runs first.
        let refused = loop {
            match counter.count().await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.retryable(), "{refused:?}");
        world.signals.give("go");
        call.await.unwrap();
        stopping.await.unwrap().unwrap();
        assert_eq!(world.signals.notes(), ["dropped"]);
        world.node.store().close().unwrap();
    });
}

#[test]
fn a_node_that_stops_gives_up_handlers_when_their_grace_is_over() {
    run(async {
        let world = world();
        let call = counter(&world).wait_then_count();
        world.signals.wait("waiting").await;
        world.node.shutdown(Duration::ZERO).await.unwrap();
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!error.retryable(), "it may have run in part: {error:?}");
        world.node.store().close().unwrap();
    });
}

#[test]
fn what_objects_have_stored_is_there_after_a_restart() {
    run(async {
        let first = world();
        counter(&first).count().await.unwrap();
        let disk = first.stop().await;
        let second = World::on(disk, 3, |node| {
            node.class::<Counter>(ClassOptions::default())
        });
        assert_eq!(counter(&second).count().await.unwrap(), (1, 2));
    });
}
