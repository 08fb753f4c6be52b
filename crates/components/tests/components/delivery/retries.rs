//! Back-off, what a receiver asks for, and giving up.

use crate::delivery::server::Reply;
use crate::delivery::support::{ALL, ATTEMPTS, World, run, secs};

#[test]
fn attempts_are_made_after_their_waits_and_end() {
    run(async {
        for through in ALL {
            let world = World::new(through);
            world
                .server
                .say("a", vec![Reply::Status(500, None); ATTEMPTS + 1]);
            world.deliver(&["a"]).await;
            let given_up = world.decided(secs(1)).await;
            assert_eq!(given_up.len(), 1, "{through:?}");
            assert!(given_up[0].contains("500"), "{given_up:?}");
            let gaps = world.server.gaps("a");
            for (gap, least) in gaps.iter().zip([10_000, 20_000, 40_000]) {
                // The clock moves by a second while the node works.
                let most = least + least / 4 + 5_000;
                assert!((least..=most).contains(gap), "{through:?}: {gaps:?}");
            }
            assert_eq!(gaps.len() + 1, ATTEMPTS, "{through:?}");
        }
    });
}

#[test]
fn retry_after_lengthens_a_wait_and_never_shortens_it() {
    run(async {
        for through in ALL {
            let world = World::new(through);
            let failed = |after: &str| Reply::Status(500, Some(after.to_owned()));
            world.server.say("a", [failed("1"), failed("100")]);
            world.deliver(&["a"]).await;
            world.decided(secs(1)).await;
            let gaps = world.server.gaps("a");
            assert!(
                gaps[0] >= 10_000 && gaps[1] >= 100_000,
                "{through:?}: {gaps:?}"
            );
        }
    });
}

#[test]
fn a_wait_is_not_longer_because_the_clock_was_set_back() {
    run(async {
        let mut late = Vec::new();
        for through in ALL {
            let world = World::new(through);
            world.server.say("a", [Reply::Status(500, None)]);
            world.deliver(&["a"]).await;
            world
                .pass_until(secs(1), "the first attempt", async || {
                    !world.server.times("a").is_empty()
                })
                .await;
            // The result is on disk, and the node rests.
            while world.server.is_busy() {
                tokio::task::yield_now().await;
            }
            world.standing().await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            world.clock.set_wall(-365 * 24 * 3_600_000);
            // Nothing asks the component meanwhile: that would wake it.
            for _ in 0..20 {
                world.clock.advance(secs(1));
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            if world.server.taken("a") == 0 {
                late.push(through);
            }
        }
        assert_eq!(late, []);
    });
}
