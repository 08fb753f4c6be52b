//! A caller that goes away cancels nothing that has not asked for it; one that has set a time limit stops waiting.

use std::time::Duration;

use abide::{ErrorKind, prelude::*};

use crate::support::{Signals, World, is_answered, run, signals};

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
        self.signals.note("work");
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

    /// Waits no longer than this for another object's work.
    pub async fn delegate_for(&self, limit: Duration) -> Result<()> {
        let others = self.ctx.env().object::<Self>();
        others.get_by_name("other").with_timeout(limit).work().await
    }

    pub async fn write_and_delegate_for(&self, limit: Duration) -> Result<()> {
        self.ctx.storage().put("asked", &true)?;
        self.delegate_for(limit).await
    }

    /// Works until its caller is gone. Says whether it has been.
    pub async fn work_while_called(&self) -> Result<bool> {
        self.ctx.storage().put("begun", &true)?;
        self.signals.give("begun");
        let ended = tokio::select! {
            () = self.signals.wait("go") => false,
            () = self.ctx.caller_gone() => true,
        };
        self.ctx.storage().put("ended", &true)?;
        self.signals.note(if ended { "gone" } else { "done" });
        self.signals.give("ended");
        Ok(ended)
    }

    pub async fn delegate_while_called(&self, other: String) -> Result<bool> {
        let other = self.ctx.env().object::<Self>().get_by_name(&other);
        other.work_while_called().await
    }

    /// Two parts that wait for the caller, each with its own waker.
    pub async fn watch_twice(&self) -> Result<()> {
        self.signals.give("begun");
        let mut parts = futures_util::stream::FuturesUnordered::new();
        parts.push(self.ctx.caller_gone());
        parts.push(self.ctx.caller_gone());
        while futures_util::StreamExt::next(&mut parts).await.is_some() {}
        self.signals.give("ended");
        Ok(())
    }

    pub async fn give_up(&self) {
        self.ctx.abort("the caller is gone");
    }
}

fn world() -> World {
    World::new(|node| node.class::<Worker>(ClassOptions::default()))
}

fn worker(world: &World, name: &str) -> Stub<Worker> {
    world.env().object::<Worker>().get_by_name(name)
}

/// Waits until work has ended, or fails.
async fn ends(world: &World) {
    let ended = tokio::time::timeout(Duration::from_secs(20), world.signals.wait("ended"));
    ended.await.expect("the work ends");
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

#[test]
fn a_handler_that_asks_learns_that_its_caller_is_gone() {
    run(async {
        let world = world();
        let dropped = worker(&world, "worker").work_while_called();
        world.signals.wait("begun").await;
        world.fence().await;
        assert_eq!(world.signals.notes(), [""; 0]);
        drop(dropped);
        ends(&world).await;
        let written = worker(&world, "worker").written().await.unwrap();
        assert_eq!(written, (true, true), "what it wrote remains");

        let late = worker(&world, "late")
            .with_timeout(LIMIT)
            .work_while_called();
        world.signals.wait("begun").await;
        world.clock.advance(LIMIT);
        assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Timeout);
        ends(&world).await;

        let delegated = worker(&world, "boss").delegate_while_called("helper".into());
        world.signals.wait("begun").await;
        assert!(worker(&world, "boss").give_up().await.is_err());
        assert!(delegated.await.unwrap_err().object_reset());
        ends(&world).await;
        assert_eq!(world.signals.notes(), ["gone"; 3]);

        drop(worker(&world, "twice").watch_twice());
        world.signals.wait("begun").await;
        ends(&world).await;
    });
}

#[test]
fn a_handler_that_asks_runs_to_its_end_while_its_caller_waits() {
    run(async {
        let world = world();
        let call = worker(&world, "worker").work_while_called();
        world.signals.wait("begun").await;
        world.signals.give("go");
        assert!(!call.await.unwrap());
    });
}

#[test]
fn a_call_with_a_key_is_not_given_up() {
    run(async {
        let world = world();
        let keyed = || worker(&world, "worker").with_idempotency_key("once");
        let call = keyed().work_while_called();
        world.signals.wait("begun").await;
        drop(call);
        world.fence().await;
        world.signals.give("go");
        world.signals.wait("ended").await;
        assert!(!keyed().work_while_called().await.unwrap());
        assert_eq!(world.signals.notes(), ["done"]);
    });
}

