//! Setting timers, and what is refused.

use abide::limits::schedule as limits;
use abide::schedule::{
    Overlap, Phase, RetryPolicy, ScheduleError, ScheduleOptions, Spec, Upserted,
};
use abide::{Error, ErrorKind};
use std::time::Duration;

use crate::schedule::support::{Deed, World, at, doing, failing, plain, run, secs};

#[test]
fn setting_a_timer_as_it_is_changes_nothing_also_when_it_has_ended() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let spec = Spec::once("a", start + 1_000);
        assert_eq!(world.set("t", spec.clone()).await, Upserted::Created);
        assert_eq!(world.set("t", spec.clone()).await, Upserted::Unchanged);
        world.pass(secs(2), secs(1)).await;
        assert_eq!(world.set("t", spec.clone()).await, Upserted::Unchanged);
        world.pass(secs(2), secs(1)).await;
        assert_eq!(world.dues("t").await, [start + 1_000]);
        // Another time is another timer.
        let next = Spec::once("a", start + 5_000);
        assert_eq!(world.set("t", next).await, Upserted::Replaced);
        world.pass(secs(2), secs(1)).await;
        assert_eq!(world.dues("t").await, [start + 1_000, start + 5_000]);
    });
}

#[test]
fn a_timer_that_repeats_keeps_its_rhythm_when_only_its_metadata_change() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world.set("t", Spec::every("a", secs(10))).await;
        world.pass(secs(4), secs(1)).await;
        let other = Spec::every("a", secs(10)).metadata("other").unwrap();
        assert_eq!(world.set("t", other.clone()).await, Upserted::Replaced);
        assert_eq!(world.timer("t").await.due_at, Some(start + 10_000));
        assert_eq!(world.timer("t").await.spec, other);
        world.set("t", Spec::every("a", secs(20))).await;
        assert_eq!(world.timer("t").await.due_at, Some(start + 24_000));
    });
}

#[test]
fn invalid_timers_are_refused_with_what_is_expected() {
    run(async {
        let world = World::new(plain());
        let refused = async |name: &str, spec: Spec| {
            let error = world
                .object()
                .upsert(name.to_owned(), spec)
                .await
                .unwrap_err();
            assert_eq!(
                Error::from(error.clone()).kind(),
                ErrorKind::Input,
                "{error}"
            );
            error.to_string()
        };
        let fine = || Spec::once("a", 1_000);
        assert!(refused("", fine()).await.contains("1 to 255"));
        assert!(refused(&"n".repeat(256), fine()).await.contains("1 to 255"));
        assert!(refused("n", Spec::once("", 0)).await.contains("1 to 64"));
        assert!(
            refused("n", Spec::once("k".repeat(65), 0))
                .await
                .contains("1 to 64")
        );
        let large = fine()
            .metadata(&"x".repeat(limits::MAX_METADATA_BYTES))
            .unwrap();
        assert!(refused("n", large).await.contains("at most 65536"));
        let mut broken = fine();
        broken.metadata = "{".to_owned();
        assert!(refused("n", broken).await.contains("not JSON"));
        assert!(
            refused("n", Spec::every("a", Duration::ZERO))
                .await
                .contains("100 ms")
        );
        assert!(
            refused("n", Spec::cron("a", "* * *", "UTC"))
                .await
                .contains("cannot be read")
        );
        assert!(
            refused("n", Spec::cron("a", "0 0 31 4 *", "UTC"))
                .await
                .contains("never")
        );
        assert!(
            refused("n", Spec::cron("a", "@daily", "Mars"))
                .await
                .contains("time zone")
        );
        let endless = RetryPolicy::Schedule(vec![secs(1); limits::MAX_WAITS + 1]);
        assert!(
            refused("n", fine().retry(endless))
                .await
                .contains("at most 100 waits")
        );
        let none = RetryPolicy::Exponential {
            base: secs(1),
            max: secs(1),
            max_attempts: 0,
        };
        assert!(refused("n", fine().retry(none)).await.contains("1 to 1000"));
        let there = world.object().list(None, 10).await.unwrap();
        assert_eq!(there, []);
    });
}

