//! Functions that a program gives to components.

use std::sync::Arc;

use abide::{
    Node,
    outbox::{
        Deliver, Outbox, OutboxOptions, Registry,
        live::{self, Live},
    },
    patterns::presence::{self, Presence},
    prelude::*,
    projection::Feed,
    schedule::{self, Schedule},
};

use super::{Post, World, run, world::store};

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
        let world = World::new();
        let functions = Functions::default();
        let node = Node::builder(store(&world.disk, &world.clock))
            .class::<Circle>(ClassOptions::default())
            .with(Registry::new().with(world.post.clone()))
            .with(world.projection.clone())
            .with(functions.clone())
            .clock(Arc::new(world.clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        let circle = node.env().object::<Circle>().get_by_name("ada");
        let in_memory = || Arc::strong_count(&functions.0) - 2;
        for _ in 0..3 {
            assert_eq!(circle.failed().await.unwrap(), 0);
            assert_eq!(in_memory(), 5);
            node.evict(circle.untyped()).await.unwrap();
            assert_eq!(in_memory(), 0);
        }
    });
}
