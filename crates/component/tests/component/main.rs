//! A worker on a node with an in-memory disk.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;
#[path = "../../../../verify/harness/shared/world.rs"]
mod world;

use std::time::Duration;

use abide::prelude::*;

use support::{Act, World, run};

#[test]
fn due_work_is_done_once_and_the_task_ends() {
    run(async {
        let world = World::new();
        for name in ["a", "b", "c"] {
            world.add("desk", name, 0).await;
        }
        world.until_done(3).await;
        world.node.settle().await.unwrap();
        assert_eq!(world.script.count(""), 3);
        assert_eq!(world.desk("desk").alarm_at().await.unwrap(), None);
        assert_eq!(world.script.tasks(), 0);
    });
}

#[test]
fn work_due_later_is_left_to_the_alarm() {
    run(async {
        let world = World::new();
        world.add("desk", "a", 3_600_000).await;
        world.node.settle().await.unwrap();
        assert_eq!(world.script.tasks(), 0);
        world.clock.advance(Duration::from_secs(3_599));
        world.node.settle().await.unwrap();
        assert_eq!(world.script.count("a"), 0);
        world.clock.advance(Duration::from_secs(1));
        world.until_done(1).await;
    });
}

#[test]
fn work_continues_after_a_kill_although_nothing_calls() {
    run(async {
        let world = World::new();
        world.script.say("a", [Act::Hang]);
        world.add("desk", "a", 0).await;
        world.until_begun("a", 1).await;
        let world = world.killed();
        world.pass_until_begun("a", 2).await;
        world.until_done(1).await;
    });
}

#[test]
fn work_begins_while_other_work_is_in_flight_in_one_task() {
    run(async {
        let world = World::new();
        world.script.say("a", [Act::Hang]);
        world.add("desk", "a", 0).await;
        world.until_begun("a", 1).await;
        for name in ["b", "c"] {
            world.add("desk", name, 0).await;
        }
        world.until_done(2).await;
        assert_eq!(world.script.most_tasks(), 1);
        assert_eq!(world.script.count("a"), 1);
    });
}

#[test]
fn a_dropped_task_is_followed_by_another() {
    run(async {
        let world = World::with_timeout(Duration::from_secs(10));
        world.script.say("a", [Act::Hang]);
        world.add("desk", "a", 0).await;
        world.pass_until_begun("a", 2).await;
        world.until_done(1).await;
        assert_eq!(world.script.most_tasks(), 1);
    });
}

#[test]
fn an_attempt_may_take_longer_than_a_task() {
    run(async {
        let world = World::with_timeout(Duration::from_secs(90));
        world.script.say("a", [Act::Take(Duration::from_secs(200))]);
        world.add("desk", "a", 0).await;
        world.pass_until_done(1).await;
        assert_eq!(world.script.count("a"), 1);
        assert_eq!(world.script.most_tasks(), 1);
    });
}

#[test]
fn no_attempt_begins_before_its_claim_is_on_disk() {
    run(async {
        let world = World::new();
        world.add("desk", "a", 500).await;
        world.node.settle().await.unwrap();
        assert_eq!(world.script.tasks(), 1, "it waits in memory");
        world.disk.hold_syncs();
        world.clock.advance(Duration::from_millis(500));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = world.script.count("a");
        // Before it may fail: a node does not end while its disk stands still.
        world.disk.release_syncs();
        assert_eq!(begun, 0);
        world.until_done(1).await;
    });
}

#[test]
fn a_result_that_cannot_be_written_is_written_later() {
    run(async {
        let world = World::new();
        world
            .script
            .say("a", [Act::Take(Duration::from_millis(300))]);
        world.add("desk", "a", 0).await;
        world.until_begun("a", 1).await;
        world.node.settle().await.unwrap();
        world.script.fail_turns(2);
        world.pass_until_done(1).await;
        assert_eq!(world.script.count("a"), 1);
    });
}

#[test]
fn a_turn_that_fails_with_nothing_in_flight_is_left_to_the_alarm() {
    run(async {
        let world = World::new();
        world.script.fail_turns(1);
        world.add("desk", "a", 0).await;
        world.node.settle().await.unwrap();
        assert_eq!((world.script.count("a"), world.script.tasks()), (0, 0));
        world.pass_until_done(1).await;
    });
}

