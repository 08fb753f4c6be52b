//! Alarms across crashes: of the process, as `kill -9` leaves it, and of the machine.

use abide::{
    Node,
    clock::TestClock,
    storage::{AlarmState, SimDisk},
};

use crate::{
    alarms::sleeper::{Dormitory, exact},
    support::run,
};

#[test]
fn an_alarm_that_was_acknowledged_goes_off_after_a_crash_of_the_machine() {
    run(async {
        for seed in 0..10 {
            let beds = Dormitory::new();
            beds.object("ada").set(1_000).await.unwrap();
            beds.object("bob").set(500).await.unwrap();
            beds.object("bob").set(2_000).await.unwrap();
            beds.object("cy").set(1_000).await.unwrap();
            beds.object("cy").delete().await.unwrap();
            let disk = beds.world.disk.crash(seed);
            let beds = Dormitory::on(TestClock::new(), disk, exact());
            beds.pass(1_000).await;
            assert_eq!(beds.notes("ada").len(), 1);
            assert_eq!(beds.notes("bob").len(), 0);
            beds.pass(1_000).await;
            assert_eq!((beds.notes("bob").len(), beds.notes("cy").len()), (1, 0));
        }
    });
}

#[test]
fn an_attempt_that_ended_its_process_is_retried_after_a_wait() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.signals.give("begun");
            std::future::pending().await
        });
        beds.object("ada").set(1_000).await.unwrap();
        beds.advance(1_000);
        beds.world.signals.wait("begun").await;
        let next = beds.killed();
        next.pass(1_999).await;
        assert_eq!(next.notes("ada"), [""; 0], "not at once");
        next.pass(1).await;
        // An attempt that has been counted may not have reached its handler yet.
        let has_begun = |_: &Node| !next.notes("ada").is_empty();
        next.world.until(has_begun).await;
        assert_eq!(next.notes("ada"), ["at 3000 for 1000 retry 1"]);
        assert_eq!(next.object("ada").get().await.unwrap(), None);
    });
}

/// A handler that crashes its process, and optionally first sets the next alarm. Returns in which seconds it was woken,
/// with the node restarted at once each time, and the last node.
async fn kills_whenever_it_wakes(seconds: i64, sets_again: bool) -> (Vec<i64>, Dormitory) {
    let mut beds = Dormitory::new();
    beds.object("ada").set(1_000).await.unwrap();
    let mut woken = Vec::new();
    for second in 1..=seconds {
        beds.script.then(async move |sleeper| {
            if sets_again {
                let storage = sleeper.ctx.storage();
                storage.set_alarm(std::time::Duration::ZERO)?;
            }
            tokio::task::yield_now().await;
            sleeper.ctx.storage().sync().await?;
            sleeper.signals.give("killed");
            std::future::pending().await
        });
        beds.pass(1_000).await;
        // A counted attempt may not have reached its handler yet.
        let has_begun = || !beds.notes("ada").is_empty();
        let is_idle = |node: &Node| node.store().alarms().counts().in_flight == 0;
        beds.world.until(|node| has_begun() || is_idle(node)).await;
        if has_begun() {
            woken.push(second);
            beds.world.signals.wait("killed").await;
            beds = beds.killed();
        }
    }
    (woken, beds)
}

#[test]
fn an_object_that_always_kills_its_process_does_not_loop_the_node() {
    run(async {
        let (woken, beds) = kills_whenever_it_wakes(300, false).await;
        assert_eq!(woken, [1, 3, 7, 15, 31, 63, 127, 255]);
        let node = &beds.world.node;
        assert_eq!(node.stats().alarms_failed, 0, "the cause may be another");
        let listed = &node.alarms(AlarmState::Failing, None, 10)[0];
        assert_eq!(listed.attempts, 8);
        // Its first attempt ran freely and its second with a few others; the eighth is recorded when the ninth begins.
        let ada = beds.object("ada");
        let alarms = node.alarms_of(ada.untyped()).await.unwrap();
        let counted: Vec<_> = alarms.iter().map(|a| (a.cut_off, a.crashes)).collect();
        assert_eq!(counted, [(7, 5)]);
    });
}

