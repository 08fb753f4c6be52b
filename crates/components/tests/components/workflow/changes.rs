//! Programs that change while instances run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::workflow::{Context, Status};

use crate::workflow::support::{Act, Programs, Script, World, run};

fn before() -> Programs {
    Programs::default().with("p", async |ctx: Context, script: Script| {
        let a = script.step(&ctx, "a").await?;
        ctx.sleep("pause", Duration::from_mins(1)).await?;
        let b = script.step(&ctx, "b").await?;
        let c = script.step(&ctx, "c").await?;
        Ok(a * 10_000 + b * 100 + c)
    })
}

/// Runs the first program to its last step, and then another one; gives what it says when it is stuck.
async fn changed_to(after: Programs) -> (World, String) {
    let world = World::new(before());
    world.script.say("c", [Act::Hang]);
    world.start("p").await;
    world.until_called("a", 1).await;
    world.pass(Duration::from_secs(70)).await;
    world.until_called("c", 1).await;
    let world = world.killed_with(after);
    world.pass(Duration::from_secs(5)).await;
    world.until_status(Status::Stuck).await;
    // Nothing that is new was done.
    assert_eq!(world.script.names(), ["a", "b", "c"]);
    let error = world.record().await.error.unwrap();
    (world, error)
}

fn says_what_to_do(error: &str) {
    assert!(error.contains("give a changed one a new name"), "{error}");
    assert!(
        error.contains("restart this instance from a step"),
        "{error}"
    );
}

#[test]
fn a_step_that_is_new_in_the_past_is_found_and_nothing_is_done() {
    run(async {
        let after = Programs::default().with("p", async |ctx: Context, script: Script| {
            script.step(&ctx, "a").await?;
            script.step(&ctx, "new").await
        });
        let (world, error) = changed_to(after).await;
        assert!(
            error.contains("after 1 results, step `new` was requested"),
            "{error}"
        );
        says_what_to_do(&error);
        // The old program comes back.
        let world = world.killed_with(before());
        world.workflows().resume("a").await.unwrap();
        assert_eq!(world.ended().await, Ok(1_02_04));
    });
}

#[test]
fn a_step_that_is_not_asked_for_any_more_is_found() {
    run(async {
        let after = Programs::default().with("p", async |ctx: Context, script: Script| {
            let a = script.step(&ctx, "a").await?;
            ctx.sleep("pause", Duration::from_mins(1)).await?;
            let c = script.step(&ctx, "c").await?;
            Ok(a + c)
        });
        let (_, error) = changed_to(after).await;
        assert!(
            error.contains("step `c` was requested after 3 results, and is now requested after 2"),
            "{error}"
        );
        says_what_to_do(&error);
        let after = Programs::default().with("p", async |ctx: Context, script: Script| {
            script.step(&ctx, "a").await
        });
        let (_, error) = changed_to(after).await;
        assert!(
            error.contains("`pause` was requested after 1 results, and no longer is"),
            "{error}"
        );
        says_what_to_do(&error);
    });
}

#[test]
fn steps_that_have_changed_places_are_found() {
    run(async {
        let after = Programs::default().with("p", async |ctx: Context, script: Script| {
            script.step(&ctx, "b").await?;
            ctx.sleep("pause", Duration::from_mins(1)).await?;
            script.step(&ctx, "a").await
        });
        let (_, error) = changed_to(after).await;
        assert!(
            error.contains("step `b` was requested after 2 results, and is now requested after 0"),
            "{error}"
        );
        says_what_to_do(&error);
    });
}

#[test]
fn a_name_that_is_another_kind_of_thing_is_found() {
    run(async {
        let after = Programs::default().with("p", async |ctx: Context, script: Script| {
            script.step(&ctx, "a").await?;
            ctx.wait_for_event::<i64>("pause", Duration::from_mins(1))
                .await
        });
        let (_, error) = changed_to(after).await;
        assert!(
            error.contains("`pause` was of kind sleep and is now of kind event"),
            "{error}"
        );
        says_what_to_do(&error);
    });
}

