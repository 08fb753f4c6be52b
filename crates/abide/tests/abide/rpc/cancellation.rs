//! A caller that goes away cancels nothing.

use abide::prelude::*;

use crate::support::{Signals, World, run, signals};

#[durable_object]
struct Worker {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Worker {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }

    async fn fetch(&self, _: Request) -> Result<Response> {
        self.work().await?;
        Ok(Response::new(Body::empty()))
    }
}

#[rpc]
impl Worker {
    /// Writes once before and once after it has waited.
    pub async fn work(&self) -> Result<()> {
        self.ctx.storage().put("begun", &true)?;
        self.signals.give("begun");
        self.signals.wait("go").await;
        self.ctx.storage().put("ended", &true)?;
        self.signals.give("ended");
        Ok(())
    }

    /// What has been written.
    pub async fn written(&self) -> Result<(bool, bool)> {
        let is_set = |key| self.ctx.storage().get(key).map(Option::unwrap_or_default);
        Ok((is_set("begun")?, is_set("ended")?))
    }

    /// Waits for another object's work.
    pub async fn delegate(&self, other: String) -> Result<()> {
        let other = self.ctx.env().object::<Self>().get_by_name(&other);
        other.work().await
    }

    pub async fn give_up(&self) {
        self.ctx.abort("the caller is gone");
    }
}

fn world() -> World {
    World::new(|node| node.class::<Worker>("WORKER", ClassOptions::default()))
}

fn worker(world: &World, name: &str) -> Stub<Worker> {
    world.env().object::<Worker>().get_by_name(name)
}

async fn finishes(world: &World) {
    world.signals.give("go");
    world.signals.wait("ended").await;
    let written = worker(world, "worker").written().await.unwrap();
    assert_eq!(written, (true, true));
}

#[test]
fn a_handler_runs_to_its_end_although_its_caller_is_gone() {
    run(async {
        let world = world();
        let call = worker(&world, "worker").work();
        world.signals.wait("begun").await;
        drop(call);
        finishes(&world).await;
    });
}

#[test]
fn a_fetch_runs_to_its_end_although_its_caller_is_gone() {
    run(async {
        let world = world();
        let request = Request::builder().body(Body::empty()).unwrap();
        let call = worker(&world, "worker").fetch(request);
        world.signals.wait("begun").await;
        drop(call);
        finishes(&world).await;
    });
}

#[test]
fn a_handler_runs_to_its_end_although_the_object_that_called_was_reset() {
    run(async {
        let world = world();
        let delegated = worker(&world, "caller").delegate("worker".into());
        world.signals.wait("begun").await;
        assert!(worker(&world, "caller").give_up().await.is_err());
        assert!(delegated.await.unwrap_err().object_reset());
        finishes(&world).await;
    });
}

#[test]
fn a_call_whose_result_is_not_awaited_is_still_made() {
    run(async {
        let world = world();
        drop(worker(&world, "worker").work());
        world.signals.wait("begun").await;
        finishes(&world).await;
    });
}
