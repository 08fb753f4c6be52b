//! A wall clock that is set back.

use std::time::Duration;

use abide::workflow::{Context, Failure, Status, StepState};

use crate::workflow::support::{Act, Programs, Script, World, run};

const HOUR: Duration = Duration::from_hours(1);

fn sleeper() -> Programs {
    Programs::default().with("sleeper", async |ctx: Context, script: Script| {
        let begun = ctx.now();
        let nap = ctx.sleep("nap", HOUR * 2);
        let noon = ctx.sleep_until("noon", begun + 3 * 3_600_000);
        let late = ctx.wait_for_event::<i64>("never", HOUR * 2);
        let (nap, late) = tokio::join!(nap, late);
        nap?;
        assert!(late.unwrap_err().is_timeout());
        script.step(&ctx, "woken").await?;
        noon.await?;
        Ok(ctx.now() - begun)
    })
}

#[test]
fn a_clock_set_back_lengthens_no_wait_and_advances_no_named_time() {
    run(async {
        let world = World::new(sleeper());
        world.start("sleeper").await;
        world.until_step(1, StepState::Waiting).await;
        let begun = world.now();
        world.pass(Duration::from_secs(5)).await;
        world.clock.advance(HOUR);
        // A look stores the time; then the clock is set.
        look(&world).await;
        world.clock.set_wall(-(3_600_000 * 10));
        look(&world).await;
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.script.names(), [""; 0]);
        // An hour has passed of two.
        world.clock.advance(HOUR);
        world.pass(Duration::from_secs(5)).await;
        world.until_called("woken", 1).await;
        assert_eq!(world.record().await.status, Status::Running);
        // The workflow's own time does not go backwards.
        assert!(world.now() < begun);
        world.clock.set_wall(0);
        let lasted = world.ended().await.unwrap();
        assert!(lasted >= 3 * 3_600_000, "{lasted}");
    });
}

#[test]
fn an_instance_that_rests_wakes_in_time_although_the_clock_was_set_back() {
    run(async {
        let world = World::new(sleeper());
        world.start("sleeper").await;
        world.until_step(1, StepState::Waiting).await;
        let begun = world.now();
        world.pass(Duration::from_secs(5)).await;
        world.clock.advance(HOUR);
        world.clock.set_wall(-(3_600_000 * 10));
        world.clock.advance(Duration::from_secs(3_580));
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.script.names(), [""; 0]);
        world.pass(Duration::from_secs(20)).await;
        world.until_called("woken", 1).await;
        // What it named stays: by the new clock that is eleven hours later.
        world.clock.advance(HOUR * 10);
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.record().await.status, Status::Running);
        world.clock.advance(HOUR * 2);
        world.pass(Duration::from_secs(5)).await;
        world.until_status(Status::Completed).await;
        assert!(world.now() >= begun + 3 * 3_600_000);
    });
}

/// Looks at instance `a`, so that it sees the time.
async fn look(world: &World) {
    let looked = world.workflows().send_event("a", "look", &()).await;
    looked.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[test]
fn a_retry_and_a_time_limit_come_in_time_although_the_clock_was_set_back() {
    run(async {
        let world = World::new(Programs::default().with(
            "p",
            async |ctx: Context, script: Script| {
                let tries = script.step(&ctx, "tries");
                let event = ctx.wait_for_event::<i64>("never", Duration::from_secs(30));
                let (tries, event) = tokio::join!(tries, event);
                assert!(event.unwrap_err().is_timeout());
                tries
            },
        ));
        let pause = Duration::from_secs(20);
        let busy = Failure::temporary("busy").retry_after(pause);
        world.start_in("p", "tries", Act::Fail(busy)).await;
        world.until_step(0, StepState::Waiting).await;
        look(&world).await;
        world.clock.set_wall(-3_600_000);
        look(&world).await;
        world.pass(Duration::from_secs(15)).await;
        assert_eq!(world.script.of("tries").len(), 1);
        world.pass(Duration::from_secs(8)).await;
        world.until_called("tries", 2).await;
        assert_eq!(world.record().await.status, Status::Running);
        world.pass(Duration::from_secs(10)).await;
        world.until_status(Status::Completed).await;
    });
}

#[test]
fn a_clock_that_is_set_back_while_the_node_is_down_makes_no_wait_longer() {
    run(async {
        let world = World::new(Programs::default().with(
            "p",
            async |ctx: Context, script: Script| {
                ctx.sleep("nap", Duration::from_secs(10)).await?;
                script.step(&ctx, "woken").await
            },
        ));
        world.start("p").await;
        world.until_step(0, StepState::Waiting).await;
        world.clock.set_wall(-3_600_000);
        let world = world.killed();
        look(&world).await;
        world.pass(Duration::from_secs(8)).await;
        assert_eq!(world.script.of("woken").len(), 0);
        world.pass(Duration::from_secs(4)).await;
        world.until_status(Status::Completed).await;
    });
}
