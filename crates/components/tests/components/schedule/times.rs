//! When timers go off.

use std::time::Duration;

use abide::schedule::{Phase, Spec, Upserted};
use jiff::Timestamp;

use crate::schedule::support::{Deed, NONE, World, doing, plain, run, secs};

#[test]
fn timers_go_off_at_their_times_the_earliest_first() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world.set("late", Spec::once("a", start + 3_000)).await;
        world.set("soon", Spec::once("b", start + 1_000)).await;
        world.set("often", Spec::every("c", secs(2))).await;
        world.pass(Duration::from_millis(999), secs(1)).await;
        assert_eq!(world.calls.all(), []);
        world
            .pass(Duration::from_millis(4_001), Duration::from_millis(1))
            .await;
        let effects = world.object().effects().await.unwrap();
        let at = |name: &str, after: i64| (name.to_owned(), start + after, start + after);
        assert_eq!(
            effects,
            [
                at("soon", 1_000),
                at("often", 2_000),
                at("late", 3_000),
                at("often", 4_000)
            ]
        );
        assert_eq!(world.timer("soon").await.phase, Phase::Ended);
        assert_eq!(world.timer("often").await.phase, Phase::Waiting);
        assert_eq!(world.timer("often").await.due_at, Some(start + 6_000));
    });
}

#[test]
fn a_timer_whose_time_has_passed_goes_off_at_once() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world.set("now", Spec::once("a", start - 1_000)).await;
        world.rest().await;
        assert_eq!(world.dues("now").await, [start - 1_000]);
        world.set("first", Spec::once("a", 0)).await;
        world.rest().await;
        assert_eq!(world.dues("first").await, [0]);
    });
}

#[test]
fn intervals_do_not_drift_and_can_be_counted_from_a_time() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let spec = Spec::every("a", secs(10)).starting(start + 500);
        world.set("tick", spec).await;
        // Always late, since the clock is moved in steps of 7 s.
        world.pass(secs(42), secs(7)).await;
        let dues: Vec<i64> = (0..5).map(|n| start + 500 + n * 10_000).collect();
        assert_eq!(world.dues("tick").await, dues);
    });
}

#[test]
fn cron_follows_the_clocks_of_its_time_zone_over_both_jumps() {
    run(async {
        let world = World::new(plain());
        // From a day before the clocks in Berlin go forward to the day after they have gone back.
        let begin: Timestamp = "2026-03-28T00:00:00Z".parse().unwrap();
        world.clock.set_wall(begin.as_millisecond() - world.now());
        let daily = Spec::cron("a", "30 2 * * *", "Europe/Berlin");
        world.set("daily", daily).await;
        world.pass(secs(212 * 24 * 3_600), secs(6 * 3_600)).await;
        let dues = world.dues("daily").await;
        let days: Vec<String> = dues
            .iter()
            .map(|due| Timestamp::from_millisecond(*due).unwrap().to_string())
            .collect();
        assert_eq!(days.len(), 212, "one each day");
        assert_eq!(
            days[..3],
            [
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z"
            ]
        );
        assert_eq!(days[211], "2026-10-25T00:30:00Z");
    });
}

#[test]
fn each_time_of_a_list_goes_off_once_a_day_over_both_jumps() {
    run(async {
        let world = World::new(plain());
        let begin: Timestamp = "2026-03-27T12:00:00Z".parse().unwrap();
        world.clock.set_wall(begin.as_millisecond() - world.now());
        let list = Spec::cron("a", "0,30 2 * * *", "Europe/Berlin");
        world.set("list", list).await;
        world.pass(secs(3 * 24 * 3_600), secs(600)).await;
        let shown = |due: &i64| Timestamp::from_millisecond(*due).unwrap().to_string();
        let dues: Vec<String> = world.dues("list").await.iter().map(shown).collect();
        // On 29 March neither 02:00 nor 02:30 exists, and 03:00 is the moment at which both have passed.
        assert_eq!(
            dues,
            [
                "2026-03-28T01:00:00Z",
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:00:00Z",
                "2026-03-30T00:30:00Z"
            ]
        );
        let begin: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
        world.clock.set_wall(begin.as_millisecond() - world.now());
        let list = Spec::cron("a", "30 1,2,3 * * *", "America/New_York");
        world.set("twice", list).await;
        world.pass(secs(24 * 3_600), secs(600)).await;
        let dues: Vec<String> = world.dues("twice").await.iter().map(shown).collect();
        assert_eq!(
            dues,
            [
                "2026-11-01T05:30:00Z",
                "2026-11-01T07:30:00Z",
                "2026-11-01T08:30:00Z"
            ]
        );
    });
}

#[test]
fn a_handler_can_set_and_cancel_timers_its_own_as_well() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let again = Deed {
            again: Some(secs(1)),
            ..Deed::default()
        };
        world
            .set("chain", doing(Spec::once("a", start), &again))
            .await;
        // Both are due at once, and the first cancels the second.
        let cancels = Deed {
            cancels: Some("victim".to_owned()),
            ..Deed::default()
        };
        world
            .set("killer", doing(Spec::once("a", start + 500), &cancels))
            .await;
        world.set("victim", Spec::once("a", start + 500)).await;
        world
            .pass(Duration::from_millis(2_500), Duration::from_millis(500))
            .await;
        assert_eq!(
            world.dues("chain").await,
            [start, start + 1_000, start + 2_000]
        );
        assert_eq!(world.dues("killer").await, [start + 500]);
        assert_eq!(world.dues("victim").await, NONE);
        world.object().cancel("chain".into()).await.unwrap();
        world.pass(secs(3), secs(1)).await;
        assert_eq!(world.dues("chain").await.len(), 3);
    });
}

#[test]
fn a_timer_can_go_off_by_hand() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world.set("once", Spec::once("a", start + 10_000)).await;
        world.set("often", Spec::every("a", secs(10))).await;
        for name in ["once", "often"] {
            world.object().run_now(name.into()).await.unwrap();
        }
        world.rest().await;
        assert_eq!(world.dues("once").await, [start + 10_000]);
        assert_eq!(world.dues("often").await, [start]);
        world.pass(secs(10), secs(1)).await;
        assert_eq!(
            world.dues("once").await,
            [start + 10_000],
            "it has gone off"
        );
        assert_eq!(world.dues("often").await, [start, start + 10_000]);
        world.object().run_now("once".into()).await.unwrap();
        world.rest().await;
        assert_eq!(world.dues("once").await.len(), 2);
        assert_eq!(world.timer("once").await.phase, Phase::Ended);
    });
}

#[test]
fn a_timer_that_was_moved_goes_off_at_its_new_time_alone() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world.set("trial", Spec::once("a", start + 1_000)).await;
        let moved = world.set("trial", Spec::once("a", start + 5_000)).await;
        assert_eq!(moved, Upserted::Replaced);
        world.pass(secs(10), secs(1)).await;
        assert_eq!(world.dues("trial").await, [start + 5_000]);
    });
}
