//! What a restore and a fork mean to an object's code: its timeline, the hook, and dormancy.

use std::{path::Path, sync::Arc, time::Duration};

use abide::{
    AlarmInfo, ClassOptions, ErrorKind, NodeBuilder, TimelineCause, TimelineId,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::{AlarmState, Disk as _, OpenMode, SimDisk, StoreOptions, restore_directory},
};

use crate::support::{Signals, World, run, signals};

const HOUR: Duration = Duration::from_hours(1);

/// Writes down what it is told, and notes it.
#[durable_object]
struct Diary {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Diary {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        let of_component = (ctx.clone(), signals.clone());
        ctx.on_timeline(move |_| {
            of_component.1.note("component told");
            let storage = of_component.0.storage();
            let times: i64 = storage.get("component")?.unwrap_or(0);
            storage.put("component", &(times + 1))
        });
        let noting = signals.clone();
        ctx.on_activation(move |how| {
            noting.note(format!("component activated: {how}"));
            Ok(())
        });
        Ok(Self { ctx, signals })
    }

    fn new_timeline(&self, timeline: &Timeline) -> Result<()> {
        self.signals.note("told");
        let mut told: Vec<String> = self.ctx.storage().get("told")?.unwrap_or_default();
        told.push(timeline.id().to_string());
        self.ctx.storage().put("told", &told)?;
        if self.ctx.storage().get::<bool>("fails")?.is_some() {
            return Err(Error::new("not today"));
        }
        Ok(())
    }

    fn activated(&self, how: Activation) -> Result<()> {
        self.signals.note(format!("activated: {how}"));
        if self.ctx.storage().get::<bool>("stays")?.is_some() {
            return Err(Error::new("not yet"));
        }
        Ok(())
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        self.signals.note("woken");
        Ok(())
    }
}

#[rpc]
impl Diary {
    pub(crate) async fn write(&self, key: String) -> Result<Bookmark> {
        self.signals.note("called");
        self.ctx.storage().put(&key, &true)?;
        self.ctx.storage().bookmark()
    }

    pub(crate) async fn erase(&self, key: String) -> Result<bool> {
        self.ctx.storage().delete(&key)
    }

    pub(crate) async fn set_alarm(&self) -> Result<Bookmark> {
        self.ctx.storage().set_alarm(HOUR)?;
        self.ctx.storage().bookmark()
    }

    pub(crate) async fn has_alarm(&self) -> Result<bool> {
        Ok(self.ctx.storage().alarm()?.is_some())
    }

    pub(crate) async fn timeline(&self) -> String {
        self.ctx.timeline().id().to_string()
    }

    pub(crate) async fn cause(&self) -> String {
        match self.ctx.timeline().cause() {
            TimelineCause::Restored { from, to } => format!("{from} to {to}"),
            TimelineCause::Forked { origin, bookmark } => format!("{origin} at {bookmark}"),
            other => format!("{other:?}"),
        }
    }

    /// What the hooks have written, by the class and by the component.
    pub(crate) async fn told(&self) -> Result<(Vec<String>, i64)> {
        let storage = self.ctx.storage();
        Ok((
            storage.get("told")?.unwrap_or_default(),
            storage.get("component")?.unwrap_or(0),
        ))
    }

    pub(crate) async fn dormant(&self) -> bool {
        self.ctx.is_dormant()
    }

    pub(crate) async fn count(&self) -> Result<i64> {
        let count = self.ctx.storage().get("count")?.unwrap_or(0_i64) + 1;
        self.ctx.storage().put("count", &count)?;
        Ok(count)
    }

    pub(crate) async fn wake_up(&self) -> Result<()> {
        self.ctx.activate(Activation::Fresh)
    }
}

fn on(clock: TestClock, disk: SimDisk) -> World {
    World::at(clock, disk, 1, |node: NodeBuilder| {
        node.class::<Diary>(ClassOptions::default())
    })
}

fn new_world() -> World {
    on(TestClock::new(), SimDisk::new())
}

fn diary(world: &World, name: &str) -> Stub<Diary> {
    world.env().object::<Diary>().get_by_name(name)
}

async fn timeline(diary: &Stub<Diary>) -> TimelineId {
    diary.timeline().await.unwrap().parse().unwrap()
}