#[test]
fn what_is_asked_of_a_timer_that_is_not_there_or_not_so_is_refused() {
    run(async {
        let world = World::new(plain());
        let object = world.object();
        for answer in [
            object.run_now("t".into()).await,
            object.retry("t".into()).await,
            object.discard("t".into()).await,
        ] {
            assert!(
                matches!(answer, Err(ScheduleError::NotFound { .. })),
                "{answer:?}"
            );
        }
        assert!(!object.cancel("t".into()).await.unwrap());
        assert_eq!(object.get("t".into()).await.unwrap(), None);
        let fails = failing(1);
        world
            .set("t", doing(Spec::every("a", secs(100)), &fails))
            .await;
        for answer in [
            object.retry("t".into()).await,
            object.discard("t".into()).await,
        ] {
            assert!(
                matches!(answer, Err(ScheduleError::NotFailed { .. })),
                "{answer:?}"
            );
        }
        object.run_now("t".into()).await.unwrap();
        world.rest().await;
        assert_eq!(world.timer("t").await.phase, Phase::Retrying);
        let busy = object.run_now("t".into()).await;
        assert!(matches!(busy, Err(ScheduleError::Busy { .. })), "{busy:?}");
        world
            .set("t", Spec::every("a", secs(100)).overlap(Overlap::Allow))
            .await;
        object.run_now("t".into()).await.unwrap();
    });
}

#[test]
fn invalid_options_are_refused_when_the_object_starts() {
    run(async {
        let wrong = [
            ScheduleOptions::default().timeout(Duration::ZERO),
            ScheduleOptions::default().concurrency(0),
            ScheduleOptions::default().history(-1),
        ];
        for options in wrong {
            let world = World::new(options);
            let error = world.object().effects().await.unwrap_err();
            assert!(
                error.to_string().contains("invalid options of a schedule"),
                "{error}"
            );
        }
    });
}

#[test]
fn the_history_tells_what_happened_and_is_bounded() {
    run(async {
        let world = World::new(plain().history(5));
        world.set("t", Spec::every("a", secs(1))).await;
        world.pass(secs(3), secs(1)).await;
        assert_eq!(world.events("t").await, ["created", "done", "done", "done"]);
        world.pass(secs(7), secs(1)).await;
        world.object().cancel("t".into()).await.unwrap();
        assert_eq!(
            world.events("t").await,
            ["done", "done", "done", "done", "canceled"]
        );
        let all = world.object().history(None, 2).await.unwrap();
        assert_eq!(all.len(), 2);
    });
}

#[test]
fn timers_that_ended_are_forgotten_after_their_time() {
    run(async {
        let world = World::new(plain().keep_ended(secs(60)));
        let start = world.now();
        world.set("t", Spec::once("a", start)).await;
        world.set("often", Spec::every("a", secs(10))).await;
        world.pass(secs(50), secs(10)).await;
        assert_eq!(world.timer("t").await.phase, Phase::Ended);
        world.pass(secs(30), secs(10)).await;
        assert_eq!(world.object().get("t".into()).await.unwrap(), None);
        let counted = "SELECT timers * 1000 + ended FROM schedule_meta";
        assert_eq!(world.object().scalar(counted.into()).await.unwrap(), 1_000);
    });
}

#[test]
fn a_timer_after_a_time_goes_off_once_and_waits_again_when_it_has_ended() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let after = Spec::after("a", secs(10));
        assert_eq!(world.set("t", after.clone()).await, Upserted::Created);
        world.pass(secs(4), secs(1)).await;
        // It still waits: nothing changes, and another purpose keeps its time.
        assert_eq!(world.set("t", after.clone()).await, Upserted::Unchanged);
        let other = after.clone().metadata(&Deed::default()).unwrap();
        assert_eq!(world.set("t", other.clone()).await, Upserted::Replaced);
        world.pass(secs(30), secs(1)).await;
        assert_eq!(world.dues("t").await, at(start, &[10]));
        assert_eq!(world.timer("t").await.phase, Phase::Ended);
        assert_eq!(world.set("t", other).await, Upserted::Replaced);
        world.pass(secs(30), secs(1)).await;
        assert_eq!(world.dues("t").await, at(start, &[10, 44]));
    });
}

#[test]
fn a_timer_after_too_long_a_time_is_refused() {
    let error = Spec::after("a", Duration::MAX).check(0).unwrap_err();
    assert!(error.to_string().contains("100 years"), "{error}");
}
