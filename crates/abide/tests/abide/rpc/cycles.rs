//! An object that calls itself, directly or through others.

use abide::{ErrorKind, limits::BLOCK_CONCURRENCY_LIMIT, prelude::*};

use crate::support::{Signals, World, run, signals};

#[durable_object]
struct Link {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Link {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }
}

#[rpc]
impl Link {
    /// Goes along the path, one object after the other, and comes back with how far it was.
    pub async fn walk(&self, mut path: Vec<String>) -> Result<usize> {
        let Some(next) = path.pop() else {
            return Ok(0);
        };
        let next = self.ctx.env().object::<Self>().get_by_name(&next);
        Ok(next.walk(path).await? + 1)
    }

    /// The same while nothing else may happen in this object.
    pub async fn walk_in_a_closed_gate(&self, path: Vec<String>) -> Result<usize> {
        let (ctx, signals) = (self.ctx.clone(), self.signals.clone());
        let walk = self.ctx.block_concurrency_while(async move {
            let mut path = path;
            let next = path.pop().unwrap_or_default();
            let next = ctx.env().object::<Self>().get_by_name(&next);
            ctx.storage().put("walking", &true)?;
            signals.give("walking");
            next.walk(path).await
        });
        walk.await
    }

    /// Calls itself while nothing else may happen in this object, without waiting for the answer there.
    pub async fn call_oneself_later(&self) -> Result<usize> {
        let ctx = self.ctx.clone();
        let oneself = self.ctx.block_concurrency_while(async move {
            let name = ctx.name().unwrap_or_default();
            let oneself = ctx.env().object::<Self>().get_by_name(&name);
            Ok(oneself.walk(Vec::new()))
        });
        oneself.await?.await
    }
}

fn world() -> World {
    World::new(|node| node.class::<Link>(ClassOptions::default()))
}

fn link(world: &World, name: &str) -> Stub<Link> {
    world.env().object::<Link>().get_by_name(name)
}

fn path(names: &[&str]) -> Vec<String> {
    names.iter().rev().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_object_may_call_itself_and_wait_for_the_answer() {
    run(async {
        let world = world();
        let walked = link(&world, "a").walk(path(&["a", "a"])).await.unwrap();
        assert_eq!(walked, 2);
    });
}

#[test]
fn a_cycle_of_calls_does_not_deadlock() {
    run(async {
        let world = world();
        let walked = link(&world, "a").walk(path(&["b", "a", "b", "c", "a"]));
        assert_eq!(walked.await.unwrap(), 5);
    });
}

#[test]
fn a_call_to_oneself_behind_the_own_closed_gate_is_refused_at_once() {
    run(async {
        let world = world();
        let call = link(&world, "a").walk_in_a_closed_gate(path(&["a"]));
        // An error inside the block resets the object, as any other does.
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadlock, "{error:?}");
        assert!(error.object_reset() && !error.retryable());
        assert!(
            error
                .message()
                .contains("Link a is inside block_concurrency_while"),
            "{error}"
        );
    });
}

#[test]
fn a_cycle_of_calls_behind_a_closed_gate_is_refused_at_once() {
    run(async {
        let world = world();
        let call = link(&world, "a").walk_in_a_closed_gate(path(&["b", "c", "a"]));
        let error = call.await.unwrap_err();
        assert!(error.message().contains("3 calls in a circle"), "{error}");
        // The others are as they were.
        let walked = link(&world, "b").walk(path(&["c"])).await.unwrap();
        assert_eq!(walked, 1);
    });
}

#[test]
fn an_unawaited_self_call_runs_when_the_closed_gate_opens() {
    run(async {
        let world = world();
        assert_eq!(link(&world, "a").call_oneself_later().await.unwrap(), 0);
    });
}

#[test]
fn two_gates_waiting_for_each_other_are_reset_at_the_time_limit() {
    run(async {
        let world = world();
        world.disk.hold_syncs();
        let (there, back) = (
            link(&world, "a").walk_in_a_closed_gate(path(&["b"])),
            link(&world, "b").walk_in_a_closed_gate(path(&["a"])),
        );
        world.signals.wait("walking").await;
        world.signals.wait("walking").await;
        world.disk.release_syncs();
        world.fence().await;
        world.clock.advance(BLOCK_CONCURRENCY_LIMIT);
        for error in [there.await.unwrap_err(), back.await.unwrap_err()] {
            assert!(error.object_reset(), "{error:?}");
        }
        let walked = link(&world, "a").walk(path(&["b"])).await.unwrap();
        assert_eq!(walked, 1);
    });
}