async fn write(diary: &Stub<Diary>, key: &str) -> Bookmark {
    diary.write(key.into()).await.unwrap()
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
fn timelines_rise_and_never_repeat_also_after_an_undo() {
    run(async {
        let world = new_world();
        let diary = diary(&world, "ada");
        let first = write(&diary, "first").await;
        let mut ids = vec![timeline(&diary).await];
        assert_eq!(diary.cause().await.unwrap(), "Created");
        let second = write(&diary, "second").await;
        let mut to = first;
        for round in 0..6 {
            let undo = world.node.restore(diary.untyped(), to).await.unwrap();
            assert_eq!(diary.cause().await.unwrap(), format!("{undo} to {to}"));
            ids.push(timeline(&diary).await);
            to = match round % 3 {
                0 => undo,
                1 => first,
                _ => second,
            };
        }
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        let texts: Vec<_> = ids.iter().map(TimelineId::to_string).collect();
        assert!(texts.is_sorted_by(|a, b| a < b), "{texts:?}");
        // Also in another process.
        let disk = world.stop().await;
        let world = on(TestClock::new(), disk);
        let diary = self::diary(&world, "ada");
        assert_eq!(timeline(&diary).await, ids[6]);
        world.node.restore(diary.untyped(), first).await.unwrap();
        assert!(timeline(&diary).await > ids[6]);
    });
}

#[test]
fn the_hooks_run_once_after_a_restore_without_an_event() {
    run(async {
        let world = new_world();
        let diary = diary(&world, "ada");
        let first = write(&diary, "first").await;
        write(&diary, "second").await;
        let stub = diary.untyped();
        world.node.restore(stub, first).await.unwrap();
        settle(&world).await;
        let notes = ["called", "called", "component told", "told"];
        assert_eq!(world.signals.notes(), notes);
        write(&diary, "third").await;
        let now = timeline(&diary).await.to_string();
        assert_eq!(diary.told().await.unwrap(), (vec![now], 1));
        // An event that comes first finds the object told.
        world.node.restore(stub, first).await.unwrap();
        write(&diary, "fourth").await;
        settle(&world).await;
        let notes = world.signals.notes();
        assert_eq!(notes[4..], ["called", "component told", "told", "called"]);
    });
}

#[test]
fn a_failing_hook_keeps_nothing_and_runs_again() {
    run(async {
        let world = new_world();
        let diary = diary(&world, "ada");
        let failing = write(&diary, "fails").await;
        diary.erase("fails".into()).await.unwrap();
        world.node.restore(diary.untyped(), failing).await.unwrap();
        let error = diary.told().await.unwrap_err();
        assert!(error.to_string().contains("not today"), "{error}");
        assert!(diary.count().await.is_err());
        settle(&world).await;
        let count = world.signals.notes().len();
        // It tries again later, not in a loop.
        world.fence().await;
        assert_eq!(world.signals.notes().len(), count);
        world.clock.advance(HOUR);
        settle(&world).await;
        assert!(world.signals.notes().len() > count);
        // Another restore gets it out of there.
        let nothing = world.node.bookmark(diary.untyped(), None).await.unwrap();
        let error = world.node.restore(diary.untyped(), nothing).await;
        error.unwrap();
        assert!(diary.told().await.is_err());
    });
}

/// The effect of the hooks and the mark that they ran are one commit, wherever the process ends.
#[test]
fn the_hooks_run_exactly_once_across_crashes() {
    run(async {
        for seed in 0..30 {
            let world = new_world();
            let diary = diary(&world, "ada");
            let first = write(&diary, "first").await;
            write(&diary, "second").await;
            world.node.restore(diary.untyped(), first).await.unwrap();
            if seed % 3 == 0 {
                world.fence().await;
            }
            let mut disk = world.disk.crash(seed);
            for crash in 0..2 {
                let world = on(TestClock::new(), disk.clone());
                if crash == 1 {
                    world.clock.advance(HOUR);
                }
                world.fence().await;
                disk = world.disk.crash(seed + 100);
            }
            let world = on(TestClock::new(), disk);
            let diary = self::diary(&world, "ada");
            let (told, component) = diary.told().await.unwrap();
            assert_eq!(told, [diary.timeline().await.unwrap()], "seed {seed}");
            assert_eq!(component, 1, "seed {seed}");
            settle(&world).await;
            assert_eq!(diary.told().await.unwrap().1, 1, "seed {seed}");
        }
    });
}

#[test]
fn a_fork_is_dormant_until_it_is_activated() {
    run(async {
        let world = new_world();
        let original = diary(&world, "ada");
        let at = original.set_alarm().await.unwrap();
        let stub = original.untyped();
        for name in ["fresh", "continued", "left"] {
            world.node.fork(stub, at, name).await.unwrap();
        }
        settle(&world).await;
        assert_eq!(world.signals.notes(), [""; 0], "forks wait for an event");
        let (fresh, continued) = (diary(&world, "fresh"), diary(&world, "continued"));
        let cause = format!("{} at {at}", original.id());
        assert_eq!(fresh.cause().await.unwrap(), cause);
        assert!(fresh.dormant().await.unwrap());
        assert!(!original.dormant().await.unwrap());
        assert!(fresh.has_alarm().await.unwrap());
        assert_ne!(timeline(&fresh).await, timeline(&continued).await);
        let node = &world.node;
        node.activate(fresh.untyped(), Activation::Fresh)
            .await
            .unwrap();
        node.activate(continued.untyped(), Activation::Continue)
            .await
            .unwrap();
        let notes = world.signals.notes();
        let activated = ["component activated: fresh", "activated: fresh"];
        assert!(notes.windows(2).any(|pair| pair == activated), "{notes:?}");
        assert!(!fresh.has_alarm().await.unwrap());
        world.clock.advance(HOUR);
        settle(&world).await;
        let woken = |world: &World| {
            let notes = world.signals.notes();
            notes.iter().filter(|note| *note == "woken").count()
        };
        assert_eq!(woken(&world), 2, "the original, and the continued one");
        // A new alarm of a dormant object waits, too, also in another process.
        let left = diary(&world, "left");
        left.set_alarm().await.unwrap();
        let clock = world.clock.clone();
        let disk = world.stop().await;
        let world = on(clock, disk);
        world.clock.advance(HOUR);
        settle(&world).await;
        assert_eq!(woken(&world), 0);
        let left = diary(&world, "left");
        let error = world.node.rerun_alarm(left.untyped(), None).await;
        let error = error.unwrap_err();
        assert!(error.to_string().contains("dormant"), "{error}");
        diary(&world, "left").wake_up().await.unwrap();
        assert!(!diary(&world, "left").dormant().await.unwrap());
    });
}

#[test]
fn activation_of_an_object_that_is_not_dormant_is_refused() {
    run(async {
        let world = new_world();
        let diary = diary(&world, "ada");
        let at = write(&diary, "stays").await;
        let node = &world.node;
        let refused = node.activate(diary.untyped(), Activation::Fresh).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Input);
        assert!(refused.to_string().contains("not dormant"), "{refused}");
        // One whose class refuses stays dormant.
        node.fork(diary.untyped(), at, "copy").await.unwrap();
        let copy = self::diary(&world, "copy");
        let failed = node.activate(copy.untyped(), Activation::Fresh).await;
        assert!(failed.unwrap_err().to_string().contains("not yet"));
        assert!(copy.dormant().await.unwrap());
        copy.erase("stays".into()).await.unwrap();
        node.activate(copy.untyped(), Activation::Fresh)
            .await
            .unwrap();
        assert!(!copy.dormant().await.unwrap());
    });
}

