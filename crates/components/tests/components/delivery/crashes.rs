//! Deliveries that end the process.

use crate::delivery::server::Reply;
use crate::delivery::support::{ALL, ATTEMPTS, World, run, secs};

#[test]
fn only_the_delivery_that_ends_the_process_is_given_up() {
    run(async {
        for through in ALL {
            let mut world = World::new(through);
            world.server.say("bad", vec![Reply::Hang; 40]);
            for good in ["a", "b"] {
                world.server.say(good, vec![Reply::HangUnlessAlone; 40]);
            }
            world.deliver(&["a", "bad", "b"]).await;
            let mut attempts = 0;
            loop {
                world
                    .pass_until(secs(1), "an attempt, or all is decided", async || {
                        world.server.times("bad").len() > attempts || world.standing().await.0 == 0
                    })
                    .await;
                if world.server.times("bad").len() == attempts {
                    break;
                }
                attempts = world.server.times("bad").len();
                // Those of the same pass are on their way as well.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                world = world.killed();
            }
            let (_, given_up) = world.standing().await;
            assert_eq!(given_up.len(), 1, "{through:?}: {given_up:?}");
            assert_eq!(world.server.taken("a"), 1, "{through:?}");
            assert_eq!(world.server.taken("b"), 1, "{through:?}");
            // One more than may be, if the last was not made alone.
            assert!((ATTEMPTS..=ATTEMPTS + 1).contains(&attempts), "{attempts}");
        }
    });
}
