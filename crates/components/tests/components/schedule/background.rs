//! Handlers that wait, in the background.

use abide::schedule::{Misfire, Overlap, Phase, Spec};

use crate::schedule::support::{Deed, NONE, World, at, doing, plain, run, secs};
use std::time::Duration;

fn waits(seconds: u64) -> Deed {
    Deed {
        waits: Some(secs(seconds)),
        ..Deed::default()
    }
}

const STEP: Duration = Duration::from_millis(500);

#[test]
fn handlers_wait_side_by_side() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        for name in ["a", "b", "c"] {
            world
                .set_in_background(name, doing(Spec::once("k", start + 1_000), &waits(5)))
                .await;
        }
        world
            .set_in_background("quick", Spec::once("k", start + 2_000))
            .await;
        world.pass(secs(3), STEP).await;
        assert_eq!(world.background_dues("quick").await, at(start, &[2]));
        assert_eq!(world.background_dues("a").await, NONE);
        world.pass(secs(4), STEP).await;
        let effects = world.background().effects().await.unwrap();
        assert_eq!(effects.len(), 4);
        assert!(
            effects[1..]
                .iter()
                .all(|(_, due, done)| done - due == 5_000),
            "{effects:?}"
        );
    });
}

#[test]
fn background_firings_are_limited() {
    run(async {
        let world = World::new(plain().concurrency(2));
        let start = world.now();
        for number in 0..6 {
            let spec = doing(Spec::once("k", start), &waits(1));
            world.set_in_background(&number.to_string(), spec).await;
        }
        world.pass(secs(5), STEP).await;
        let effects = world.background().effects().await.unwrap();
        let ends: Vec<i64> = effects.iter().map(|(_, _, at)| at - start).collect();
        assert_eq!(ends, [1_000, 1_000, 2_000, 2_000, 3_000, 3_000]);
    });
}

#[test]
fn an_occurrence_during_the_last_one_is_skipped_waits_or_overlaps() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let every = |overlap| doing(Spec::every("k", secs(2)), &waits(5)).overlap(overlap);
        world.set_in_background("skip", every(Overlap::Skip)).await;
        world
            .set_in_background("queue", every(Overlap::Queue))
            .await;
        world
            .set_in_background("allow", every(Overlap::Allow))
            .await;
        let all = every(Overlap::Queue).misfire(Misfire::All);
        world.set_in_background("each", all).await;
        world.pass(secs(18), STEP).await;
        // The first is on its way from 2 to 7 s.
        assert_eq!(world.background_dues("skip").await, at(start, &[2, 8]));
        assert_eq!(world.background_dues("queue").await, at(start, &[2, 6, 12]));
        assert_eq!(world.background_dues("each").await, at(start, &[2, 4, 6]));
        assert_eq!(
            world.background_dues("allow").await,
            at(start, &[2, 4, 6, 8, 10, 12])
        );
    });
}

#[test]
fn an_attempt_that_takes_too_long_is_dropped_and_repeated() {
    run(async {
        let world = World::new(plain().timeout(secs(3)));
        let start = world.now();
        world
            .set_in_background("t", doing(Spec::once("k", start), &waits(60)))
            .await;
        world.pass(secs(60), STEP).await;
        let timer = world.background_timer("t").await;
        assert_eq!(timer.phase, Phase::Failed);
        let run = timer.run.unwrap();
        assert_eq!(run.attempts, 4);
        assert!(run.last_error.unwrap().contains("within 3 s"));
        assert_eq!(world.background_dues("t").await, NONE);
    });
}

#[test]
fn a_handler_that_panics_has_failed_and_cuts_off_no_other() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let mut panics = waits(1);
        panics.panics = 99;
        world
            .set_in_background("bad", doing(Spec::once("k", start), &panics))
            .await;
        world
            .set_in_background("good", doing(Spec::once("k", start), &waits(15)))
            .await;
        world.pass(secs(20), STEP).await;
        assert_eq!(world.calls.attempts("bad"), [1, 2, 3, 4]);
        assert_eq!(world.calls.attempts("good"), [1]);
        let bad = world.background_timer("bad").await;
        assert_eq!(bad.phase, Phase::Failed);
        let error = bad.run.unwrap().last_error.unwrap();
        assert!(
            error.starts_with("the handler panicked; the log") && !error.contains("as the test"),
            "{error}"
        );
    });
}

#[test]
fn a_long_queue_of_timers_outlives_one_task() {
    run(async {
        let world = World::new(plain().concurrency(1));
        let start = world.now();
        for number in 0..12 {
            let spec = doing(Spec::once("k", start), &waits(5));
            world.set_in_background(&number.to_string(), spec).await;
        }
        // A step ends one of them.
        world.pass(secs(70), secs(5)).await;
        let effects = world.background().effects().await.unwrap();
        assert_eq!(effects.len(), 12);
        assert!(world.calls.all().iter().all(|firing| firing.attempt == 1));
    });
}

#[test]
fn a_firing_interrupted_by_a_kill_is_repeated_as_another_attempt() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world
            .set_in_background("t", doing(Spec::once("k", start), &waits(5)))
            .await;
        world.pass(secs(2), STEP).await;
        let mut world = world.killed();
        // The object is not called: its alarm does it.
        world.clock.advance(secs(40));
        world.pass(secs(30), secs(5)).await;
        assert_eq!(world.background_dues("t").await, at(start, &[0]));
        assert_eq!(world.calls.attempts("t"), [2]);
        world = world.killed();
        world.pass(secs(60), secs(5)).await;
        assert_eq!(world.background_dues("t").await, at(start, &[0]));
    });
}

#[test]
fn a_timer_that_was_canceled_or_set_anew_while_it_ran_is_not_repeated() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let mut fails = waits(5);
        fails.fails = 1;
        for name in ["canceled", "moved"] {
            world
                .set_in_background(name, doing(Spec::once("k", start), &fails))
                .await;
        }
        world.pass(secs(2), STEP).await;
        assert!(world.background().cancel("canceled".into()).await.unwrap());
        world
            .set_in_background("moved", Spec::once("k", start + 20_000))
            .await;
        world.pass(secs(30), STEP).await;
        assert_eq!(world.calls.attempts("canceled"), [1]);
        assert_eq!(world.calls.attempts("moved"), [1, 1]);
        // What an attempt in the background has written before it failed stays written.
        assert_eq!(world.background_dues("moved").await, at(start, &[0, 20]));
        assert_eq!(
            world
                .background()
                .scalar("SELECT count(*) FROM schedule_runs".into())
                .await
                .unwrap(),
            0
        );
    });
}
