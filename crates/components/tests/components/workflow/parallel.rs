//! Several steps at a time, and races.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::limits::workflow as limits;
use abide::workflow::{Status, StepState};

use crate::workflow::support::{Act, Programs, World, policy, run};

#[test]
fn steps_that_are_joined_run_at_a_time_and_each_is_stored_alone() {
    run(async {
        let world = World::new(Programs::default().with("join", async |ctx, script| {
            let (a, b) = tokio::join!(script.step(&ctx, "a"), script.step(&ctx, "b"));
            Ok(a? + b? + script.step(&ctx, "c").await?)
        }));
        world.start_in("join", "a", Act::Hang).await;
        world.until_step(1, StepState::Done).await;
        let world = world.killed();
        world.ended().await.unwrap();
        assert_eq!(world.script.of("a").len(), 2);
        assert_eq!(world.script.of("b").len(), 1);
        assert_eq!(world.script.of("c").len(), 1);
    });
}

#[test]
fn concurrent_steps_are_limited() {
    run(async {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&most);
        let program = move |ctx: abide::workflow::Context, _| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            async move {
                let steps = (0..200).map(|i| {
                    let (ctx, now, most) = (&ctx, &now, &most);
                    ctx.step(format!("step {i}"), policy(), async move |_| {
                        let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(running, Ordering::SeqCst);
                        for _ in 0..10 {
                            tokio::task::yield_now().await;
                        }
                        now.fetch_sub(1, Ordering::SeqCst);
                        Ok(i)
                    })
                });
                let results: Result<Vec<i64>, _> = ctx.parallel(steps).await.into_iter().collect();
                Ok(results?.into_iter().sum())
            }
        };
        let world = World::new(Programs::default().with("many", program));
        world.start("many").await;
        assert_eq!(world.ended().await, Ok(199 * 100));
        assert_eq!(seen.load(Ordering::SeqCst), limits::MAX_PARALLEL);
    });
}

#[test]
fn a_race_that_was_decided_is_decided_again_in_the_same_way() {
    run(async {
        // The slow one is asked for first, so a replay that gave all results at once would take it.
        let world = World::new(Programs::default().with("race", async |ctx, script| {
            let slow = script.step(&ctx, "slow");
            let quick = script.step(&ctx, "quick");
            tokio::pin!(slow, quick);
            let first = tokio::select! {
                biased;
                _ = &mut slow => 1,
                _ = &mut quick => 2,
            };
            let other = if first == 1 {
                quick.await?
            } else {
                slow.await?
            };
            script.step(&ctx, "last").await?;
            assert!(other > 0);
            Ok(first)
        }));
        world.script.say("slow", [Act::Hold]);
        world.script.say("last", [Act::Hang]);
        world.start("race").await;
        world.until_called("quick", 1).await;
        world
            .until(Some(1), async || {
                world.history().await.get(1).and_then(|step| step.seq)
            })
            .await;
        world.script.release();
        world.until_called("last", 1).await;
        let world = world.killed();
        assert_eq!(world.ended().await, Ok(2));
        assert_eq!(world.script.of("slow").len(), 1);
    });
}

#[test]
fn a_step_that_lost_its_race_is_not_tried_again() {
    run(async {
        let world = World::new(Programs::default().with("timeout", async |ctx, script| {
            let result = tokio::select! {
                biased;
                result = script.step(&ctx, "slow") => result?,
                late = ctx.sleep("patience", Duration::from_secs(5)) => {
                    late?;
                    0
                }
            };
            script.step(&ctx, "after").await?;
            Ok(result)
        }));
        world.script.say("slow", [Act::Hang, Act::Hang]);
        world.script.say("after", [Act::Hang]);
        world.start("timeout").await;
        world.until_called("slow", 1).await;
        world.pass(Duration::from_secs(6)).await;
        world.until_called("after", 1).await;
        let world = world.killed();
        assert_eq!(world.ended().await, Ok(0));
        assert_eq!(world.script.of("slow").len(), 1);
        assert_eq!(world.record().await.status, Status::Completed);
        let states: Vec<StepState> = world
            .history()
            .await
            .iter()
            .map(|step| step.state)
            .collect();
        assert_eq!(
            states,
            [StepState::Canceled, StepState::Done, StepState::Done]
        );
    });
}

#[test]
fn futures_that_are_polled_only_when_they_are_woken_are_woken() {
    run(async {
        use futures_util::{StreamExt, stream::FuturesUnordered};
        let world = World::new(Programs::default().with("unordered", async |ctx, script| {
            let names: Vec<String> = (0..40).map(|i| format!("step {i}")).collect();
            let mut steps: FuturesUnordered<_> =
                names.iter().map(|name| script.step(&ctx, name)).collect();
            let mut seen = BTreeSet::new();
            while let Some(step) = steps.next().await {
                seen.insert(step?);
            }
            drop(steps);
            script.step(&ctx, "last").await?;
            Ok(seen.len().cast_signed() as i64)
        }));
        world.start_in("unordered", "last", Act::Hang).await;
        let world = world.killed();
        assert_eq!(world.ended().await, Ok(40));
        assert_eq!(world.script.calls().len(), 42);
    });
}
