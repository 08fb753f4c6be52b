//! Clock changes.

use abide::{clock::Clock as _, schedule::Spec};

use crate::schedule::support::{NONE, World, doing, failing, plain, run, secs};

const HOUR: i64 = 3_600_000;

#[test]
fn a_clock_that_is_set_back_a_little_repeats_no_time_and_loses_none() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let hourly = Spec::every("a", secs(3_600)).starting(start);
        world.set("hourly", hourly).await;
        world.set("cron", Spec::cron("a", "0 * * * *", "UTC")).await;
        world
            .set("once", Spec::once("a", start + 3 * HOUR + 1))
            .await;
        world.pass(secs(2 * 3_600), secs(600)).await;
        world.clock.set_wall(-HOUR - HOUR / 2);
        world.pass(secs(4 * 3_600), secs(600)).await;
        let hours: Vec<i64> = (0..=4).map(|hour| start + hour * HOUR).collect();
        assert_eq!(world.dues("hourly").await, hours);
        let crons = world.dues("cron").await;
        assert!(
            crons.windows(2).all(|pair| pair[1] - pair[0] == HOUR),
            "{crons:?}"
        );
        assert_eq!(world.dues("once").await, [start + 3 * HOUR + 1]);
    });
}

#[test]
fn a_clock_that_was_far_ahead_leaves_no_timer_waiting_for_years() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world
            .set("hourly", Spec::every("a", secs(3_600)).starting(start))
            .await;
        world.set("plain", Spec::every("a", secs(3_600))).await;
        world.set("cron", Spec::cron("a", "0 * * * *", "UTC")).await;
        world.rest().await;
        let year = 366 * 24 * HOUR;
        world.clock.set_wall(year);
        // Alarms notice within some seconds that the clock was set.
        world.pass(secs(60), secs(5)).await;
        world.clock.set_wall(-year);
        // It is noticed when the object is next used.
        world.set("other", Spec::once("a", start)).await;
        world.pass(secs(3 * 3_600), secs(600)).await;
        for name in ["hourly", "plain", "cron"] {
            let now = world.now();
            let dues = world.dues(name).await;
            let recent = dues
                .iter()
                .filter(|due| **due <= now && **due > start)
                .count();
            assert_eq!(recent, 3, "{name}: {dues:?}");
            assert!(
                dues.iter().filter(|due| **due > now).count() <= 1,
                "{name}: {dues:?}"
            );
        }
    });
}

#[test]
fn an_idle_schedule_retries_on_time_although_the_clock_was_set_back() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let fails = failing(1);
        world.set("t", doing(Spec::once("a", start), &fails)).await;
        world.set("plain", Spec::every("a", secs(60))).await;
        world.rest().await;
        assert_eq!(world.calls.attempts("t"), [1]);
        world.clock.set_wall(-2 * HOUR);
        world.pass(secs(6), secs(1)).await;
        assert_eq!(world.calls.attempts("t"), [1, 2]);
        world.pass(secs(60), secs(5)).await;
        assert!(!world.dues("plain").await.is_empty());
    });
}

#[test]
fn a_retry_does_not_wait_longer_because_the_clock_was_set_back() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let fails = failing(1);
        world.set("t", doing(Spec::once("a", start), &fails)).await;
        world.rest().await;
        assert_eq!(world.calls.attempts("t"), [1]);
        world.clock.set_wall(-2 * HOUR);
        world.set("other", Spec::once("a", start)).await;
        world.pass(secs(2), secs(1)).await;
        assert_eq!(world.calls.attempts("t"), [1, 2]);
        assert_eq!(world.dues("other").await, NONE, "its time is yet to come");
    });
}

#[test]
fn a_timer_after_a_time_is_not_late_because_the_clock_was_set_back() {
    run(async {
        let world = World::new(plain());
        let begun = world.clock.now();
        world.set("t", Spec::after("a", secs(60))).await;
        world.pass(secs(20), secs(1)).await;
        world.clock.set_wall(-3_600_000);
        world.pass(secs(39), secs(1)).await;
        assert_eq!(world.calls.all().len(), 0);
        world.pass(secs(10), secs(1)).await;
        assert_eq!(world.calls.all().len(), 1);
        assert!(world.clock.now() < begun + secs(70));
    });
}
