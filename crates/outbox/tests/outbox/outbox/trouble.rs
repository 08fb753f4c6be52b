//! Handlers that panic or hang, kinds that are gone, clocks that are set, full disks.

use std::time::Duration;

use abide::outbox::Status;
use abide_harness::until;

use crate::outbox::support::{Act, World, note, plain, refused, run};

#[test]
fn a_panicking_handler_fails_its_attempt_and_the_outbox_continues() {
    run(async {
        let world = World::new(plain());
        world.script.say("bad", [Act::Panic]);
        let bad = world.enqueue(note("bob", "bad")).await;
        let good = world.enqueue(note("bob", "good")).await;
        world.until_status(good, Status::Sent).await;
        let record = world.until(bad, |record| record.last_error.is_some()).await;
        assert!(record.unknown);
        let error = record.last_error.unwrap();
        assert!(
            error.starts_with("the handler panicked; the log has its message, as panic "),
            "{error}"
        );
        assert!(!error.contains("script"), "{error}");
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.status(bad).await, Status::Sent);
        assert_eq!(world.node.stats().resets, 0);
    });
}

#[test]
fn a_handler_that_never_returns_is_ended_at_its_time_limit() {
    run(async {
        let world = World::new(plain().timeout(Duration::from_secs(30)));
        world.script.say("bad", [Act::Hang]);
        let bad = world.enqueue(note("bob", "bad")).await;
        let good = world.enqueue(note("bob", "good")).await;
        world.until_status(good, Status::Sent).await;
        world.pass(Duration::from_secs(29)).await;
        assert_eq!(world.status(bad).await, Status::Sending);
        world.pass(Duration::from_secs(1)).await;
        let record = world.until(bad, |record| record.last_error.is_some()).await;
        assert_eq!(
            record.last_error.as_deref(),
            Some("no response within 30 s")
        );
        assert!(record.unknown);
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.status(bad).await, Status::Sent);
    });
}

#[test]
fn a_reset_makes_attempts_in_flight_unknown_and_repeats_them() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", [Act::TakeAndHang]);
        let id = world.enqueue(note("bob", "hello")).await;
        // The row says `sending` before the handler is called, and the handler is called before it takes effect.
        while world.script.effects().is_empty() {
            tokio::task::yield_now().await;
        }
        let _ = world.sender().reset().await;
        let record = world.until(id, |record| record.last_error.is_some()).await;
        assert!(record.unknown);
        assert_eq!(record.status, Status::Queued);
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!(world.script.effects(), ["hello", "hello"]);
        let calls = world.script.calls();
        assert_eq!(calls[0].key, calls[1].key);
        world.check_counts().await;
    });
}

#[test]
fn attempts_that_outlive_a_background_task_are_carried_on() {
    run(async {
        let world = World::new(plain().timeout(Duration::from_secs(100)));
        world.script.say("slow", [Act::Hang]);
        let id = world.enqueue(note("bob", "slow")).await;
        world.pass(Duration::from_secs(99)).await;
        assert_eq!(world.status(id).await, Status::Sending);
        assert_eq!(world.script.calls().len(), 1);
        world.pass(Duration::from_secs(3)).await;
        assert_eq!(world.status(id).await, Status::Sent);
        assert_eq!(world.script.times("slow"), [0, 101_000]);
    });
}

#[test]
fn a_full_disk_loses_nothing_and_the_outbox_continues_when_there_is_room() {
    run(async {
        let world = World::new(plain());
        let later = note("bob", "hello").not_before(1_767_225_602_000);
        let id = world.enqueue(later).await;
        world.disk.set_capacity(Some(world.disk.used()));
        for _ in 0..10 {
            world.clock.advance(Duration::from_millis(500));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        world.disk.set_capacity(None);
        until("the message to be sent", async || {
            world.clock.advance(Duration::from_millis(500));
            let counts = world.sender().counts().await.ok()?;
            (counts.sent == 1).then_some(())
        })
        .await;
        assert_eq!(world.status(id).await, Status::Sent);
        world.check_counts().await;
    });
}

#[test]
fn an_unwritable_outcome_is_written_later_and_affects_no_other_message() {
    run(async {
        let world = World::new(plain());
        let stuck = Act::Submit(Ok(abide::outbox::Submitted::Done));
        world.script.say("other", [Act::Later(stuck.into())]);
        let bad = world
            .enqueue(note("bob", "bad").not_before(world.now() + 1_000))
            .await;
        let other = world.enqueue(note("eve", "other")).await;
        world.sender().refuse_to_end(bad, true).await.unwrap();
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.status(bad).await, Status::Sending);
        world.script.now();
        world.pass(Duration::from_secs(1)).await;
        let record = world.get(other).await;
        assert_eq!((record.status, record.attempts), (Status::Sent, 1));
        world.sender().refuse_to_end(bad, false).await.unwrap();
        world.pass(Duration::from_secs(3)).await;
        assert_eq!(world.status(bad).await, Status::Sent);
        assert_eq!(world.script.times("bad"), [1_000]);
        world.check_counts().await;
    });
}

