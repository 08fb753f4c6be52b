//! An outbox that never gives up: what would be a dead letter stays queued, and is listed as failing.

use std::time::Duration;

use abide::outbox::{Failure, GiveUp, OutboxOptions, Polled, Polling, Record, Status, Submitted};

use crate::outbox::support::{Act, World, gone, note, plain, refused, run};

fn never() -> OutboxOptions {
    plain().give_up(GiveUp::Never).polling(
        Polling::default()
            .deadline(Duration::from_mins(1))
            .max_errors(2),
    )
}

async fn failing(world: &World) -> Vec<Record> {
    let page = world.sender().failing(None, 0).await.unwrap();
    page.records
}

#[test]
fn a_message_whose_attempts_have_run_out_is_tried_until_it_is_delivered() {
    run(async {
        let world = World::new(never());
        world.script.say("hello", vec![refused(); 9]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(14)).await;
        assert_eq!(failing(&world).await, [], "it has one attempt left");
        world.pass(Duration::from_secs(2)).await;
        let listed = failing(&world).await;
        assert_eq!(listed, [world.get(id).await]);
        let record = &listed[0];
        assert_eq!((record.status, record.attempts), (Status::Queued, 5));
        assert_eq!(record.last_error.as_deref(), Some("busy"));
        let since = record.failing_since.unwrap();
        assert_eq!(world.counts().await.failing, 1);
        world.pass(Duration::from_secs(40)).await;
        let record = world.get(id).await;
        assert_eq!((record.status, record.attempts), (Status::Sent, 10));
        assert!(since > record.created_at && record.failing_since.is_none());
        let counts = world.counts().await;
        assert_eq!((counts.failing, counts.failed), (0, 0));
        assert_eq!(
            world.script.times("hello"),
            [0, 1, 3, 7, 15, 23, 31, 39, 47, 55].map(|second| second * 1_000)
        );
        world.check_counts().await;
    });
}

#[test]
fn what_will_never_be_taken_is_failing_and_can_be_canceled() {
    run(async {
        let world = World::new(never());
        world.script.say("hello", vec![gone(); 50]);
        let id = world.enqueue(note("bob", "hello").ordering_key("k")).await;
        let behind = world.enqueue(note("bob", "behind").ordering_key("k")).await;
        world.pass(Duration::from_mins(1)).await;
        let record = world.get(id).await;
        assert_eq!(record.status, Status::Queued, "{record:?}");
        assert!(record.failing_since.is_some() && record.attempts >= 7);
        assert_eq!(world.status(behind).await, Status::Queued, "order holds");
        world.sender().cancel(id).await.unwrap();
        world.until_status(behind, Status::Sent).await;
        assert_eq!(world.counts().await.failing, 0);
        world.check_counts().await;
    });
}

#[test]
fn an_operation_of_unknown_status_is_polled_and_not_restarted() {
    run(async {
        let world = World::new(never());
        let accepted = Submitted::Accepted {
            operation: "op".to_owned(),
            after: None,
        };
        world.script.say("hello", [Act::Submit(Ok(accepted))]);
        let silent = Act::Poll(Err(Failure::refused("503")));
        world.script.say("hello", vec![silent; 5]);
        world.script.say(
            "hello",
            vec![Act::Poll(Ok(Polled::Running { after: None })); 20],
        );
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_mins(4)).await;
        let record = world.get(id).await;
        assert_eq!(record.status, Status::Sending, "{record:?}");
        assert!(record.failing_since.is_some());
        world.pass(Duration::from_mins(1)).await;
        let record = world.get(id).await;
        assert_eq!((record.status, record.attempts), (Status::Sent, 1));
        assert_eq!(world.counts().await.failing, 0);
        world.check_counts().await;
    });
}

#[test]
fn a_message_s_own_deadline_ends_it() {
    run(async {
        let world = World::new(never());
        world.script.say("hello", vec![refused(); 50]);
        let deadline = world.now() + 40_000;
        let id = world.enqueue(note("bob", "hello").deadline(deadline)).await;
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.counts().await.failing, 1);
        world.pass(Duration::from_secs(25)).await;
        let record = world.get(id).await;
        assert_eq!(
            (record.status, record.failing_since),
            (Status::Failed, None)
        );
        assert_eq!(world.counts().await.failing, 0);
        world.check_counts().await;
    });
}

#[test]
fn a_message_in_flight_at_a_crash_is_resent_without_attempts_left() {
    run(async {
        let mut world = World::new(never());
        world.script.say("bad", vec![Act::Hang; 8]);
        let id = world.enqueue(note("bob", "bad")).await;
        for attempt in 1..=8 {
            while world.script.calls().len() < attempt {
                world.pass(Duration::from_millis(500)).await;
            }
            world = world.killed();
            world.rest().await;
        }
        assert_eq!(failing(&world).await.len(), 1);
        world.pass(Duration::from_secs(20)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!(world.counts().await.failing, 0);
    });
}
