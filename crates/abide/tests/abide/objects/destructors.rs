//! Destructors are object code, whenever they run.

use abide::prelude::*;

use crate::support::{Signals, World, is_answered, run, signals};

/// Calls another object when it is dropped, and panics.
struct Guard {
    env: Env,
    storage: Storage,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let signals = signals(&self.env);
        if self.storage.put("key", &1).is_ok() {
            signals.note("a write was taken");
        }
        let mut call = self.env.object::<Fragile>().get_by_name("other").told();
        if !is_answered(&mut call) {
            signals.note("a call was taken");
        }
        signals.give("dropped");
        panic!("a guard panics");
    }
}

#[durable_object]
struct Fragile {
    ctx: Ctx,
    signals: Signals,
    guard: std::cell::RefCell<Option<Guard>>,
}

impl DurableObject for Fragile {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
            guard: std::cell::RefCell::default(),
        })
    }
}

#[rpc]
impl Fragile {
    pub async fn keep_guard(&self) {
        *self.guard.borrow_mut() = Some(self.guard());
    }

    pub async fn wait_with_guard(&self) {
        let _guard = self.guard();
        self.signals.give("waiting");
        std::future::pending::<()>().await;
    }

    pub async fn wait_with_guard_in_background(&self) -> Result<()> {
        let guard = self.guard();
        self.ctx.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        })
    }

    pub async fn abort_and_wait_with_guard(&self) {
        let _guard = self.guard();
        self.ctx.abort("on purpose");
        std::future::pending::<()>().await;
    }

    pub async fn abort(&self) {
        self.ctx.abort("on purpose");
    }

    pub async fn told(&self) {
        self.signals.note("told");
    }

    pub async fn quick(&self) {}

    fn guard(&self) -> Guard {
        Guard {
            env: self.ctx.env().clone(),
            storage: self.ctx.storage().clone(),
        }
    }
}

#[test]
fn a_destructor_that_calls_and_panics_in_a_reset_affects_no_other() {
    run(async {
        let world = World::new(|node| node.class::<Fragile>(ClassOptions::default()));
        let fragile = world.env().object::<Fragile>().get_by_name("a");

        let error = fragile.abort_and_wait_with_guard().await.unwrap_err();
        assert_eq!(error.message(), "on purpose");
        world.signals.wait("dropped").await;

        fragile.keep_guard().await.unwrap();
        let error = fragile.abort().await.unwrap_err();
        assert_eq!(error.message(), "on purpose");
        world.signals.wait("dropped").await;

        fragile.wait_with_guard_in_background().await.unwrap();
        let waiting = fragile.wait_with_guard();
        world.signals.wait("waiting").await;
        let aborting = fragile.abort();
        for error in [aborting.await.unwrap_err(), waiting.await.unwrap_err()] {
            assert_eq!(error.message(), "on purpose");
            assert!(error.object_reset(), "{error:?}");
        }
        for _ in 0..2 {
            world.signals.wait("dropped").await;
        }

        fragile.quick().await.unwrap();
        world.fence().await;
        assert_eq!(world.signals.notes(), [""; 0]);
        assert_eq!(world.node.stats().panics, 4);
        assert!(!world.node.failed());
    });
}
