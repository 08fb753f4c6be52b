//! Destinations that share an origin: it limits concurrent attempts, and nothing else.

use std::time::Duration;

use abide::outbox::{Breaker, Failure, Status};

use crate::outbox::support::{Act, World, at_a_time, note, plain, refused, run};

#[test]
fn a_tenant_that_fails_or_throttles_does_not_hold_up_others_of_its_host() {
    run(async {
        let world = World::new(
            plain().breaker(Breaker::default().failures(2).pause(Duration::from_mins(5))),
        );
        let asked = Failure::throttled("429", Some(Duration::from_mins(5)));
        world.script.say("busy", [Act::Submit(Err(asked))]);
        world.enqueue(note("host/busy", "busy")).await;
        for number in 0..4 {
            let text = format!("broken {number}");
            world.script.say(&text, vec![refused(); 4]);
            world.enqueue(note("host/broken", &text)).await;
        }
        world.pass(Duration::from_secs(3)).await;
        let well = world.enqueue(note("host/well", "well")).await;
        world.until_status(well, Status::Sent).await;
        let times = world.script.times("well");
        assert_eq!(times, [3_000]);
        assert_eq!(world.script.times("busy"), [0]);
        let destinations = world.sender().destinations().await.unwrap();
        let opened = destinations.iter().filter(|to| to.opened > 0);
        assert_eq!(opened.count(), 1);
    });
}

#[test]
fn an_origin_bounds_concurrency_and_serves_all_its_destinations() {
    run(async {
        let world = World::new(at_a_time(64, 2));
        for tenant in 0..10 {
            for number in 0..5 {
                let text = format!("{tenant} {number}");
                world.enqueue(note(&format!("host/{tenant}"), &text)).await;
            }
        }
        world.pass(Duration::from_secs(1)).await;
        world.until_counts(|counts| counts.sent == 50).await;
        assert!(world.script.most() <= 2, "{}", world.script.most());
    });
}

#[test]
fn destinations_waiting_for_their_origin_continue_after_a_kill() {
    run(async {
        let world = World::new(at_a_time(64, 2));
        for tenant in 0..6 {
            let text = format!("t{tenant}");
            if tenant < 2 {
                world.script.say(&text, [Act::Hang]);
            }
            world.enqueue(note(&format!("host/{tenant}"), &text)).await;
        }
        world.rest().await;
        assert_eq!(world.script.calls().len(), 2);
        let world = world.killed();
        world.pass(Duration::from_secs(40)).await;
        assert_eq!(world.counts().await.sent, 6);
    });
}
