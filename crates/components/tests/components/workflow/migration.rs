//! Instances with tables of an older version. The fixtures were dumped from nodes that had been killed.

use std::{sync::Arc, time::Duration};

use abide::workflow::{Context, Failure, Status, StepState};
use abide::{Node, clock::TestClock, prelude::*, storage::SimDisk};

use crate::{
    workflow::support::{Programs, Script, Test, World, run},
    world::store,
};

/// Writes tables into the object of an instance.
#[durable_object]
struct Planter {
    state: State,
}

impl DurableObject for Planter {
    fn new(state: State, _env: Env) -> Result<Self> {
        Ok(Self { state })
    }
}

#[rpc]
impl Planter {
    pub async fn plant(&self, sql: String) -> Result<()> {
        self.state.storage().sql().exec(&sql, ()).map(drop)
    }
}

/// A node with instance `a` as a fixture has it, some seconds later.
async fn planted(fixture: &str) -> World {
    let (clock, disk) = (TestClock::new(), SimDisk::new());
    let node = Node::builder(store(&disk, &clock))
        .class::<Planter>("PLANTER", ClassOptions::with_unique_key("WorkflowInstance"))
        .clock(Arc::new(clock.clone()))
        .workers(1)
        .start()
        .unwrap();
    let planter = node.env().object::<Planter>().get_by_name("test/a");
    planter.plant(fixture.to_owned()).await.unwrap().unwrap();
    let disk = disk.after_kill();
    drop(node);
    clock.advance(Duration::from_secs(10));
    World::at(clock, disk, Script::default(), programs())
}

fn programs() -> Programs {
    Programs::default()
        .with("chains", async |ctx: Context, script: Script| {
            let chain = async |one: &'static str, two: &'static str| {
                script.step(&ctx, one).await?;
                script.step(&ctx, two).await
            };
            let (a, b) = tokio::join!(chain("a1", "a2"), chain("b1", "b2"));
            Ok(a? * 100 + b?)
        })
        .with("rich", async |ctx: Context, script: Script| {
            let mut sum = 0;
            for _ in 0..2 {
                sum = sum * 10 + script.step(&ctx, "poll").await?;
            }
            for _ in 0..2 {
                let hour = Duration::from_hours(1);
                let event: i64 = ctx.wait_for_event("number", hour).await?;
                sum = sum * 10 + event;
            }
            sum = sum * 10 + ctx.child::<Test>("child", "child".to_owned()).await?;
            let quick = tokio::select! {
                biased;
                slept = ctx.sleep("long", Duration::from_hours(100)) => { slept?; 9 }
                quick = script.step(&ctx, "quick") => quick?,
            };
            let (retried, last) =
                tokio::join!(script.step(&ctx, "retried"), script.step(&ctx, "poll"));
            Ok((sum * 10 + quick) * 100 + retried? * 10 + last?)
        })
        .with("child", async |ctx: Context, script: Script| {
            script.step(&ctx, "born").await
        })
        .with(
            "canceled",
            async |ctx: Context, script: Script| match script.step(&ctx, "send").await {
                Err(failure) if failure.is_canceled() => {
                    script.step(&ctx.shielded(), "refund").await?;
                    script.step(&ctx.shielded(), "tell").await?;
                    Err(failure)
                }
                sent => sent,
            },
        )
}

/// Has an instance look what there is to do: it has no alarm, as only its tables were planted.
async fn wake(world: &World) {
    world
        .workflows()
        .send_event("a", "look", &())
        .await
        .unwrap();
}

#[test]
fn an_instance_stopped_by_version_1_without_reason_continues() {
    run(async {
        let world = planted(include_str!("fixtures/v1_stuck.sql")).await;
        assert_eq!(world.record().await.status, Status::Stuck);
        world.workflows().resume("a").await.unwrap();
        // The steps that were done are not done again.
        world.until_status(Status::Completed).await;
        let mut names = world.script.names();
        names.sort();
        assert_eq!(names, ["a2", "b2"]);
    });
}

#[test]
fn an_instance_of_version_1_continues_with_its_results_keys_and_events() {
    run(async {
        let world = planted(include_str!("fixtures/v1_rich.sql")).await;
        wake(&world).await;
        let ended = world.ended().await.unwrap();
        assert_eq!(ended / 100, 1_2_4_2_3_4);
        let mut keys: Vec<_> = world
            .script
            .calls()
            .into_iter()
            .map(|call| (call.step, call.number, call.key))
            .collect();
        keys.sort();
        // A step of unknown outcome is tried again with the key that it had.
        assert_eq!(
            keys,
            [
                (
                    "poll".to_owned(),
                    2,
                    "wf_1e170c2d411c8ed40413462e698beacd".to_owned()
                ),
                (
                    "retried".to_owned(),
                    3,
                    "wf_f6ee37f3fb3f0a78a457bce7f0e10061".to_owned()
                ),
            ]
        );
        // The third was not taken, and the second is there again.
        world
            .workflows()
            .restart_from("a", ("number", 2))
            .await
            .unwrap();
        assert_eq!(world.ended().await.unwrap() / 10_000, 1_2_4_2);
    });
}

/// Before the program has said which event it waits for.
#[test]
fn events_of_version_1_are_given_back_under_their_name() {
    run(async {
        let world = planted(include_str!("fixtures/v1_rich.sql")).await;
        world
            .workflows()
            .restart_from("a", ("poll", 2))
            .await
            .unwrap();
        let ended = world.ended().await.unwrap();
        assert_eq!(ended / 10_000 % 100, 42);
    });
}

#[test]
fn an_instance_of_version_1_that_is_being_canceled_does_what_is_left() {
    run(async {
        let world = planted(include_str!("fixtures/v1_canceled.sql")).await;
        wake(&world).await;
        let failure: Failure = world.ended().await.unwrap_err();
        assert!(failure.is_canceled());
        assert_eq!(world.script.names(), ["tell"]);
        let call = world.script.calls().remove(0);
        assert_eq!(
            (call.number, call.key.as_str()),
            (2, "wf_a345cf0482d8e079fe000633bfb6bb39")
        );
        assert_eq!(world.history().await[0].state, StepState::Canceled);
    });
}