#[test]
fn a_dormant_restore_holds_the_alarms_until_it_is_activated() {
    run(async {
        let world = new_world();
        let diary = diary(&world, "ada");
        let at = diary.set_alarm().await.unwrap();
        write(&diary, "later").await;
        let (node, stub) = (&world.node, diary.untyped());
        let undo = node.restore_dormant(stub, at).await.unwrap();
        world.clock.advance(HOUR);
        settle(&world).await;
        assert!(!world.signals.notes().contains(&"woken".to_owned()));
        assert!(diary.dormant().await.unwrap());
        // Undoing it leaves a state that acts.
        let redo = node.restore(stub, undo).await.unwrap();
        settle(&world).await;
        assert!(!diary.dormant().await.unwrap());
        assert!(world.signals.notes().contains(&"woken".to_owned()));
        // And back to the dormant state.
        node.restore(stub, redo).await.unwrap();
        assert!(diary.dormant().await.unwrap());
        node.activate(stub, Activation::Continue).await.unwrap();
        settle(&world).await;
        let notes = world.signals.notes();
        assert_eq!(notes.iter().filter(|note| *note == "woken").count(), 2);
    });
}

#[test]
fn results_of_keyed_calls_are_not_answered_to_callers_of_a_copy() {
    run(async {
        let world = new_world();
        let original = diary(&world, "ada");
        let keyed = |diary: &Stub<Diary>| diary.with_idempotency_key("once");
        assert_eq!(keyed(&original).count().await.unwrap(), 1);
        assert_eq!(keyed(&original).count().await.unwrap(), 1);
        let stub = original.untyped();
        let now = world.node.bookmark(stub, None).await.unwrap();
        world.node.fork(stub, now, "copy").await.unwrap();
        let copy = diary(&world, "copy");
        assert_eq!(keyed(&copy).count().await.unwrap(), 2);
        assert_eq!(keyed(&original).count().await.unwrap(), 1);
    });
}