#[test]
fn a_turn_that_panics_resets_the_object_and_work_continues() {
    run(async {
        let world = World::new();
        world.script.say("a", [Act::Panic]);
        world.add("desk", "a", 0).await;
        world.pass_until_begun("a", 2).await;
        world.until_done(1).await;
    });
}

#[test]
fn a_stopping_node_finishes_what_is_in_flight_and_claims_nothing() {
    run(async {
        let world = World::new();
        world.script.say("a", [Act::UntilStop]);
        world.add("desk", "a", 0).await;
        world.until_begun("a", 1).await;
        world.add("desk", "b", 500).await;
        let world = world.stopped().await;
        assert_eq!(world.script.count("b"), 0);
        world.pass_until_done(2).await;
        assert_eq!((world.script.count("a"), world.script.count("b")), (1, 1));
    });
}

#[test]
fn an_object_that_deletes_everything_drops_what_is_in_flight() {
    run(async {
        let world = World::new();
        world.script.say("a", [Act::Hang]);
        world.add("desk", "a", 0).await;
        world.until_begun("a", 1).await;
        world.desk("desk").wipe().await.unwrap();
        world.node.settle().await.unwrap();
        assert_eq!(world.script.tasks(), 0);
        assert_eq!(world.desk("desk").alarm_at().await.unwrap(), None);
    });
}

#[test]
fn what_was_in_flight_is_dropped_although_work_was_added_again() {
    run(async {
        let world = World::new();
        world.script.say("a", [Act::Hang]);
        world.script.say("b", [Act::Hang]);
        world.add("desk", "a", 0).await;
        world.until_begun("a", 1).await;
        let desk = world.desk("desk");
        desk.begin_anew("b".to_owned(), false).await.unwrap();
        world.until_begun("b", 1).await;
        desk.begin_anew("c".to_owned(), true).await.unwrap_err();
        world.until_begun("b", 2).await;
        world.until_done(1).await;
        assert_eq!((world.script.count("a"), world.script.count("c")), (1, 0));
    });
}

#[test]
fn a_result_from_before_a_deletion_is_not_written() {
    run(async {
        let world = World::new();
        world.script.say("a", [Act::UntilStop]);
        world.script.say("b", [Act::Hang]);
        world.add("desk", "a", 0).await;
        world.until_begun("a", 1).await;
        // Both jobs have the same id.
        world.disk.hold_syncs();
        let desk = world.desk("desk");
        let anew = desk.begin_anew("b".to_owned(), false);
        let end = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            world.script.notify();
            world.disk.release_syncs();
        };
        let (anew, ()) = tokio::join!(anew, end);
        anew.unwrap();
        world.until_begun("b", 1).await;
        assert_eq!(world.desk("desk").done().await.unwrap(), 0);
    });
}

#[test]
fn a_fork_works_only_when_it_is_activated() {
    run(async {
        let world = World::new();
        world.add("desk", "a", 60_000).await;
        let desk = world.desk("desk");
        let now = world.node.bookmark(desk.untyped(), None).await.unwrap();
        world.node.fork(desk.untyped(), now, "copy").await.unwrap();
        world.add("copy", "b", 0).await;
        for _ in 0..100 {
            world.clock.advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(world.script.count("b"), 0);
        let copy = world.desk("copy");
        world
            .node
            .activate(copy.untyped(), Activation::Continue)
            .await
            .unwrap();
        world.pass_until_begun("b", 1).await;
    });
}

#[test]
fn a_restored_object_does_the_work_of_its_restored_state() {
    run(async {
        let world = World::new();
        world.add("desk", "a", 60_000).await;
        let desk = world.desk("desk");
        let then = world.node.bookmark(desk.untyped(), None).await.unwrap();
        world.pass_until_done(1).await;
        world.node.restore(desk.untyped(), then).await.unwrap();
        world.pass_until_begun("a", 2).await;
        world.until_done(1).await;
    });
}
