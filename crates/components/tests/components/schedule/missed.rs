//! Occurrences that were missed because the node did not run.

use abide::schedule::{Misfire, Phase, Spec};

use crate::schedule::support::{NONE, World, plain, run, secs};

async fn down_for_an_hour(spec: Spec) -> (World, i64) {
    let world = World::new(plain());
    let start = world.now();
    world.set("t", spec).await;
    world.pass(secs(10 * 60), secs(60)).await;
    world.clock.advance(secs(0));
    let clock = world.clock.clone();
    let world = world.killed();
    // The node comes back an hour and five seconds later. It was down meanwhile.
    clock.set_wall(3_605_000);
    world.pass(secs(600), secs(5)).await;
    (world, start)
}

fn minutes(start: i64, minutes: &[i64]) -> Vec<i64> {
    minutes
        .iter()
        .map(|minute| start + minute * 60_000)
        .collect()
}

#[test]
fn of_those_that_were_missed_the_last_goes_off() {
    run(async {
        let every = Spec::every("a", secs(300));
        let (world, start) = down_for_an_hour(every).await;
        assert_eq!(world.dues("t").await, minutes(start, &[5, 10, 70, 75, 80]));
        assert!(world.events("t").await.contains(&"missed".to_owned()));
    });
}

#[test]
fn all_that_were_missed_go_off_in_their_order_if_wanted() {
    run(async {
        let every = Spec::every("a", secs(300)).misfire(Misfire::All);
        let (world, start) = down_for_an_hour(every).await;
        let all: Vec<i64> = (1..=16).map(|n| n * 5).collect();
        assert_eq!(world.dues("t").await, minutes(start, &all));
    });
}

#[test]
fn none_that_were_missed_goes_off_if_wanted() {
    run(async {
        // 8 minutes: the last that is missed is 6 minutes late.
        let every = Spec::every("a", secs(480)).misfire(Misfire::Skip);
        let (world, start) = down_for_an_hour(every).await;
        assert_eq!(world.dues("t").await, minutes(start, &[8, 72, 80]));
    });
}

#[test]
fn one_that_is_hardly_late_is_not_missed() {
    run(async {
        // 5 minutes: the last is 5 s late.
        let every = Spec::every("a", secs(300)).misfire(Misfire::Skip);
        let (world, start) = down_for_an_hour(every).await;
        assert_eq!(world.dues("t").await, minutes(start, &[5, 10, 70, 75, 80]));
    });
}

#[test]
fn cron_is_missed_as_intervals_are() {
    run(async {
        let world = World::new(plain());
        let hourly = |misfire| Spec::cron("a", "0 * * * *", "Asia/Kolkata").misfire(misfire);
        world.set("once", hourly(Misfire::Once)).await;
        world.set("all", hourly(Misfire::All)).await;
        world.set("skip", hourly(Misfire::Skip)).await;
        let next = world.timer("once").await.due_at.unwrap();
        world.clock.advance(secs(10 * 3_600));
        world.rest().await;
        let all: Vec<i64> = (0..10).map(|hour| next + hour * 3_600_000).collect();
        assert_eq!(world.dues("all").await, all);
        assert_eq!(world.dues("once").await, all[9..]);
        assert_eq!(world.dues("skip").await, NONE);
        assert_eq!(world.timer("skip").await.due_at, Some(all[9] + 3_600_000));
    });
}

#[test]
fn a_timer_that_goes_off_once_is_late_or_has_ended() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world.set("late", Spec::once("a", start + 1_000)).await;
        world
            .set(
                "never",
                Spec::once("a", start + 1_000).misfire(Misfire::Skip),
            )
            .await;
        world.clock.advance(secs(3_600));
        world.rest().await;
        assert_eq!(world.dues("late").await, [start + 1_000]);
        assert_eq!(world.dues("never").await, NONE);
        assert_eq!(world.timer("never").await.phase, Phase::Ended);
        assert_eq!(world.events("never").await, ["created", "missed"]);
    });
}

/// The number of firings before the first of a timer, if it has gone off.
async fn firings_before(world: &World, timer: &str) -> Option<i64> {
    let sql = format!(
        "SELECT iif(first IS NULL, -1, (SELECT count(*) FROM effects WHERE id < first))
         FROM (SELECT min(id) AS first FROM effects WHERE timer = '{timer}')"
    );
    let before = world.object().scalar(sql).await.unwrap();
    (before >= 0).then_some(before)
}

#[test]
fn a_timer_that_is_due_is_not_behind_the_catch_up_of_others() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        let minutely = Spec::every("m", secs(60)).misfire(Misfire::All);
        let specs = (0..150).map(|number| (format!("meter {number}"), minutely.clone()));
        let set = world.object().upsert_all(specs.collect()).await;
        set.unwrap();
        let charge = Spec::once("charge", start + 2 * 3_600_000);
        world.set("charge", charge).await;
        let world = world.killed();
        // Three hours down: the charge was due an hour ago, and each meter has missed 180 times. The clock moves after the
        // kill, which would otherwise count as the failure of a catch-up that had begun, and delay its next attempt.
        world.clock.advance(secs(3 * 3_600));
        world.set("new", Spec::once("charge", world.now())).await;
        // The catch-up continues while this one is set.
        let before_new = world
            .object()
            .scalar("SELECT count(*) FROM effects".to_owned());
        let before_new = before_new.await.unwrap();
        abide_harness::until("both have gone off", async || {
            firings_before(&world, "charge").await?;
            firings_before(&world, "new").await.map(drop)
        })
        .await;
        for (timer, already) in [("charge", 0), ("new", before_new)] {
            let before = firings_before(&world, timer).await.unwrap() - already;
            assert!(before <= 300, "{before} firings before `{timer}`");
        }
    });
}