/// The directory as it is restored from its archive.
fn restored(lost: &SimDisk) -> SimDisk {
    let read = |path: &Path| {
        let file = lost.open(path, OpenMode::Existing).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let (disk, dir) = (SimDisk::new(), Path::new("/data"));
    let archive = dir.join("archive");
    disk.create_dir_all(&archive).unwrap();
    for name in lost.list(&archive).unwrap() {
        let path = archive.join(name);
        let copy = disk.open(&path, OpenMode::Create).unwrap();
        copy.write_at(&read(&path), 0).unwrap();
    }
    let manifest = read(&dir.join("MANIFEST"));
    let options = StoreOptions::small();
    let made = restore_directory(
        Arc::new(disk.clone()),
        dir,
        &manifest,
        abide::storage::RestoreOptions::default(),
        &options,
        &|_| {},
    );
    made.unwrap();
    disk
}

#[test]
fn after_a_restore_of_the_directory_objects_are_told_when_they_start() {
    run(async {
        let world = new_world();
        let (ada, bob) = (diary(&world, "ada"), diary(&world, "bob"));
        write(&ada, "first").await;
        let at = bob.set_alarm().await.unwrap();
        world.node.fork(bob.untyped(), at, "copy").await.unwrap();
        let before = [timeline(&ada).await, timeline(&bob).await];
        let clock = world.clock.clone();
        let disk = restored(&world.stop().await);

        let world = on(clock, disk);
        settle(&world).await;
        assert_eq!(world.signals.notes(), [""; 0], "no object starts for it");
        let (ada, bob, copy) = (
            diary(&world, "ada"),
            diary(&world, "bob"),
            diary(&world, "copy"),
        );
        let listed = world.node.timeline(ada.untyped()).await.unwrap().timeline;
        assert!(
            matches!(listed.cause(), TimelineCause::Restored { .. }),
            "{listed:?}"
        );
        write(&ada, "second").await;
        assert_eq!(world.signals.notes(), ["component told", "told", "called"]);
        assert_eq!(timeline(&ada).await, listed.id());
        assert!(listed.id() > before[0]);
        assert_eq!(
            ada.told().await.unwrap(),
            (vec![listed.id().to_string()], 1)
        );
        // An alarm that is due waits for it.
        world.clock.advance(HOUR);
        settle(&world).await;
        let notes = world.signals.notes();
        assert_eq!(notes[3..], ["component told", "told", "woken"]);
        assert!(timeline(&bob).await > before[1]);
        assert!(copy.dormant().await.unwrap());
        // Once, also in another process.
        let disk = world.stop().await;
        let world = on(TestClock::new(), disk);
        let ada = diary(&world, "ada");
        assert_eq!(
            ada.told().await.unwrap(),
            (vec![listed.id().to_string()], 1)
        );
        assert_eq!(world.signals.notes(), [""; 0]);
    });
}
