//! A wall clock that is set back.

use std::time::Duration;

use abide_patterns::workflow::{Context, Status, StepState};

use crate::support::{Programs, Script, World, run};

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
fn a_clock_that_is_set_back_makes_no_wait_longer_and_no_named_time_earlier() {
    run(async {
        let world = World::new(sleeper());
        world.start("sleeper").await;
        world.until_step(1, StepState::Waiting).await;
        let begun = world.now();
        world.pass(Duration::from_secs(5)).await;
        world.clock.advance(HOUR);
        // Somebody looks, and the time is noted; then the clock is set.
        let look = async || {
            world
                .workflows()
                .send_event("a", "look", &())
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        look().await;
        world.clock.set_wall(-(3_600_000 * 10));
        look().await;
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
