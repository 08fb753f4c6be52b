//! Receivers that ask for patience.

use crate::delivery::server::Reply;
use crate::delivery::support::{ALL, ATTEMPTS, World, run, secs};

fn throttled(after: &str) -> Reply {
    Reply::Status(429, Some(after.to_owned()))
}

#[test]
fn throttling_uses_up_no_attempts() {
    run(async {
        for through in ALL {
            let world = World::new(through);
            world.server.say("a", vec![throttled("1"); 3 * ATTEMPTS]);
            world.server.say(
                "a",
                vec![Reply::Status(503, Some("2".to_owned())); ATTEMPTS],
            );
            world
                .server
                .say("a", vec![Reply::Status(429, None); ATTEMPTS]);
            world.deliver(&["a"]).await;
            let given_up = world.decided(secs(1)).await;
            assert_eq!(
                given_up,
                [""; 0],
                "{through:?}: {:?}",
                world.server.gaps("a")
            );
            assert_eq!(world.server.taken("a"), 1);
        }
    });
}

#[test]
fn an_overloaded_node_uses_up_no_attempts() {
    run(async {
        for through in ALL {
            let world = World::new(through);
            world.server.say("a", vec![Reply::NotSent; 3 * ATTEMPTS]);
            world.deliver(&["a"]).await;
            let given_up = world.decided(secs(1)).await;
            assert_eq!(
                given_up,
                [""; 0],
                "{through:?}: {:?}",
                world.server.gaps("a")
            );
            assert_eq!(world.server.taken("a"), 1);
        }
    });
}

#[test]
fn a_throttled_attempt_is_not_repeated_before_its_pause() {
    run(async {
        for through in ALL {
            let world = World::new(through);
            world.server.say("a", [throttled("300")]);
            world.deliver(&["a"]).await;
            world.decided(secs(1)).await;
            let gaps = world.server.gaps("a");
            assert!(gaps[0] >= 300_000, "{through:?}: {gaps:?}");
        }
    });
}

#[test]
fn retry_after_beyond_all_numbers_and_calendars_is_a_pause_of_a_day() {
    run(async {
        for through in ALL {
            let world = World::new(through);
            for never in ["99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
                world.server.say("a", [throttled(never)]);
            }
            world.deliver(&["a"]).await;
            world.decided(secs(600)).await;
            let gaps = world.server.gaps("a");
            let day = 24 * 3_600_000;
            let most = day + day / 4 + 3_600_000;
            let fit = gaps.iter().all(|gap| (day..=most).contains(gap));
            assert!(gaps.len() == 2 && fit, "{through:?}: {gaps:?}");
        }
    });
}

#[test]
fn retry_after_in_the_past_does_not_make_a_loop() {
    run(async {
        for through in ALL {
            let world = World::new(through);
            let past = "Sun, 06 Nov 1994 08:49:37 GMT";
            world.server.say("a", vec![throttled(past); 12]);
            world.deliver(&["a"]).await;
            world.decided(std::time::Duration::from_millis(100)).await;
            let gaps = world.server.gaps("a");
            assert!(gaps.iter().all(|gap| *gap >= 100), "{through:?}: {gaps:?}");
            assert!(gaps[11] >= 25_000, "the pauses grow: {through:?}: {gaps:?}");
        }
    });
}
