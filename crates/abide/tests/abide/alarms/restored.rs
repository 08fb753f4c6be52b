//! The alarms of a state to which an object has itself restored.

use std::time::Duration;

use abide::{
    AlarmInfo, ClassOptions, NodeBuilder,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::{AlarmState, SimDisk},
};

use crate::support::{Signals, World, run, signals};

const HOUR: Duration = Duration::from_hours(1);

/// Notes its alarm.
#[durable_object]
struct Diary {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Diary {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        Ok(Self { ctx, signals })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.signals.note("woken");
        Ok(())
    }
}

#[rpc]
impl Diary {
    pub(crate) async fn set(&self) -> Result<Bookmark> {
        self.ctx.storage().set_alarm(HOUR)?;
        self.ctx.storage().bookmark()
    }

    pub(crate) async fn delete(&self) -> Result<()> {
        self.ctx.storage().delete_alarm()
    }

    pub(crate) async fn restore(&self, to: Bookmark) -> Result<Bookmark> {
        self.ctx.restore(&to)
    }

    pub(crate) async fn restore_next(&self, to: Bookmark) -> Result<Bookmark> {
        self.ctx.storage().restore_at_next_start(&to)
    }

    pub(crate) async fn abort(&self) {
        self.ctx.abort("to be restored");
    }
}

fn on(clock: TestClock, disk: SimDisk) -> World {
    World::at(clock, disk, 1, |node: NodeBuilder| {
        node.class::<Diary>(ClassOptions::default())
    })
}

fn diary(world: &World) -> Stub<Diary> {
    world.env().object::<Diary>().get_by_name("ada")
}

/// A diary whose alarm is deleted, and the bookmark at which it was set.
async fn without_its_alarm() -> (World, Bookmark) {
    let world = on(TestClock::new(), SimDisk::new());
    let set = diary(&world).set().await.unwrap();
    diary(&world).delete().await.unwrap();
    (world, set)
}

/// Waits until nothing is due.
async fn settle(world: &World) {
    let now = world.clock.unix_millis().cast_signed();
    world
        .until(|node| {
            let pending = node.alarms(AlarmState::Pending, None, 10);
            let is_due = pending.iter().any(|alarm| alarm.due.unix_millis() <= now);
            !is_due && node.store().alarms().counts().in_flight == 0
        })
        .await;
    world.fence().await;
}

#[test]
fn the_alarms_of_a_restored_state_go_off_without_another_event() {
    run(async {
        let (world, set) = without_its_alarm().await;
        diary(&world).restore(set).await.unwrap();
        settle(&world).await;
        assert_eq!(world.signals.notes(), [""; 0], "not before its time");
        world.clock.advance(HOUR);
        settle(&world).await;
        assert_eq!(world.signals.notes(), ["woken"]);
    });
}

#[test]
fn an_object_that_aborts_to_be_restored_needs_no_event_either() {
    run(async {
        let (world, set) = without_its_alarm().await;
        diary(&world).restore_next(set).await.unwrap();
        settle(&world).await;
        world.clock.advance(HOUR);
        settle(&world).await;
        assert_eq!(world.signals.notes(), [""; 0], "it has not restarted");
        diary(&world).abort().await.unwrap_err();
        settle(&world).await;
        assert_eq!(world.signals.notes(), ["woken"]);
    });
}

/// Wherever the restart was when the process ended.
#[test]
fn the_alarms_of_a_restored_state_go_off_after_a_crash() {
    run(async {
        for seed in 0..20 {
            let (world, set) = without_its_alarm().await;
            diary(&world).restore(set).await.unwrap();
            let disk = world.disk.crash(seed);
            let world = on(world.clock.clone(), disk);
            settle(&world).await;
            world.clock.advance(HOUR);
            settle(&world).await;
            assert_eq!(world.signals.notes(), ["woken"], "seed {seed}");
        }
    });
}
