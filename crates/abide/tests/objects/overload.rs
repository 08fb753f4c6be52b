//! Every queue has an end, and callers are told when they reach it.

use abide::{ErrorKind, prelude::*};

use crate::support::{Signals, World, is_answered, run, signals};

#[durable_object]
struct Slow {
    state: State,
    signals: Signals,
}

impl DurableObject for Slow {
    fn new(state: State, env: Env) -> Result<Self> {
        Ok(Self {
            state,
            signals: signals(&env),
        })
    }
}

#[rpc]
impl Slow {
    pub async fn block(&self) -> Result<()> {
        let signals = self.signals.clone();
        let blocked = self.state.block_concurrency_while(async move {
            signals.give("closed");
            signals.wait("open").await;
            Ok(())
        });
        blocked.await
    }

    pub async fn wait(&self) {
        self.signals.note("waiting");
        self.signals.wait("go").await;
    }

    pub async fn quick(&self) {}
}

#[test]
fn an_object_with_a_full_queue_is_overloaded_in_the_documented_words() {
    run(async {
        let options = ClassOptions {
            max_queued: 2,
            ..ClassOptions::default()
        };
        let world = World::new(|node| node.class::<Slow>("SLOW", options));
        let slow = world.env().object::<Slow>().get_by_name("slow");
        let blocking = slow.block();
        world.signals.wait("closed").await;
        let queued = [slow.quick(), slow.quick()];
        let error = slow.quick().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "Durable Object is overloaded. Too many requests queued."
        );
        assert!(
            error.kind() == ErrorKind::Overloaded && error.overloaded() && error.retryable(),
            "{error:?}"
        );
        assert!(!error.object_reset() && !error.remote());

        world.signals.give("open");
        blocking.await.unwrap().unwrap();
        for call in queued {
            call.await.unwrap();
        }
        slow.quick().await.unwrap();
        assert_eq!(world.node.stats().overloaded, 1);
    });
}

#[test]
fn an_object_with_too_many_suspended_handlers_lets_further_events_wait() {
    run(async {
        let options = ClassOptions {
            max_running: 2,
            ..ClassOptions::default()
        };
        let world = World::new(|node| node.class::<Slow>("SLOW", options));
        let slow = world.env().object::<Slow>().get_by_name("slow");
        let running = [slow.wait(), slow.wait()];
        let mut third = slow.wait();
        world.fence().await;
        assert_eq!(world.signals.notes().len(), 2);
        world.signals.give("go");
        world.signals.give("go");
        for call in running {
            call.await.unwrap();
        }
        world.fence().await;
        assert_eq!(world.signals.notes().len(), 3);
        assert!(!is_answered(&mut third));
        world.signals.give("go");
        third.await.unwrap();
    });
}