#[test]
fn a_result_of_another_type_is_found() {
    run(async {
        let after = Programs::default().with("p", async |ctx: Context, _: Script| {
            let policy = crate::workflow::support::policy();
            let text: String = ctx.step("a", policy, async |_| Ok(String::new())).await?;
            Ok(text.len().cast_signed() as i64)
        });
        let (_, error) = changed_to(after).await;
        assert!(
            error.contains("the stored result of `a` no longer matches its type"),
            "{error}"
        );
        says_what_to_do(&error);
    });
}

#[test]
fn a_changed_program_continues_from_a_step_before_the_change() {
    run(async {
        let after = || {
            Programs::default().with("p", async |ctx: Context, script: Script| {
                let a = script.step(&ctx, "a").await?;
                let new = script.step(&ctx, "new").await?;
                Ok(a * 100 + new)
            })
        };
        let (world, _) = changed_to(after()).await;
        world.workflows().restart_from("a", "a").await.unwrap();
        assert_eq!(world.ended().await, Ok(4_05));
    });
}

#[test]
fn a_change_behind_the_last_result_is_none() {
    run(async {
        let world = World::new(before());
        world.script.say("b", [Act::Hang]);
        world.start("p").await;
        world.until_called("a", 1).await;
        world.pass(Duration::from_secs(70)).await;
        world.until_called("b", 1).await;
        let world = world.killed_with(Programs::default().with(
            "p",
            async |ctx: Context, script: Script| {
                script.step(&ctx, "a").await?;
                ctx.sleep("pause", Duration::from_mins(1)).await?;
                script.step(&ctx, "b").await?;
                script.step(&ctx, "instead of c").await
            },
        ));
        assert_eq!(world.ended().await, Ok(4));
    });
}

#[test]
fn a_program_that_panics_is_stuck_until_it_is_mended() {
    run(async {
        let panics = Programs::default().with("p", async |ctx: Context, script: Script| {
            script.step(&ctx, "a").await?;
            panic!("a mistake")
        });
        let world = World::new(panics);
        world.start("p").await;
        world.until_status(Status::Stuck).await;
        let error = world.record().await.error.unwrap();
        assert!(
            error.starts_with("the workflow panicked; the log has its message, as panic "),
            "{error}"
        );
        assert!(error.ends_with(": fix the program, and resume this instance"));
        assert!(!error.contains("a mistake"), "{error}");
        // It checks again later, without a call.
        let world = world.killed_with(before());
        world.pass(Duration::from_secs(3)).await;
        world.clock.advance(Duration::from_hours(1));
        world.ended().await.unwrap();
        assert_eq!(world.script.of("a").len(), 1);
    });
}

#[test]
fn an_instance_that_is_stuck_can_be_canceled() {
    run(async {
        let panics =
            Programs::default().with("p", async |_: Context, _: Script| panic!("a mistake"));
        let world = World::new(panics);
        world.start("p").await;
        world.until_status(Status::Stuck).await;
        world.workflows().cancel("a", "hopeless").await.unwrap();
        assert_eq!(world.record().await.status, Status::Canceled);
        assert!(world.ended().await.unwrap_err().is_canceled());
    });
}

#[test]
fn a_function_that_does_something_else_each_time_is_found_by_a_rehearsal() {
    run(async {
        let runs = Arc::new(AtomicUsize::new(0));
        let program = move |ctx: Context, script: Script| {
            let number = runs.fetch_add(1, Ordering::SeqCst);
            async move {
                script.step(&ctx, "same").await?;
                script.step(&ctx, &format!("step {number}")).await
            }
        };
        let world = World::new(Programs::default().with("p", program));
        world.start("p").await;
        world.until_status(Status::Stuck).await;
        let error = world.record().await.error.unwrap();
        assert!(
            error.contains("in a replay, after 1 results, step"),
            "{error}"
        );
        assert_eq!(world.script.names(), ["same"]);
    });
}
