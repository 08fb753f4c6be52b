//! Ordering keys: messages with the same key are delivered one at a time, others in parallel.

use std::time::Duration;

use abide::outbox::{BehindDeadLetter, Status};

use crate::outbox::support::{Act, World, gone, note, plain, refused, run};

#[test]
fn messages_with_the_same_key_wait_for_each_other_and_others_do_not() {
    run(async {
        let world = World::new(plain());
        world.script.say("a1", [refused(), refused()]);
        for text in ["a1", "a2", "a3"] {
            world.enqueue(note("bob", text).ordering_key("a")).await;
        }
        world.enqueue(note("bob", "b1").ordering_key("b")).await;
        world.enqueue(note("bob", "c1")).await;
        world.until_counts(|counts| counts.sent == 2).await;
        assert!(world.get(2).await.blocked && world.get(3).await.blocked);
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.counts().await.sent, 5);
        let effects = world.script.effects();
        assert_eq!(effects[2..], ["a1", "a2", "a3"]);
        world.check_counts().await;
    });
}

#[test]
fn a_message_whose_operation_runs_is_in_the_way_of_the_next() {
    run(async {
        let world = World::new(plain());
        let accepted = abide::outbox::Submitted::Accepted {
            operation: "op".into(),
            after: Some(Duration::from_secs(3)),
        };
        world.script.say("a1", [Act::Submit(Ok(accepted))]);
        world.enqueue(note("bob", "a1").ordering_key("a")).await;
        world.enqueue(note("bob", "a2").ordering_key("a")).await;
        world.pass(Duration::from_secs(2)).await;
        assert!(world.get(2).await.blocked);
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.counts().await.sent, 2);
        assert_eq!(world.script.times("a2"), [3_000]);
    });
}

#[test]
fn behind_a_dead_letter_messages_wait_until_it_was_delivered() {
    run(async {
        let world = World::new(plain());
        world.script.say("a1", [gone()]);
        for text in ["a1", "a2", "a3"] {
            world.enqueue(note("bob", text).ordering_key("a")).await;
        }
        world.until_counts(|counts| counts.failed == 1).await;
        world.enqueue(note("bob", "a4").ordering_key("a")).await;
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(world.counts().await.queued, 3);
        world.sender().redrive(1).await.unwrap();
        world.until_counts(|counts| counts.sent == 4).await;
        assert_eq!(world.script.effects(), ["a1", "a2", "a3", "a4"]);
        world.check_counts().await;
    });
}

#[test]
fn a_discarded_dead_letter_lets_the_next_go() {
    run(async {
        let world = World::new(plain());
        world.script.say("a1", [gone()]);
        world.script.say("a2", [gone()]);
        for text in ["a1", "a2", "a3"] {
            world.enqueue(note("bob", text).ordering_key("a")).await;
        }
        world.until_counts(|counts| counts.failed == 1).await;
        world.sender().discard(1).await.unwrap();
        world
            .until_counts(|counts| counts.failed == 1 && counts.discarded == 1)
            .await;
        assert_eq!(world.status(2).await, Status::Failed);
        world.sender().redrive(2).await.unwrap();
        world.until_counts(|counts| counts.sent == 2).await;
        assert_eq!(world.script.effects(), ["a2", "a3"]);
    });
}

#[test]
fn a_canceled_message_lets_the_next_go() {
    run(async {
        let world = World::new(plain());
        world.script.say("a1", [refused()]);
        world.enqueue(note("bob", "a1").ordering_key("a")).await;
        world.enqueue(note("bob", "a2").ordering_key("a")).await;
        world.until(1, |record| record.last_error.is_some()).await;
        world.sender().cancel(1).await.unwrap();
        world.until_counts(|counts| counts.sent == 1).await;
        assert_eq!(world.script.effects(), ["a2"]);
        assert_eq!(world.status(1).await, Status::Canceled);
    });
}

#[test]
fn messages_pass_a_dead_letter_if_the_outbox_allows_it() {
    run(async {
        let world = World::new(plain().behind_dead_letter(BehindDeadLetter::GoOn));
        world.script.say("a1", [gone()]);
        // It hangs, so that the dead letter comes back while it is on its way.
        world.script.say("a2", [Act::TakeAndHang]);
        for text in ["a1", "a2", "a3"] {
            world.enqueue(note("bob", text).ordering_key("a")).await;
        }
        world.until_status(2, Status::Sending).await;
        world.sender().redrive(1).await.unwrap();
        world.rest().await;
        assert!(world.get(1).await.blocked, "one at a time");
        world.pass(Duration::from_secs(40)).await;
        assert_eq!(world.counts().await.sent, 3);
        assert_eq!(world.script.effects(), ["a2", "a2", "a1", "a3"]);
    });
}