#[test]
fn a_crashing_handler_that_resets_its_alarm_waits_longer_each_time() {
    run(async {
        let (woken, beds) = kills_whenever_it_wakes(600, true).await;
        assert_eq!(woken, [1, 3, 7, 15, 31, 63, 127, 255, 511]);
        // Each of its alarms is new, so none is given up.
        assert_eq!(beds.world.node.stats().alarms_failed, 0);
    });
}

#[test]
fn an_alarm_set_by_its_handler_survives_a_crash() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper
                .ctx
                .storage()
                .set_alarm(crate::alarms::sleeper::time(60_000))?;
            sleeper.ctx.storage().sync().await?;
            sleeper.signals.give("set");
            std::future::pending().await
        });
        beds.object("ada").set(1_000).await.unwrap();
        beds.advance(1_000);
        beds.world.signals.wait("set").await;
        let next = beds.killed();
        assert_eq!(next.object("ada").get().await.unwrap(), Some(60_000));
        next.pass(58_999).await;
        assert_eq!(next.notes("ada"), [""; 0]);
        next.pass(1).await;
        assert_eq!(next.notes("ada").len(), 1);
    });
}

#[test]
fn a_handler_that_has_finished_does_not_run_again_after_a_crash() {
    run(async {
        let beds = Dormitory::new();
        beds.object("ada").set(1_000).await.unwrap();
        beds.pass(1_000).await;
        beds.world
            .until(|node| node.stats().alarms_pending == 0)
            .await;
        // The answer to this leaves when the handler's end is durable.
        beds.object("ada").get().await.unwrap();
        let next = beds.killed();
        next.pass(100_000).await;
        assert_eq!(next.notes("ada"), [""; 0]);
    });
}

#[test]
fn alarms_are_neither_lost_nor_early_wherever_the_power_is_cut() {
    run(async {
        // A dry run counts the changes of the disk.
        let changes = life(SimDisk::new()).await.0.changes();
        for stop in (0..changes).step_by(3) {
            let disk = SimDisk::new();
            disk.stop_at(stop);
            let (disk, acknowledged) = life(disk).await;
            let disk = disk.crash(stop);
            let beds = Dormitory::on(TestClock::new(), disk, exact());
            beds.pass(9_999).await;
            assert_eq!(beds.notes("s"), [""; 0], "cut at {stop}");
            beds.pass(40_001).await;
            for name in acknowledged {
                assert_eq!(beds.notes(&name).len(), 1, "{name}, cut at {stop}");
            }
        }
    });
}

/// Sets alarms, moves some, takes checkpoints, until the disk stops. Returns whose alarms must go off.
async fn life(disk: SimDisk) -> (SimDisk, Vec<String>) {
    let mut acknowledged = Vec::new();
    let store = abide::storage::Store::open(
        std::sync::Arc::new(disk.clone()),
        std::path::Path::new("/data"),
        abide::storage::StoreOptions::small(),
    );
    let Ok(store) = store else {
        return (disk, acknowledged);
    };
    let script = crate::alarms::sleeper::Script::default();
    let node = abide::Node::builder(store)
        .class::<crate::alarms::sleeper::Sleeper>(exact())
        .with(script)
        .with(crate::support::Signals::default())
        .clock(std::sync::Arc::new(TestClock::new()))
        .workers(1)
        .start();
    let Ok(node) = node else {
        return (disk, acknowledged);
    };
    for number in 0..12 {
        let name = format!("s{number:02}");
        let sleeper = node
            .env()
            .object::<crate::alarms::sleeper::Sleeper>()
            .get_by_name(&name);
        let set = async |millis| sleeper.set(millis).await.is_ok();
        if !set(20_000).await {
            break;
        }
        acknowledged.push(name);
        // Whether it moves or not, it goes off after 10 s and before 50 s.
        if !set(if number % 2 == 0 { 10_000 } else { 30_000 }).await {
            break;
        }
        if number % 4 == 3 && node.store().checkpoint().is_err() {
            break;
        }
    }
    (disk, acknowledged)
}
