//! Many alarms at once, and a degraded node: limits, workers, a clock that is set, a full disk, a missing class.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    clock::TestClock,
    limits::MAX_ALARMS_PER_WORKER,
    prelude::*,
    storage::{AlarmState, SimDisk},
};

use crate::{
    alarms::sleeper::{Dormitory, Script, Sleeper, exact},
    support::{Signals, World, run, signals},
};

/// How many handlers run at a time, and how many have run.
#[derive(Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

#[durable_object]
struct Guest {
    ctx: Ctx,
    signals: Signals,
    crowd: Arc<Crowd>,
}

impl DurableObject for Guest {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
            crowd: env.require()?,
        })
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        let now = self.crowd.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.crowd.most.fetch_max(now, Ordering::SeqCst);
        self.signals.give("in");
        self.signals.wait("go").await;
        self.crowd.now.fetch_sub(1, Ordering::SeqCst);
        self.crowd.all.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Guest {
    pub async fn set(&self) -> Result<()> {
        self.ctx.storage().set_alarm(Duration::from_hours(1))
    }
}

fn guests(clock: TestClock, disk: SimDisk, workers: usize) -> World {
    World::at(clock, disk, workers, |node| {
        node.class::<Guest>(ClassOptions::default())
            .with(Crowd::default())
    })
}

#[test]
fn alarms_that_are_overdue_at_start_are_spread_over_workers_and_time() {
    run(async {
        const ALARMS: usize = 3 * MAX_ALARMS_PER_WORKER;
        let clock = TestClock::new();
        let world = guests(clock.clone(), SimDisk::new(), 1);
        for number in 0..ALARMS {
            let guest = world.env().object::<Guest>();
            let guest = guest.get_by_name(&format!("{number}"));
            guest.set().await.unwrap();
        }
        let disk = world.stop().await;
        clock.advance(Duration::from_hours(24));

        let world = guests(clock, disk, 2);
        let crowd = world.env().require::<Crowd>().unwrap();
        for _ in 0..2 * MAX_ALARMS_PER_WORKER {
            world.signals.wait("in").await;
        }
        world.fence().await;
        assert_eq!(crowd.now.load(Ordering::SeqCst), 2 * MAX_ALARMS_PER_WORKER);
        for _ in 0..ALARMS {
            world.signals.give("go");
        }
        world
            .until(|_| crowd.all.load(Ordering::SeqCst) == ALARMS)
            .await;
        assert_eq!(crowd.most.load(Ordering::SeqCst), 2 * MAX_ALARMS_PER_WORKER);
        world.until(|node| node.stats().alarms_pending == 0).await;
    });
}

#[test]
fn a_wall_clock_that_is_set_forward_is_noticed_within_seconds() {
    run(async {
        let clock = TestClock::new();
        let world = guests(clock.clone(), SimDisk::new(), 1);
        let guest = world.env().object::<Guest>().get_by_name("a");
        guest.set().await.unwrap();
        clock.set_wall(3_600_000);
        clock.advance(Duration::from_secs(5));
        world.signals.wait("in").await;
        world.signals.give("go");
        world.until(|node| node.stats().alarms_pending == 0).await;
    });
}

#[test]
fn an_alarm_stopped_by_a_full_disk_goes_off_when_space_returns() {
    run(async {
        let beds = Dormitory::new();
        let (ada, filler) = (beds.object("ada"), beds.object("filler"));
        ada.set(1_000).await.unwrap();
        let disk = &beds.world.disk;
        disk.set_capacity(Some(disk.used()));
        // Until not even a move of the alarm fits any more.
        for count in [20_000, 1_000, 1] {
            let fills = async |round| filler.fill(count, round).await;
            let mut round = 0;
            while fills(round).await.is_ok() {
                round += 1;
            }
        }
        let moves = async |to| ada.set(to).await;
        let mut to = 1_000;
        while moves(to).await.is_ok() {
            to = 2_001 - to;
        }
        beds.advance(2_000);
        beds.world.fence().await;
        assert_eq!(beds.notes("ada"), [""; 0]);
        disk.set_capacity(None);
        while beds.world.node.store().checkpoint().is_err()
            || beds.world.node.store().stats().no_space
        {
            tokio::task::yield_now().await;
        }
        while beds.notes("ada").is_empty() {
            beds.advance(100);
            tokio::task::yield_now().await;
        }
        beds.fired("ada").await;
        assert!(beds.notes("ada")[0].ends_with("retry 0"));
    });
}

#[test]
fn an_alarm_of_a_class_that_the_node_does_not_have_waits_until_one_does() {
    run(async {
        let beds = Dormitory::new();
        beds.object("ada").set(1_000).await.unwrap();
        let clock = beds.world.clock.clone();
        let disk = beds.world.stop().await;
        clock.advance(Duration::from_secs(10));

        let world = World::at(clock.clone(), disk, 1, |node| node);
        world.fence().await;
        clock.advance(Duration::from_secs(10));
        world.fence().await;
        let pending = world.node.alarms(AlarmState::Pending, None, 10);
        assert_eq!(pending[0].class, "Sleeper");
        let beds = Dormitory::on(clock, world.stop().await, exact());
        beds.fired("ada").await;
        assert_eq!(beds.notes("ada"), ["at 20000 for 1000 retry 0"]);
    });
}

#[test]
fn handlers_that_hang_hold_up_no_alarms_of_other_classes() {
    run(async {
        let world = World::new(|node| {
            node.class::<Guest>(ClassOptions::default())
                .class::<Sleeper>(exact())
                .with(Crowd::default())
                .with(Script::default())
        });
        for number in 0..=MAX_ALARMS_PER_WORKER {
            let guest = world.env().object::<Guest>();
            let guest = guest.get_by_name(&format!("{number}"));
            guest.set().await.unwrap();
        }
        let sleeper = world.env().object::<Sleeper>().get_by_name("ada");
        sleeper.set(3_600_001).await.unwrap();
        world.clock.advance(Duration::from_hours(1));
        for _ in 0..MAX_ALARMS_PER_WORKER {
            world.signals.wait("in").await;
        }
        world.clock.advance(Duration::from_millis(1));
        world.signals.wait("ada fired").await;
    });
}
