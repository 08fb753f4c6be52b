//! Workflows that start others.

use std::time::Duration;

use abide::workflow::{Context, Failure, Status, WorkflowError};

use crate::workflow::support::{Act, Programs, Script, Test, World, run};

fn family() -> Programs {
    Programs::default()
        .with("parent", async |ctx: Context, script: Script| {
            let (one, two) = tokio::join!(
                ctx.child::<Test>("one", "child".to_owned()),
                ctx.child::<Test>("two", "child".to_owned()),
            );
            script.step(&ctx, "sum").await?;
            Ok(one? + two?)
        })
        .with("child", async |ctx: Context, script: Script| {
            script.step(&ctx, "work").await?;
            ctx.sleep("rest", Duration::from_mins(10)).await?;
            Ok(10)
        })
        .with("hasty", async |ctx: Context, script: Script| {
            tokio::select! {
                biased;
                _ = ctx.child::<Test>("one", "child".to_owned()) => {}
                step = script.step(&ctx, "quick") => drop(step?),
            }
            Ok(1)
        })
}

#[test]
fn a_parent_waits_for_its_children_and_survives_a_kill_meanwhile() {
    run(async {
        let world = World::new(family());
        world.start("parent").await;
        world.until_called("work", 2).await;
        let world = world.killed();
        assert_eq!(world.ended().await, Ok(20));
        assert_eq!(world.script.of("sum").len(), 1);
        let child = world.workflows().status("a/one").await.unwrap();
        assert_eq!(child.status, Status::Completed);
        assert_eq!(child.parent.as_deref(), Some("a"));
    });
}

#[test]
fn a_child_s_failure_is_its_parent_s_to_answer() {
    run(async {
        let world = World::new(family());
        world
            .script
            .say("work", [Act::Fail(Failure::permanent("no"))]);
        world.start("parent").await;
        assert_eq!(world.ended().await, Err(Failure::permanent("no")));
        assert_eq!(world.script.of("sum").len(), 1);
    });
}

#[test]
fn a_child_that_cannot_be_started_is_a_failure() {
    run(async {
        let world = World::new(family());
        world
            .workflows()
            .start("a/one", &"parent".into())
            .await
            .unwrap();
        world.start("parent").await;
        let failure = world.ended().await.unwrap_err();
        assert!(
            failure
                .message()
                .contains("`a/one` was started with another input"),
            "{failure}"
        );
    });
}

#[test]
fn a_child_that_is_no_longer_awaited_is_canceled() {
    run(async {
        let world = World::new(family());
        world.script.say("quick", [Act::Hold]);
        world.start("hasty").await;
        world.until_called("work", 1).await;
        world.until_called("quick", 1).await;
        world.script.release();
        assert_eq!(world.ended().await, Ok(1));
        world.until_status_of("a/one", Status::Canceled).await;
        let child = world.workflows().status("a/one").await.unwrap();
        assert_eq!(child.error.as_deref(), Some("its parent `a` has finished"));
    });
}

#[test]
fn who_is_canceled_cancels_its_children() {
    run(async {
        let world = World::new(family());
        world.start("parent").await;
        world.until_called("work", 2).await;
        world
            .workflows()
            .cancel("a", "changed my mind")
            .await
            .unwrap();
        // The sum is not asked for any more.
        for id in ["a", "a/one", "a/two"] {
            world.until_status_of(id, Status::Canceled).await;
        }
        assert_eq!(world.script.of("sum").len(), 0);
    });
}

#[test]
fn a_child_that_is_asked_for_again_after_a_restart_is_a_new_one() {
    run(async {
        let world = World::new(family());
        world.start("parent").await;
        assert_eq!(world.ended().await, Ok(20));
        world.workflows().restart_from("a", "two").await.unwrap();
        assert_eq!(world.ended().await, Ok(20));
        assert_eq!(world.script.of("work").len(), 3);
        let again = world.workflows().status("a/two~2").await.unwrap();
        assert_eq!(again.status, Status::Completed);
        let first = world.workflows().status("a/one~2").await;
        assert!(matches!(first, Err(WorkflowError::NotFound { .. })));
    });
}

#[test]
fn an_instance_started_by_another_caller_is_not_a_child() {
    run(async {
        let world = World::new(family());
        let workflows = world.workflows();
        workflows.start("a/one", &"child".into()).await.unwrap();
        assert_eq!(world.ended_of("a/one").await, Ok(10));
        world.start("parent").await;
        let failure = world.ended().await.unwrap_err();
        assert!(failure.message().contains("by another caller"), "{failure}");
    });
}

#[test]
fn no_two_children_have_one_id_whatever_their_names() {
    run(async {
        let names = Programs::default()
            .with("parent", async |ctx: Context, _: Script| {
                let mut sum = 0;
                for name in ["x", "x#2", "x", "x~2", "x/y", "x%2Fy"] {
                    sum += ctx.child::<Test>(name, "child".to_owned()).await?;
                }
                Ok(sum)
            })
            .with("child", async |_: Context, _: Script| Ok(1));
        let world = World::new(names);
        world.start("parent").await;
        assert_eq!(world.ended().await, Ok(6));
        world.workflows().restart_from("a", "x").await.unwrap();
        assert_eq!(world.ended().await, Ok(6));
        let again = world.workflows().status("a/x%2Fy~2").await.unwrap();
        assert_eq!(again.status, Status::Completed);
    });
}
