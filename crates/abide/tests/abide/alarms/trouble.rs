//! Alarms during other faults: a process that crashes, a node that shuts down, a failed delete, a lost file, a full
//! disk.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use abide::{
    AlarmRetry,
    clock::{Clock, Sleep, TestClock},
    prelude::*,
    storage::{AlarmState, SimDisk},
};

use crate::{
    alarms::sleeper::{Dormitory, Script, Sleeper, exact, time},
    support::{Signals, World, run},
};

/// A new alarm, set and acknowledged by a handler in its last attempt, is given up after a kill without ever running.
#[test]
fn an_alarm_that_the_last_attempt_has_set_goes_off_after_a_crash() {
    run(async {
        let options =
            ClassOptions::default().alarm_retry(AlarmRetry::default().max_retries(0).jitter(0.0));
        let beds = Dormitory::on(TestClock::new(), SimDisk::new(), options.clone());
        beds.script.then(async |sleeper| {
            sleeper.ctx.storage().set_alarm(time(60_000))?;
            sleeper.ctx.storage().sync().await?;
            sleeper.signals.give("set");
            std::future::pending().await
        });
        beds.object("ada").set(1_000).await.unwrap();
        beds.advance(1_000);
        beds.world.signals.wait("set").await;
        let next = Dormitory::on(
            beds.world.clock.clone(),
            beds.world.disk.after_kill(),
            options,
        );
        assert_eq!(next.object("ada").get().await.unwrap(), Some(60_000));
        next.pass(59_000).await;
        next.pass(1_000_000).await;
        assert_eq!(next.world.node.alarms(AlarmState::Failed, None, 10), []);
        assert_eq!(next.notes("ada").len(), 1);
    });
}

#[test]
fn an_alarm_that_the_seventh_attempt_has_set_goes_off_after_a_crash() {
    run(async {
        let beds = Dormitory::new();
        beds.script.fail(6);
        beds.script.then(async |sleeper| {
            // The handler knows that this is its last attempt, and comes back in an hour.
            sleeper.ctx.storage().set_alarm(time(3_600_000))?;
            sleeper.ctx.storage().sync().await?;
            sleeper.signals.give("set");
            std::future::pending().await
        });
        beds.object("ada").set(1_000).await.unwrap();
        for _ in 0..127 {
            beds.pass(1_000).await;
        }
        beds.world.signals.wait("set").await;
        let next = Dormitory::on(
            beds.world.clock.clone(),
            beds.world.disk.after_kill(),
            exact(),
        );
        assert_eq!(next.object("ada").get().await.unwrap(), Some(3_600_000));
        next.pass(4_000_000).await;
        next.pass(4_000_000).await;
        assert_eq!(next.world.node.alarms(AlarmState::Failed, None, 10), []);
        assert_eq!(next.notes("ada").len(), 1);
    });
}

#[derive(Clone)]
struct Counting(TestClock, Arc<AtomicU64>);
impl Clock for Counting {
    fn now(&self) -> Duration {
        self.0.now()
    }
    fn unix_millis(&self) -> u64 {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unix_millis()
    }
    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.0.sleep_until(deadline)
    }
}

/// While a node drains, an alarm that is due makes the scheduler spin.
#[test]
fn the_scheduler_sleeps_while_the_node_drains() {
    run(async {
        let clock = Counting(TestClock::new(), Arc::default());
        let script = Script::default();
        let world = World::on(SimDisk::new(), 1, |node| {
            node.class::<Sleeper>(exact())
                .with(script.clone())
                .clock(Arc::new(clock.clone()))
        });
        script.then(async |sleeper| {
            sleeper.signals.give("begun");
            sleeper.signals.wait("go").await;
            Ok(())
        });
        let bed = |name: &str| world.env().object::<Sleeper>().get_by_name(name);
        bed("ada").set(1_000).await.unwrap();
        bed("bob").set(2_000).await.unwrap();
        clock.0.advance(Duration::from_secs(1));
        world.signals.wait("begun").await;
        let node = world.node.clone();
        let stopping = tokio::spawn(async move { node.shutdown(Duration::from_mins(1)).await });
        while bed("ada").get().await.is_ok() {
            tokio::task::yield_now().await;
        }
        clock.0.advance(Duration::from_secs(1));
        let before = clock.1.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let asked = clock.1.load(Ordering::SeqCst) - before;
        world.signals.give("go");
        stopping.await.unwrap().unwrap();
        assert!(
            asked < 100,
            "the scheduler looked at the clock {asked} times in half a second"
        );
    });
}

/// `delete_all` that fails in a handler loses the alarm, in silence.
#[test]
fn a_delete_all_that_fails_does_not_take_the_alarm_with_it() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            let sql = sleeper.ctx.sql();
            sql.exec("CREATE TABLE t (n INTEGER)", ())?;
            sql.exec("INSERT INTO t VALUES (1), (2)", ())?;
            let storage = sleeper.ctx.storage();
            sql.for_each("SELECT n FROM t", (), |_| storage.delete_all())?;
            Ok(())
        });
        beds.object("ada").set(1_000).await.unwrap();
        beds.pass(1_000).await;
        for _ in 0..20 {
            beds.pass(1_000).await;
        }
        assert_eq!(beds.notes("ada").len(), 2, "{:?}", beds.notes("ada"));
    });
}

