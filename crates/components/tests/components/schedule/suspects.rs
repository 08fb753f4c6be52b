//! Handlers that end the process.

use abide::schedule::{Phase, Spec};

use crate::schedule::support::{Deed, World, doing, plain, run, secs};

/// Runs until a handler ends the process, or for a minute.
async fn until_it_ends(world: &World) -> bool {
    for _ in 0..60 {
        world.clock.advance(secs(1));
        for _ in 0..20 {
            if world.calls.has_ended() {
                return true;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
    false
}

#[test]
fn only_the_timer_that_ends_the_process_has_failed() {
    run(async {
        let mut world = World::new(plain());
        let start = world.now();
        let ends = Deed {
            ends: true,
            ..Deed::default()
        };
        let mut specs: Vec<_> = (0..6)
            .map(|number| (format!("good {number}"), Spec::once("a", start + 1_000)))
            .collect();
        let bad = doing(Spec::once("a", start + 1_000), &ends);
        specs.insert(3, ("bad".to_owned(), bad));
        let set = world.object().upsert_all(specs).await;
        set.unwrap();
        let mut crashes = 0;
        while until_it_ends(&world).await {
            crashes += 1;
            assert!(crashes < 20, "{:?}", world.calls.attempts("bad"));
            world = world.killed();
        }
        let failed = world.object().failed().await.unwrap();
        let failed: Vec<&str> = failed.iter().map(|run| run.timer.as_str()).collect();
        assert_eq!(failed, ["bad"]);
        for number in 0..6 {
            let name = format!("good {number}");
            assert_eq!(world.dues(&name).await, [start + 1_000]);
            assert_eq!(world.timer(&name).await.phase, Phase::Ended);
        }
    });
}
