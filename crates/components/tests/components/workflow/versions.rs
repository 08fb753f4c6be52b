//! Functions that are changed while instances run, with a version at each change.

use std::time::Duration;

use abide::workflow::{Context, Status};

use crate::workflow::support::{Act, Programs, Script, World, run};

fn before() -> Programs {
    Programs::default().with("p", async |ctx: Context, script: Script| {
        script.step(&ctx, "pack").await?;
        script.step(&ctx, "by van").await?;
        script.step(&ctx, "tell").await
    })
}

fn after() -> Programs {
    Programs::default().with("p", async |ctx: Context, script: Script| {
        script.step(&ctx, "pack").await?;
        if ctx.patched("by drone").await? {
            script.step(&ctx, "by drone").await?;
        } else {
            script.step(&ctx, "by van").await?;
        }
        script.step(&ctx, "tell").await?;
        // The same, wherever it is asked for.
        Ok(i64::from(ctx.patched("by drone").await?))
    })
}

#[test]
fn an_instance_that_has_passed_the_change_goes_by_the_old_function() {
    run(async {
        for step in ["by van", "tell"] {
            let world = World::new(before());
            world.start_in("p", step, Act::Hang).await;
            let world = world.killed_with(after());
            assert_eq!(world.ended().await, Ok(0));
            assert_eq!(world.script.of("by drone"), []);
        }
    });
}

#[test]
fn an_instance_that_reaches_the_change_keeps_the_new_function() {
    run(async {
        let world = World::new(before());
        world.start_in("p", "pack", Act::Hang).await;
        let world = world.killed_with(after());
        world.script.say("tell", [Act::Hang]);
        world.until_called_meanwhile("tell", 1).await;
        let world = world.killed();
        assert_eq!(world.ended().await, Ok(1));
        assert_eq!(world.script.of("by van"), []);
        assert_eq!(world.script.of("by drone").len(), 1);
        // Done again, it is decided again.
        world.workflows().restart_from("a", "pack").await.unwrap();
        assert_eq!(world.ended().await, Ok(1));
        assert_eq!(world.script.of("by drone").len(), 2);
    });
}

#[test]
fn a_version_that_the_program_does_not_know_any_more_is_found() {
    run(async {
        let world = World::new(before());
        world.start_in("p", "by van", Act::Hang).await;
        let program = Programs::default().with("p", async |ctx: Context, script: Script| {
            script.step(&ctx, "pack").await?;
            ctx.version("by drone", 1..=2).await?;
            script.step(&ctx, "by drone").await
        });
        let world = world.killed_with(program);
        world.pass(Duration::from_secs(5)).await;
        world.until_status(Status::Stuck).await;
        let error = world.record().await.error.unwrap();
        assert!(
            error.contains(
                "it goes by version 0 of change `by drone`, and the program knows 1 to 2"
            ),
            "{error}"
        );
        let world = world.killed_with(after());
        world.workflows().resume("a").await.unwrap();
        assert_eq!(world.ended().await, Ok(0));
    });
}
