//! A message's history is complete, whether its events are stored or follow from its row.

use std::time::Duration;

use abide::outbox::{Change, Failure, Status, Submitted};

use crate::outbox::support::{Act, World, note, plain, refused, run};

/// The events of a message's history, with their times in milliseconds since the clock began.
async fn history(world: &World, id: i64, start: i64) -> Vec<(i64, String)> {
    let history = world.sender().history(id).await.unwrap();
    let event = |change: Change| (change.at - start, change.event);
    history.into_iter().map(event).collect()
}

fn events<const N: usize>(events: [(i64, &str); N]) -> Vec<(i64, String)> {
    events.map(|(at, event)| (at, event.to_owned())).to_vec()
}

#[test]
fn a_message_that_is_sent_at_once_has_three_events() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world
            .script
            .say("hello", [Act::After(Duration::from_secs(2))]);
        let later = note("bob", "hello").not_before(start + 1_000);
        let id = world.enqueue(later).await;
        assert_eq!(history(&world, id, start).await, events([(0, "queued")]));
        world.pass(Duration::from_secs(1)).await;
        let sending = [(0, "queued"), (1_000, "sending")];
        assert_eq!(history(&world, id, start).await, events(sending));
        world.pass(Duration::from_secs(2)).await;
        let sent = [(0, "queued"), (1_000, "sending"), (3_000, "sent")];
        assert_eq!(history(&world, id, start).await, events(sent));
    });
}

#[test]
fn what_happened_before_the_first_failure_is_kept() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let remembered = Failure::refused("busy").remembered();
        world
            .script
            .say("renewed", [Act::Submit(Err(remembered)), Act::Well]);
        world.script.say("tried", [refused(), refused()]);
        let renewed = world.enqueue(note("bob", "renewed")).await;
        let tried = world.enqueue(note("bob", "tried")).await;
        world.pass(Duration::from_secs(4)).await;
        let once = [(0, "queued"), (0, "sending"), (0, "queued")];
        let again = [(1_000, "sending"), (1_000, "sent")];
        assert_eq!(
            history(&world, renewed, start).await,
            [events(once), events(again)].concat()
        );
        let twice = [(1_000, "sending"), (1_000, "queued")];
        let at_last = [(3_000, "sending"), (3_000, "sent")];
        assert_eq!(
            history(&world, tried, start).await,
            [events(once), events(twice), events(at_last)].concat()
        );
    });
}

#[test]
fn an_end_that_is_no_delivery_comes_after_what_was_before() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let later = note("bob", "canceled").not_before(start + 60_000);
        let canceled = world.enqueue(later).await;
        let late = note("bob", "late").not_before(start + 60_000);
        let late = world.enqueue(late.deadline(start + 60_001)).await;
        let accepted = Act::Submit(Ok(Submitted::Accepted {
            operation: "op".to_owned(),
            after: Some(Duration::from_secs(1)),
        }));
        world.script.say("accepted", [accepted]);
        let accepted = world.enqueue(note("bob", "accepted")).await;
        world.pass(Duration::from_secs(2)).await;
        world.sender().cancel(canceled).await.unwrap();
        let ended = [(0, "queued"), (2_000, "canceled")];
        assert_eq!(history(&world, canceled, start).await, events(ended));
        let polled = [
            (0, "queued"),
            (0, "sending"),
            (0, "accepted"),
            (1_000, "sent"),
        ];
        assert_eq!(history(&world, accepted, start).await, events(polled));
        world.clock.advance(Duration::from_secs(100));
        world.until_status(late, Status::Failed).await;
        let failed = [(0, "queued"), (102_000, "failed")];
        assert_eq!(history(&world, late, start).await, events(failed));
    });
}
