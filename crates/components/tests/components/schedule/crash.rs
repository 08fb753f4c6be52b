//! Kills and power failures at every point.

use abide::schedule::{Misfire, Overlap, Phase, Spec};

use crate::schedule::support::{World, doing, failing, plain, run, secs};
use std::time::Duration;

/// Sets three timers, one of which fails once and one of which repeats, and lets four seconds pass.
async fn begin(world: &World) {
    let start = world.now();
    let fails = failing(1);
    let specs = vec![
        ("once".to_owned(), Spec::once("a", start + 1_000)),
        (
            "fails".to_owned(),
            doing(Spec::once("a", start + 1_000), &fails),
        ),
        (
            "often".to_owned(),
            Spec::every("a", secs(1))
                .misfire(Misfire::All)
                .overlap(Overlap::Queue),
        ),
    ];
    if world.object().upsert_all(specs).await.is_ok() {
        for _ in 0..8 {
            world.clock.advance(Duration::from_millis(500));
            for _ in 0..20 {
                if world.disk.has_stopped() || world.object().pulse().await.is_err() {
                    return;
                }
            }
        }
    }
}

#[test]
fn each_occurrence_has_its_effect_exactly_once_whenever_the_power_fails() {
    run(async {
        let world = World::new(plain());
        world.rest().await;
        let first = world.disk.changes();
        begin(&world).await;
        world.rest().await;
        let changes = world.disk.changes() - first;
        assert!(changes > 20, "there is something to interrupt");
        // At some thirty points, others each time the number of changes is another.
        let step = usize::try_from(changes / 30 + 1).unwrap();
        let mut interrupted = 0;
        for change in (0..changes).step_by(step) {
            let world = World::new(plain());
            let start = world.now();
            world.rest().await;
            world.disk.stop_at(world.disk.changes() + change);
            begin(&world).await;
            interrupted += u32::from(world.disk.has_stopped());
            let world = world.crashed(change);
            // What was set is there as a whole or not at all.
            let timers = world.object().list(None, 10).await.unwrap();
            if timers.is_empty() {
                continue;
            }
            assert_eq!(timers.len(), 3);
            world.pass(secs(15), secs(1)).await;
            assert_eq!(world.dues("once").await, [start + 1_000], "change {change}");
            assert_eq!(
                world.dues("fails").await,
                [start + 1_000],
                "change {change}"
            );
            assert_eq!(world.timer("fails").await.phase, Phase::Ended);
            let often = world.dues("often").await;
            let seconds: Vec<i64> = (1..=often.len())
                .map(|n| start + i64::try_from(n).unwrap() * 1_000)
                .collect();
            assert_eq!(often, seconds, "change {change}");
            assert!(often.len() >= 15, "change {change}");
        }
        assert!(interrupted > 5, "the power failed in the middle");
    });
}

#[test]
fn timers_go_off_after_a_kill_without_any_call() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        world.set("t", Spec::once("a", start + 5_000)).await;
        let world = world.killed();
        world.clock.advance(secs(5));
        for _ in 0..10_000 {
            if !world.calls.all().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        world.rest().await;
        assert_eq!(world.dues("t").await, [start + 5_000]);
    });
}