#[test]
fn an_attempt_that_cannot_begin_leaves_those_in_flight_alone() {
    run(async {
        let world = World::new(plain());
        let well = Act::Submit(Ok(abide::outbox::Submitted::Done));
        world.script.say("other", [Act::Later(well.into())]);
        let other = world.enqueue(note("eve", "other")).await;
        until("an attempt", async || {
            (!world.script.calls().is_empty()).then_some(())
        })
        .await;
        let sender = world.sender();
        sender.refuse_to_begin(2, true).await.unwrap();
        let bad = world.enqueue(note("bob", "bad")).await;
        world.pass(Duration::from_secs(3)).await;
        world.script.now();
        let record = world.until_status(other, Status::Sent).await;
        assert_eq!((record.attempts, record.unknown), (1, false));
        assert_eq!(world.status(bad).await, Status::Queued);
        sender.refuse_to_begin(bad, false).await.unwrap();
        world.pass(Duration::from_secs(10)).await;
        let record = world.get(bad).await;
        assert_eq!((record.status, record.attempts), (Status::Sent, 1));
        world.check_counts().await;
    });
}

#[test]
fn a_destination_that_cannot_be_written_concerns_no_other_message() {
    run(async {
        let world = World::new(plain());
        let well = Act::Submit(Ok(abide::outbox::Submitted::Done));
        world.script.say("other", [Act::Later(well.into())]);
        world.script.say("bad", [refused()]);
        let other = world.enqueue(note("eve", "other")).await;
        let sender = world.sender();
        let refuse = async |refuse| {
            let refused = sender.refuse_failure_of("bob".to_owned(), refuse).await;
            refused.unwrap();
        };
        refuse(true).await;
        let bad = world.enqueue(note("bob", "bad")).await;
        world.pass(Duration::from_secs(3)).await;
        assert_eq!(world.status(bad).await, Status::Sending);
        world.script.now();
        let record = world.until_status(other, Status::Sent).await;
        assert_eq!((record.attempts, record.unknown), (1, false));
        refuse(false).await;
        world.pass(Duration::from_secs(5)).await;
        let record = world.get(bad).await;
        assert_eq!((record.status, record.attempts), (Status::Sent, 2));
        world.check_counts().await;
    });
}

#[test]
fn waits_are_as_long_as_before_when_the_wall_clock_is_set_back() {
    run(async {
        let world = World::new(plain());
        world
            .script
            .say("hello", vec![refused(), refused(), refused()]);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(4)).await;
        let day = 86_400_000;
        world.clock.set_wall(-day);
        // Something has to happen that the outbox notices.
        let other = world.enqueue(note("bob", "other")).await;
        world.until_status(other, Status::Sent).await;
        let now = world.now();
        let next = world.get(id).await.next_at.unwrap();
        assert!((now..=now + 4_000).contains(&next), "{} ms", next - now);
        world.pass(Duration::from_secs(4)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn an_idle_outbox_retries_on_time_although_the_clock_was_set_back() {
    run(async {
        let world = World::new(plain());
        let refusals = vec![refused(), refused(), refused()];
        world.script.say("hello", refusals);
        let id = world.enqueue(note("bob", "hello")).await;
        world.pass(Duration::from_secs(4)).await;
        assert_eq!(world.status(id).await, Status::Queued);
        world.clock.set_wall(-86_400_000);
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn a_wait_that_begins_after_the_wall_clock_was_set_back_is_not_shortened() {
    run(async {
        let world = World::new(plain());
        world.script.say("hello", [Act::Later(Box::new(refused()))]);
        let id = world.enqueue(note("bob", "hello")).await;
        while world.script.calls().is_empty() {
            tokio::task::yield_now().await;
        }
        world.clock.set_wall(-86_400_000);
        world.script.now();
        world.until_status(id, Status::Queued).await;
        world.rest().await;
        assert_eq!(world.script.attempts("hello"), 1, "a second has not passed");
        world.pass(Duration::from_secs(1)).await;
        assert_eq!(world.status(id).await, Status::Sent);
    });
}

#[test]
fn a_clock_that_jumps_ahead_ends_what_has_a_deadline_and_sends_the_rest() {
    run(async {
        let world = World::new(plain());
        world.script.say("mortal", vec![refused(); 3]);
        world.script.say("patient", vec![refused(); 3]);
        let deadline = world.now() + 60_000;
        let mortal = world
            .enqueue(note("bob", "mortal").deadline(deadline))
            .await;
        let patient = world.enqueue(note("bob", "patient")).await;
        world.rest().await;
        world.clock.advance(Duration::from_hours(24 * 365));
        // An alarm notices a jump within 5 s.
        world.pass(Duration::from_secs(15)).await;
        let record = world.get(mortal).await;
        assert_eq!(record.status, Status::Failed);
        assert_eq!(
            record.last_error.as_deref(),
            Some("the deadline passed after 1 attempts; the last error: busy")
        );
        assert_eq!(world.status(patient).await, Status::Sent);
    });
}
