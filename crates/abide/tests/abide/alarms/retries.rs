//! Failed attempts: when they are retried, and what is counted.

use std::time::Duration;

use abide::{
    AlarmRetry,
    clock::TestClock,
    prelude::*,
    storage::{AlarmState, SimDisk},
};

use crate::{
    alarms::sleeper::{Dormitory, giving_up_after},
    support::run,
};

/// The times at which an object's handlers ran.
fn times(beds: &Dormitory, name: &str) -> Vec<i64> {
    let notes = beds.notes(name);
    let time = |note: &String| {
        let (_, rest) = note.split_once("at ").unwrap();
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    notes.iter().map(time).collect()
}

#[test]
fn a_failed_alarm_is_retried_after_two_seconds_with_doubling_waits() {
    run(async {
        let beds = Dormitory::new();
        beds.script.fail(3).panic().fail(2);
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        for _ in 0..1_400 {
            beds.pass(100).await;
        }
        assert_eq!(
            times(&beds, "ada"),
            [1_000, 3_000, 7_000, 15_000, 31_000, 63_000, 127_000]
        );
        let notes = beds.notes("ada");
        assert_eq!(notes[6], "at 127000 for 1000 retry 6");
        assert_eq!(ada.get().await.unwrap(), None, "the last succeeded");
        let stats = beds.world.node.stats();
        assert_eq!(stats.alarms_retried, 6);
        assert_eq!((stats.alarms_failed, stats.alarms_given_up), (0, 0));
    });
}

#[test]
fn the_wait_before_a_retry_is_up_to_a_quarter_longer() {
    run(async {
        let clock = TestClock::new();
        let beds = Dormitory::on(clock, SimDisk::new(), ClassOptions::default());
        beds.script.fail(30);
        for number in 0..30 {
            beds.object(&format!("s{number:02}"))
                .set(1_000)
                .await
                .unwrap();
        }
        beds.pass(1_000).await;
        for _ in 0..60 {
            beds.pass(10).await;
        }
        beds.advance(1_380);
        let early = beds.notes("s").len() - 30;
        assert_eq!(early, 0, "none before two seconds");
        for _ in 0..53 {
            beds.pass(10).await;
        }
        let times: std::collections::BTreeSet<_> = times(&beds, "s")
            .into_iter()
            .filter(|time| *time > 1_000)
            .collect();
        assert_eq!(beds.notes("s").len(), 60, "all within two and a half");
        assert!(times.len() > 5, "they part: {times:?}");
    });
}

#[test]
fn a_class_may_retry_forever_with_a_cap() {
    run(async {
        let options = ClassOptions::default().alarm_retry(
            AlarmRetry::for_ever(Duration::from_secs(3))
                .base(Duration::from_millis(500))
                .jitter(0.0),
        );
        let beds = Dormitory::on(TestClock::new(), SimDisk::new(), options);
        beds.script.fail(100);
        beds.object("ada").set(500).await.unwrap();
        for _ in 0..60 {
            beds.pass(500).await;
        }
        let times = times(&beds, "ada");
        assert_eq!(times[..5], [500, 1_000, 2_000, 4_000, 7_000]);
        assert_eq!(times.last(), Some(&28_000));
        assert_eq!(times.len(), 12);
        assert_eq!(beds.world.node.stats().alarms_given_up, 0);
    });
}

#[test]
fn an_alarm_is_tried_until_it_succeeds_at_most_an_hour_apart() {
    run(async {
        let beds = Dormitory::new();
        beds.script.fail(40);
        beds.object("ada").set(1_000).await.unwrap();
        for _ in 0..2_100 {
            beds.pass(60_000).await;
        }
        let times = times(&beds, "ada");
        assert_eq!(times.len(), 41);
        let hour = 3_600_000;
        assert!(times[39] - times[38] <= hour + 60_000, "{times:?}");
        assert_eq!(beds.world.node.stats().alarms_given_up, 0);
        assert_eq!(beds.object("ada").get().await.unwrap(), None);
    });
}

#[test]
fn an_alarm_set_from_outside_takes_the_place_of_its_retries() {
    run(async {
        let beds = Dormitory::new();
        beds.script.fail(1);
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.pass(1_000).await;
        assert_eq!(ada.get().await.unwrap(), Some(1_000), "it will be retried");
        ada.set(10_000).await.unwrap();
        beds.pass(8_000).await;
        assert_eq!(times(&beds, "ada"), [1_000]);
        beds.pass(2_000).await;
        assert_eq!(beds.notes("ada")[1], "at 11000 for 10000 retry 0");
    });
}

#[test]
fn the_retry_count_survives_a_restart() {
    run(async {
        let options = giving_up_after(6);
        let beds = Dormitory::on(TestClock::new(), SimDisk::new(), options.clone());
        beds.script.fail(3);
        beds.object("ada").set(1_000).await.unwrap();
        for _ in 0..7 {
            beds.pass(1_000).await;
        }
        assert_eq!(times(&beds, "ada"), [1_000, 3_000, 7_000]);
        let clock = beds.world.clock.clone();
        let disk = beds.world.stop().await;
        let beds = Dormitory::on(clock, disk, options);
        beds.script.fail(4);
        for _ in 0..150 {
            beds.pass(1_000).await;
        }
        let notes = beds.notes("ada");
        assert_eq!(notes[0], "at 15000 for 1000 retry 3");
        assert_eq!(notes.len(), 4, "seven attempts in all: {notes:?}");
        let failed = beds.world.node.alarms(AlarmState::Failed, None, 10);
        assert_eq!(failed[0].attempts, 7);
    });
}

#[test]
fn a_constructor_that_fails_or_panics_counts_as_an_attempt() {
    run(async {
        let world = crate::support::World::new(|node| node.class::<Unmade>(giving_up_after(6)));
        let unmade = world.env().object::<Unmade>().get_by_name("a");
        unmade.set().await.unwrap();
        world.clock.advance(Duration::from_secs(10));
        world.until(|node| node.stats().evicted == 1).await;
        world.signals.note("refuse");
        world.clock.advance(Duration::from_secs(10));
        world.until(|node| node.stats().alarms_fired == 1).await;
        for attempts in 2..=7 {
            world
                .until(|node| node.stats().resets == u64::from(attempts) - 1)
                .await;
            world.fence().await;
            assert!(pending(&world.node, attempts - 1));
            world
                .clock
                .advance(Duration::from_secs(1 << (attempts - 1)));
            world
                .until(|node| node.stats().alarms_fired == u64::from(attempts))
                .await;
        }
        world.until(|node| node.stats().alarms_failed == 1).await;
        assert_eq!(world.node.stats().alarms_given_up, 1);
    });
}

/// True if an alarm waits after this many attempts, for a time that is to come.
fn pending(node: &abide::Node, attempts: u32) -> bool {
    let now = node.env().now().unix_millis();
    let alarms = node.alarms(AlarmState::Pending, None, 10);
    alarms
        .iter()
        .any(|alarm| alarm.attempts == attempts && alarm.due.unix_millis() > now)
}

/// An object whose constructor can be made to fail.
#[durable_object]
struct Unmade {
    ctx: Ctx,
}

impl DurableObject for Unmade {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = crate::support::signals(&env);
        if signals.notes() == ["refuse"] {
            signals.note("refused once");
            return Err("it cannot be made".into());
        }
        assert!(signals.notes().is_empty(), "it really cannot be made");
        Ok(Self { ctx })
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        unreachable!("it cannot be made");
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Unmade {
    pub async fn set(&self) -> Result<()> {
        self.ctx.storage().set_alarm(Duration::from_secs(20))
    }
}

#[test]
fn a_handler_that_does_not_finish_in_time_has_failed() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.signals.give("begun");
            std::future::pending().await
        });
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.advance(1_000);
        beds.world.signals.wait("begun").await;
        beds.advance(300_000);
        beds.broken(1).await;
        beds.pass(2_000).await;
        assert_eq!(beds.notes("ada")[1], "at 303000 for 1000 retry 1");
    });
}

#[test]
fn an_object_that_resets_itself_in_its_handler_has_failed() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.ctx.abort("enough");
            Ok(())
        });
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.pass(1_000).await;
        beds.broken(1).await;
        beds.pass(2_000).await;
        assert_eq!(beds.notes("ada").len(), 2);
    });
}