const LIMIT: Duration = Duration::from_secs(5);

#[test]
fn a_call_that_was_begun_continues_after_its_time_limit() {
    run(async {
        let world = world();
        let call = worker(&world, "worker").with_timeout(LIMIT).work();
        world.signals.wait("begun").await;
        world.clock.advance(LIMIT);
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(!error.retryable() && !error.object_reset());
        finishes(&world).await;
    });
}

#[test]
fn a_call_that_was_not_begun_within_its_time_limit_never_runs() {
    run(async {
        let options = ClassOptions::default().max_running(1);
        let world = World::new(|node| node.class::<Worker>(options));
        let worker = worker(&world, "worker");
        let first = worker.work();
        world.signals.wait("begun").await;
        let late = worker.with_timeout(LIMIT).work();
        let in_time = worker.with_timeout(2 * LIMIT).work();
        let patient = worker.work();
        world.clock.advance(LIMIT);
        let error = late.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(
            !error.retryable(),
            "it may have run, for all the caller knows"
        );
        // One more than are waited for: a late call that runs is counted below.
        for _ in 0..4 {
            world.signals.give("go");
        }
        first.await.unwrap();
        in_time.await.unwrap();
        patient.await.unwrap();
        assert_eq!(world.signals.notes().len(), 3);
        assert_eq!(world.node.stats().resets, 0);
    });
}

#[test]
fn a_request_and_a_call_of_an_object_have_time_limits() {
    run(async {
        let world = world();
        let request = Request::new(Body::empty());
        let limited = worker(&world, "worker").with_timeout(LIMIT);
        let mut fetch = limited.fetch(request);
        let mut delegated = worker(&world, "boss").delegate_for(LIMIT);
        world.signals.wait("begun").await;
        world.signals.wait("begun").await;
        world.clock.advance(Duration::from_millis(4_999));
        world.fence().await;
        assert!(!is_answered(&mut fetch) && !is_answered(&mut delegated));
        world.clock.advance(Duration::from_millis(1));
        for error in [fetch.await.unwrap_err(), delegated.await.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Timeout);
        }
    });
}

#[test]
fn an_object_whose_only_call_was_too_late_leaves_memory() {
    run(async {
        let world = world();
        let call = worker(&world, "cold").with_timeout(Duration::ZERO).work();
        assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Timeout);
        world.fence().await;
        assert_eq!(world.signals.notes().len(), 0);
        assert_eq!(world.node.stats().evicted, 1);
    });
}

#[test]
fn calls_that_are_too_late_give_their_places_in_the_queue_to_others() {
    run(async {
        let options = ClassOptions::default().max_running(1).max_queued(2);
        let world = World::new(|node| node.class::<Worker>(options));
        let worker = worker(&world, "worker");
        let first = worker.work();
        world.signals.wait("begun").await;
        let (late, patient) = (worker.with_timeout(LIMIT).work(), worker.work());
        world.fence().await;
        let refused = worker.work().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Overloaded);
        world.clock.advance(LIMIT);
        assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Timeout);
        let in_its_place = worker.work();
        world.fence().await;
        for _ in 0..3 {
            world.signals.give("go");
        }
        first.await.unwrap();
        patient.await.unwrap();
        in_its_place.await.unwrap();
        assert_eq!(world.signals.notes().len(), 3);
    });
}

#[test]
fn a_call_that_leaves_its_object_too_late_never_runs() {
    run(async {
        let world = world();
        world.disk.hold_syncs();
        // The caller writes first, so its call waits for the disk.
        let delegated = worker(&world, "boss").write_and_delegate_for(LIMIT);
        world.fence().await;
        world.clock.advance(LIMIT);
        world.fence().await;
        world.disk.release_syncs();
        assert_eq!(delegated.await.unwrap_err().kind(), ErrorKind::Timeout);
        world.fence().await;
        assert_eq!(world.signals.notes().len(), 0);
    });
}
