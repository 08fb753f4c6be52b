//! The in-memory cache of waiting messages, and its staleness.

use std::time::Duration;

use abide::outbox::Status;

use crate::outbox::support::{Act, World, at_a_time, note, plain, refused, run};

/// A world in which it is known that nothing waits for bob.
async fn known() -> World {
    let world = World::new(plain());
    let first = world.enqueue(note("bob", "first")).await;
    world.until_status(first, Status::Sent).await;
    world.rest().await;
    world
}

#[test]
fn a_message_is_sent_although_nothing_waited_before() {
    run(async {
        let world = known().await;
        let second = world.enqueue(note("bob", "second")).await;
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.status(second).await, Status::Sent);
    });
}

#[test]
fn a_message_that_becomes_due_later_or_is_freed_is_sent_in_its_time() {
    run(async {
        let world = known().await;
        world.script.say("one", [refused()]);
        world
            .enqueue_all([
                note("bob", "later").not_before(world.now() + 5_000),
                note("bob", "one").ordering_key("key"),
                note("bob", "two").ordering_key("key"),
            ])
            .await;
        world.pass(Duration::from_secs(4)).await;
        assert_eq!(world.script.effects(), ["first", "one", "two"]);
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.script.effects(), ["first", "one", "two", "later"]);
        world.check_counts().await;
    });
}

#[test]
fn a_message_that_was_taken_back_is_not_sent() {
    run(async {
        let world = World::new(at_a_time(16, 1).timeout(Duration::from_secs(3)));
        world.script.say("first", [Act::Hang]);
        world.enqueue(note("bob", "first")).await;
        world.rest().await;
        let second = world.enqueue(note("bob", "second")).await;
        world.enqueue(note("bob", "third")).await;
        world.sender().cancel(second).await.unwrap();
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.script.effects(), ["third", "first"]);
        assert_eq!(world.status(second).await, Status::Canceled);
        world.check_counts().await;
    });
}

#[test]
fn a_message_that_was_canceled_before_its_time_is_not_sent() {
    run(async {
        let world = known().await;
        let at = world.now() + 5_000;
        let second = world.enqueue(note("bob", "second").not_before(at)).await;
        world.enqueue(note("bob", "third").not_before(at)).await;
        world.sender().cancel(second).await.unwrap();
        world.pass(Duration::from_secs(6)).await;
        assert_eq!(world.script.effects(), ["first", "third"]);
        assert_eq!(world.status(second).await, Status::Canceled);
        world.check_counts().await;
    });
}

#[test]
fn a_message_whose_transaction_was_undone_is_not_sent_and_the_next_is() {
    run(async {
        let world = known().await;
        let later = note("eve", "later").not_before(world.now() + 60_000);
        let enqueued = world.sender().enqueue_instead(note("bob", "undone"), later);
        let later = enqueued.await.unwrap().id;
        let third = world.enqueue(note("bob", "third")).await;
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.status(third).await, Status::Sent);
        assert_eq!(world.status(later).await, Status::Queued);
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(world.script.effects(), ["first", "third", "later"]);
        world.check_counts().await;
    });
}

#[test]
fn more_messages_than_memory_holds_are_sent_in_their_order() {
    run(async {
        let world = World::new(at_a_time(16, 1));
        let all = (0..1_000).map(|number| note("bob", &format!("{number}")));
        world.enqueue_all(all).await;
        world.pass(Duration::from_secs(2)).await;
        while world.counts().await.sent < 1_000 {
            world.pass(Duration::from_secs(1)).await;
        }
        let expected: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        assert_eq!(world.script.effects(), expected);
    });
}