/// As above, and then the object thinks forever that a handler runs.
#[test]
fn after_a_delete_all_that_fails_the_alarm_can_be_set_and_read() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            let sql = sleeper.ctx.sql();
            sql.exec("CREATE TABLE t (n INTEGER)", ())?;
            sql.exec("INSERT INTO t VALUES (1), (2)", ())?;
            let storage = sleeper.ctx.storage();
            let _ = sql.for_each("SELECT n FROM t", (), |_| storage.delete_all());
            Ok(())
        });
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.pass(1_000).await;
        ada.set(9_000).await.unwrap();
        assert_eq!(ada.get().await.unwrap(), Some(9_000));
    });
}

/// An alarm in flight when its node stopped goes off on the next node of the same store.
#[test]
fn the_next_node_of_a_store_rings_what_was_in_flight() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.signals.give("begun");
            std::future::pending().await
        });
        beds.object("ada").set(1_000).await.unwrap();
        beds.advance(1_000);
        beds.world.signals.wait("begun").await;
        let store = beds.world.node.store().clone();
        let clock = beds.world.clock.clone();
        let node = beds.world.node.clone();
        let stop = tokio::spawn(async move { node.shutdown(Duration::ZERO).await });
        stop.await.unwrap().unwrap();
        let signals = Signals::default();
        let script = Script::default();
        let _node = abide::Node::builder(store.clone())
            .class::<Sleeper>(exact())
            .with(script)
            .with(signals.clone())
            .clock(Arc::new(clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        clock.advance(Duration::from_secs(100));
        signals.wait("ada fired").await;
    });
}

/// The usual constructor: "if there is no alarm, set one".
#[durable_object]
struct Periodic {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Periodic {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let alarm = ctx.storage().alarm()?;
        let signals = crate::support::signals(&env);
        signals.note(format!(
            "made with {}",
            if alarm.is_some() { "an alarm" } else { "none" }
        ));
        Ok(Self { ctx, signals })
    }
    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        self.signals.give("fired");
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Periodic {
    pub async fn set(&self) -> Result<()> {
        self.ctx.storage().set_alarm(Duration::from_hours(1))
    }
}

#[test]
fn a_constructor_that_an_alarm_wakes_sees_the_alarm() {
    run(async {
        let world = World::new(|node| node.class::<Periodic>(exact()));
        world
            .env()
            .object::<Periodic>()
            .get_by_name("a")
            .set()
            .await
            .unwrap();
        world.clock.advance(Duration::from_secs(10));
        world.until(|node| node.stats().evicted == 1).await;
        world.clock.advance(Duration::from_hours(1));
        world.signals.wait("fired").await;
        assert_eq!(
            world.signals.notes(),
            ["made with none", "made with an alarm"]
        );
    });
}

/// The object's file was removed while the node was down: the index has an alarm, the row is gone.
#[test]
fn an_index_entry_without_a_row_does_not_spin() {
    use abide::storage::Disk as _;
    run(async {
        let beds = Dormitory::new();
        beds.object("ada").set(1_000).await.unwrap();
        let store = beds.world.node.store().clone();
        let (no, _) = store
            .namespaces()
            .into_iter()
            .find(|(_, name)| name == "Sleeper")
            .unwrap();
        let listed = beds.world.node.alarms(AlarmState::Pending, None, 1)[0]
            .place
            .1;
        assert_eq!(listed.namespace, no);
        let path = store.object_path(listed).unwrap();
        drop(store);
        let clock = Counting(beds.world.clock.clone(), Arc::default());
        let disk = beds.world.stop().await;
        disk.remove(&path).unwrap();
        let _world = World::on(disk, 1, |node| {
            node.class::<Sleeper>(exact())
                .with(Script::default())
                .clock(Arc::new(clock.clone()))
        });
        clock.0.advance(Duration::from_secs(2));
        let before = clock.1.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let asked = clock.1.load(Ordering::SeqCst) - before;
        assert!(
            asked < 100,
            "the clock was asked {asked} times in half a second"
        );
    });
}

/// A full disk: an object that only serves reads is reset every five seconds because its alarm cannot begin.
#[test]
fn a_full_disk_does_not_reset_objects_again_and_again_for_their_alarms() {
    run(async {
        let beds = Dormitory::new();
        let ada = beds.object("ada");
        ada.put("key".to_owned(), 1).await.unwrap();
        ada.set(1_000).await.unwrap();
        beds.world.disk.set_capacity(Some(beds.world.disk.used()));
        let mut n = 0;
        while n < 20_000
            && beds
                .object(&format!("f{n}"))
                .put("k".to_owned(), 1)
                .await
                .is_ok()
        {
            n += 1;
        }
        let resets = beds.world.node.stats().resets;
        assert_eq!(ada.read("key".to_owned()).await.unwrap(), Some(1));
        beds.advance(1_000);
        for _ in 0..10 {
            for _ in 0..10 {
                beds.world.fence().await;
                tokio::task::yield_now().await;
            }
            beds.advance(5_000);
        }
        assert_eq!(beds.notes("ada"), [""; 0]);
        let resets = beds.world.node.stats().resets - resets;
        assert!(
            resets <= 1,
            "one may find out that the disk is full: {resets}"
        );
    });
}
