//! Functions that a program gives to components.

use std::sync::Arc;

use abide::{
    outbox::{
        Deliver, Outbox, OutboxOptions,
        live::{self, Live},
    },
    patterns::presence::{self, Presence},
    prelude::*,
    projection::Feed,
    schedule::{self, Schedule},
};

use super::{Post, World, run};

/// Counts the functions that are in memory.
#[derive(Clone, Default)]
struct Functions(Arc<()>);

/// Gives its components functions that own clones of them all.
#[durable_object]
struct Circle {
    components: Owned,
}

type Owned = (Outbox, Live, Schedule, Feed, Presence);

impl DurableObject for Circle {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
        let components: Owned = (
            outbox.clone(),
            Live::open(&ctx, &outbox, live::Table)?,
            Schedule::open(&ctx, schedule::ScheduleOptions::default())?,
            Feed::open(&ctx)?,
            Presence::open(&ctx, presence::PresenceOptions::default())?,
        );
        let functions = env.require::<Functions>()?;
        let (outbox, _, schedule, _, presence) = &components;
        let own = || {
            let owned = (components.clone(), Functions::clone(&functions));
            move || {
                let _ = &owned;
                Ok::<(), Error>(())
            }
        };
        let (change, sent, failed, fires, came) = (own(), own(), own(), own(), own());
        outbox.on_change(move |_| change().unwrap());
        outbox.on_sent(Post::KIND, move |_, _| sent())?;
        outbox.on_failed(Post::KIND, move |_, _| failed())?;
        schedule.on_firing(move |_| fires())?;
        presence.on_change(move |_| came());
        Ok(Self { components })
    }
}

#[rpc]
impl Circle {
    pub fn failed(&self) -> Result<usize> {
        Ok(self.components.2.failed(None, 1)?.len())
    }
}

#[test]
fn functions_that_own_their_component_leave_memory_with_the_object() {
    run(async {
        let functions = Functions::default();
        let counted = functions.clone();
        let world = World::new(move |node| {
            node.class::<Circle>(ClassOptions::default())
                .with(counted.clone())
        });
        let circle = world.stub::<Circle>("ada");
        let in_memory = || Arc::strong_count(&functions.0) - 3;
        for _ in 0..3 {
            assert_eq!(circle.failed().await.unwrap(), 0);
            assert_eq!(in_memory(), 5);
            world.node.evict(circle.untyped()).await.unwrap();
            assert_eq!(in_memory(), 0);
        }
    });
}
