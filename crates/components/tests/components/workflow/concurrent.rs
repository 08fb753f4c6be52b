//! Concurrent results: they are delivered one by one, and a replay delivers them in the same order.

use std::{collections::BTreeSet, time::Duration};

use abide::workflow::{Context, Failure, Status, StepState};

use crate::workflow::support::{Programs, Script, World, policy, run};

const HOUR: Duration = Duration::from_hours(1);

async fn sleep_then(
    ctx: &Context,
    script: &Script,
    name: &str,
    hours: u32,
) -> Result<i64, Failure> {
    ctx.sleep(format!("sleep {name}"), HOUR * hours).await?;
    script.step(ctx, name).await
}

async fn event_then(ctx: &Context, script: &Script, name: &str) -> Result<i64, Failure> {
    let event: i64 = ctx.wait_for_event(name, HOUR * 100).await?;
    script.step(ctx, &format!("ship {name}")).await?;
    Ok(event)
}

fn branches() -> Programs {
    Programs::default()
        .with("chains", async |ctx: Context, script: Script| {
            let chain = async |one: &'static str, two: &'static str| {
                script.step(&ctx, one).await?;
                script.step(&ctx, two).await
            };
            let (a, b) = tokio::join!(chain("a1", "a2"), chain("b1", "b2"));
            Ok(a? + b?)
        })
        .with("together", async |ctx: Context, script: Script| {
            let (a, b) = tokio::join!(
                sleep_then(&ctx, &script, "a", 1),
                sleep_then(&ctx, &script, "b", 1)
            );
            Ok(a? + b?)
        })
        .with("overdue", async |ctx: Context, script: Script| {
            let (a, b) = tokio::join!(
                sleep_then(&ctx, &script, "a", 1),
                sleep_then(&ctx, &script, "b", 2)
            );
            Ok(a? + b?)
        })
        .with("events", async |ctx: Context, script: Script| {
            let (left, right) = tokio::join!(
                event_then(&ctx, &script, "left"),
                event_then(&ctx, &script, "right")
            );
            Ok(left? * 10 + right?)
        })
        .with("ticks or event", async |ctx: Context, script: Script| {
            for _ in 0..3 {
                tokio::select! {
                    biased;
                    tick = ctx.sleep("tick", HOUR) => tick?,
                    event = ctx.wait_for_event("event", HOUR * 48) => return event,
                }
                script.step(&ctx, "ticked").await?;
            }
            Ok(-1)
        })
        .with("event or ticks", async |ctx: Context, script: Script| {
            for _ in 0..3 {
                tokio::select! {
                    biased;
                    event = ctx.wait_for_event("event", HOUR * 48) => return event,
                    tick = ctx.sleep("tick", HOUR) => tick?,
                }
                script.step(&ctx, "ticked").await?;
            }
            Ok(-1)
        })
}

/// Lets time pass until the instance has ended with a result; fails at once if it is stuck.
async fn completes(world: &World, id: &str) {
    for _ in 0..200 {
        let record = world.workflows().status(id).await.unwrap();
        match record.status {
            Status::Completed => return,
            Status::Running => world.pass(Duration::from_secs(1)).await,
            status => panic!("`{id}` is {status}: {:?}", record.error),
        }
    }
    panic!("`{id}` does not end");
}

#[test]
fn two_chains_of_steps_side_by_side_complete() {
    run(async {
        let world = World::new(branches());
        world.start("chains").await;
        completes(&world, "a").await;
        for step in ["a1", "a2", "b1", "b2"] {
            assert_eq!(world.script.of(step).len(), 1, "{step}");
        }
    });
}

#[test]
fn two_sleeps_that_end_together_are_both_followed() {
    run(async {
        let world = World::new(branches());
        world.start("together").await;
        world.until_step(1, StepState::Waiting).await;
        world.pass(Duration::from_secs(5)).await;
        world.clock.advance(HOUR);
        completes(&world, "a").await;
        let names = BTreeSet::from_iter(world.script.names());
        assert_eq!(names, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    });
}

#[test]
fn sleeps_that_ended_while_the_node_was_down_are_both_followed() {
    run(async {
        let world = World::new(branches());
        world.start("overdue").await;
        world.until_step(1, StepState::Waiting).await;
        world.pass(Duration::from_secs(5)).await;
        world.clock.advance(HOUR * 3);
        let world = world.killed();
        completes(&world, "a").await;
        let names = BTreeSet::from_iter(world.script.names());
        assert_eq!(names, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    });
}

#[test]
fn two_events_during_a_pause_are_both_taken() {
    run(async {
        let world = World::new(branches());
        let workflows = world.workflows();
        world.start("events").await;
        world.until_step(1, StepState::Waiting).await;
        workflows.pause("a").await.unwrap();
        workflows.send_event("a", "left", &4).await.unwrap();
        workflows.send_event("a", "right", &2).await.unwrap();
        workflows.resume("a").await.unwrap();
        completes(&world, "a").await;
        assert_eq!(world.ended().await, Ok(42));
    });
}

/// A sleep has ended and an event has come before the instance continues: the sleep was first, and the event is kept.
#[test]
fn an_event_that_loses_to_a_sleep_is_there_for_the_next_wait() {
    run(async {
        for program in ["ticks or event", "event or ticks"] {
            let world = World::new(branches());
            let workflows = world.workflows();
            world.start(program).await;
            world.until_step(1, StepState::Waiting).await;
            workflows.pause("a").await.unwrap();
            world.clock.advance(HOUR * 2);
            workflows.send_event("a", "event", &7).await.unwrap();
            workflows.resume("a").await.unwrap();
            completes(&world, "a").await;
            assert_eq!(world.ended().await, Ok(7));
            assert_eq!(world.script.names(), ["ticked"], "{program}");

            let world = World::new(branches());
            world.start(program).await;
            world.until_step(1, StepState::Waiting).await;
            world.pass(Duration::from_secs(5)).await;
            world.clock.advance(HOUR * 2);
            let world = world.killed();
            let workflows = world.workflows();
            workflows.send_event("a", "event", &7).await.unwrap();
            completes(&world, "a").await;
            assert_eq!(world.ended().await, Ok(7), "{program}");
        }
    });
}

/// Both answers may have come when the run is polled next.
#[test]
fn answers_that_come_while_the_worker_is_busy_are_given_one_by_one() {
    run(async {
        let world = World::new(Programs::default().with(
            "busy",
            async |ctx: Context, script: Script| {
                let chain = async |one: &'static str, millis, two: &'static str| {
                    let answer = async |_| {
                        tokio::time::sleep(Duration::from_millis(millis)).await;
                        Ok(1_i64)
                    };
                    ctx.step(one, policy(), answer).await?;
                    script.step(&ctx, two).await
                };
                let (a, b) = tokio::join!(chain("a1", 20, "a2"), chain("b1", 23, "b2"));
                Ok(a? + b?)
            },
        ));
        let ids: Vec<String> = (0..40).map(|id| format!("id {id}")).collect();
        for id in &ids {
            world.workflows().start(id, &"busy".into()).await.unwrap();
        }
        for id in &ids {
            completes(&world, id).await;
        }
    });
}
