//! Events start in order; `block_concurrency_while` holds everything else.

use std::time::Duration;

use abide::{ErrorKind, prelude::*};

use crate::support::{Signals, World, is_answered, run, signals};

#[durable_object]
struct Gated {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Gated {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
        })
    }
}

#[rpc]
impl Gated {
    pub async fn note(&self, text: String) {
        self.signals.note(text);
    }

    pub async fn wait_and_note(&self, place: String) {
        self.signals.give("started");
        self.signals.wait(&place).await;
        self.signals.note(format!("after {place}"));
    }

    pub async fn block_until(&self, place: String) -> Result<String> {
        let signals = self.signals.clone();
        let blocked = self.ctx.block_concurrency_while(async move {
            signals.give("closed");
            signals.wait(&place).await;
            signals.note("the gate opens");
            Ok(place)
        });
        blocked.await
    }

    pub async fn block_twice_nested(&self) -> Result<()> {
        let (ctx, signals) = (self.ctx.clone(), self.signals.clone());
        let blocked = self.ctx.block_concurrency_while(async move {
            signals.note("outer begins");
            let inner = signals.clone();
            let value = ctx.block_concurrency_while(async move {
                tokio::task::yield_now().await;
                inner.note("inner");
                Ok(7)
            });
            assert_eq!(value.await?, 7);
            signals.note("outer ends");
            Ok(())
        });
        blocked.await
    }

    pub async fn block_and_fail(&self) -> Result<()> {
        let blocked = self.ctx.block_concurrency_while(async {
            tokio::task::yield_now().await;
            Err(Error::new("no configuration"))
        });
        blocked.await
    }
}

fn world() -> World {
    World::new(|node| node.class::<Gated>(ClassOptions::default()))
}

fn gated(world: &World) -> Stub<Gated> {
    world.env().object::<Gated>().get_by_name("gated")
}

#[test]
fn events_start_in_the_order_in_which_they_arrived() {
    run(async {
        let world = world();
        let gated = gated(&world);
        let calls: Vec<_> = (0..100)
            .map(|number| gated.note(number.to_string()))
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        let expected: Vec<_> = (0..100).map(|number: i32| number.to_string()).collect();
        assert_eq!(world.signals.notes(), expected);
    });
}

#[test]
fn a_waiting_handler_lets_other_events_in() {
    run(async {
        let world = world();
        let gated = gated(&world);
        let waiting = gated.wait_and_note("there".to_owned());
        world.signals.wait("started").await;
        gated.note("meanwhile".to_owned()).await.unwrap();
        world.signals.give("there");
        waiting.await.unwrap();
        assert_eq!(world.signals.notes(), ["meanwhile", "after there"]);
    });
}

#[test]
fn block_concurrency_while_holds_events_and_completions() {
    run(async {
        let world = world();
        let gated = gated(&world);
        let waiting = gated.wait_and_note("there".to_owned());
        world.signals.wait("started").await;
        let blocking = gated.block_until("open".to_owned());
        world.signals.wait("closed").await;

        // What a running handler waits for has come, and a new event arrives: neither may run.
        world.signals.give("there");
        let event = gated.note("an event".to_owned());
        world.fence().await;
        assert!(
            world.signals.notes().is_empty(),
            "{:?}",
            world.signals.notes()
        );

        world.signals.give("open");
        assert_eq!(blocking.await.unwrap(), "open");
        waiting.await.unwrap();
        event.await.unwrap();
        assert_eq!(
            world.signals.notes(),
            ["the gate opens", "after there", "an event"]
        );
    });
}

#[test]
fn events_that_waited_at_the_gate_start_in_order_when_it_opens() {
    run(async {
        let world = world();
        let gated = gated(&world);
        let blocking = gated.block_until("open".to_owned());
        world.signals.wait("closed").await;
        let calls: Vec<_> = (0..50)
            .map(|number| gated.note(number.to_string()))
            .collect();
        world.fence().await;
        world.signals.give("open");
        for call in calls {
            call.await.unwrap();
        }
        blocking.await.unwrap();
        let notes = world.signals.notes();
        assert_eq!(notes[0], "the gate opens");
        assert!(
            notes[1..]
                .iter()
                .enumerate()
                .all(|(index, note)| *note == index.to_string()),
            "{notes:?}"
        );
    });
}

#[test]
fn block_concurrency_while_nests() {
    run(async {
        let world = world();
        gated(&world).block_twice_nested().await.unwrap();
        assert_eq!(
            world.signals.notes(),
            ["outer begins", "inner", "outer ends"]
        );
    });
}

#[test]
fn a_gate_that_is_closed_for_30_seconds_resets_the_object() {
    run(async {
        let world = world();
        let gated = gated(&world);
        let mut blocking = gated.block_until("never".to_owned());
        world.signals.wait("closed").await;
        let mut waiting = gated.note("waited".to_owned());
        world.clock.advance(Duration::from_secs(29));
        world.fence().await;
        assert!(!is_answered(&mut blocking) && !is_answered(&mut waiting));

        world.clock.advance(Duration::from_secs(1));
        let error = blocking.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(
            error
                .message()
                .contains("`block_concurrency_while` did not end within 30 s"),
            "{error}"
        );
        assert!(error.object_reset() && !error.retryable());
        let error = waiting.await.unwrap_err();
        assert!(
            error.object_reset() && error.retryable(),
            "it never ran: {error:?}"
        );
        assert!(world.signals.notes().is_empty());

        gated.note("a new incarnation".to_owned()).await.unwrap();
        assert_eq!(world.signals.notes(), ["a new incarnation"]);
    });
}

#[test]
fn an_error_while_concurrency_is_blocked_resets_the_object() {
    run(async {
        let world = world();
        let error = gated(&world).block_and_fail().await.unwrap_err();
        assert_eq!(error.message(), "no configuration");
        assert!(error.object_reset());
        assert_eq!(world.node.stats().resets, 1);
    });
}
