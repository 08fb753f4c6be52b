//! Named alarms: each has its own time and attempts.

use std::{collections::BTreeMap, time::Duration};

use abide::{
    AlarmInfo, ErrorKind, NodeBuilder,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::{AlarmState, SimDisk},
};

use crate::{
    alarms::sleeper::{exact, giving_up_after},
    support::{Signals, World, run, signals},
};

const HOUR: u64 = 3_600_000;

/// Notes each of its alarms. Those whose names are kept under "bad" fail, those under "again" are set again for a second later.
#[durable_object]
struct Diary {
    ctx: Ctx,
    signals: Signals,
}

impl Diary {
    fn note(&self, by: &str, info: &AlarmInfo) {
        let name = info.name.as_deref().unwrap_or("own");
        let now = self.ctx.now().unix_millis();
        let now = now - TestClock::START_UNIX_MILLIS.cast_signed();
        self.signals
            .note(format!("{by}{name} at {} retry {}", now, info.retry_count));
    }
}

impl DurableObject for Diary {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        let handler = Self {
            ctx: ctx.clone(),
            signals: signals.clone(),
        };
        let handler = std::rc::Rc::new(handler);
        ctx.on_alarm("handled", move |info| {
            let handler = std::rc::Rc::clone(&handler);
            async move {
                handler.note("handler of ", &info);
                Err("never".into())
            }
        })?;
        Ok(Self { ctx, signals })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        self.note("", &info);
        let name = info.name.as_deref().unwrap_or("own").to_owned();
        let storage = self.ctx.storage();
        if storage.get("hang")? == Some(name.clone()) {
            std::future::pending::<()>().await;
        }
        if storage.get("again")? == Some(name.clone()) {
            storage.delete("again")?;
            self.ctx.alarm(&name).set(Duration::from_secs(1))?;
        }
        if storage.get("bad")? == Some(name) {
            return Err("it is bad".into());
        }
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Diary {
    /// Sets an alarm that waits for this many milliseconds; the object's own has the empty name.
    pub async fn set_in(&self, name: String, millis: u64) -> Result<()> {
        let wait = Duration::from_millis(millis);
        match &*name {
            "own" => self.ctx.storage().set_alarm(wait),
            "handled" => self.ctx.alarm(&name).never_given_up().set(wait),
            name => self.ctx.alarm(name).set(wait),
        }
    }

    /// Sets an alarm for a time of the clock.
    pub async fn set_at(&self, name: String, millis: u64) -> Result<()> {
        let at = (TestClock::START_UNIX_MILLIS + millis).cast_signed();
        self.ctx.alarm(&name).set(at)
    }

    pub async fn remember(&self, key: String, name: String) -> Result<()> {
        self.ctx.storage().put(&key, &name)
    }

    pub async fn forget(&self, key: String) -> Result<()> {
        self.ctx.storage().delete(&key).map(drop)
    }

    pub async fn delete(&self, name: String) -> Result<()> {
        match &*name {
            "own" => self.ctx.storage().delete_alarm(),
            name => self.ctx.alarm(name).delete(),
        }
    }

    pub async fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub async fn names(&self) -> Result<Vec<String>> {
        let alarms = self.ctx.alarms()?;
        Ok(alarms.into_iter().map(|(name, _)| name).collect())
    }

    pub async fn open_twice(&self) -> Result<()> {
        self.ctx.on_alarm("handled", async |_| Ok(()))
    }

    pub async fn fill(&self, count: u32) -> Result<()> {
        for number in 0..count {
            self.ctx
                .alarm(&format!("n{number}"))
                .set(Duration::from_hours(1))?;
        }
        Ok(())
    }
}

struct Shelf {
    world: World,
    options: ClassOptions,
}

impl Shelf {
    fn new() -> Self {
        Self::on(TestClock::new(), SimDisk::new(), exact())
    }

    fn on(clock: TestClock, disk: SimDisk, options: ClassOptions) -> Self {
        let classes = |node: NodeBuilder| node.class::<Diary>(options.clone());
        let world = World::at(clock, disk, 1, classes);
        Self { world, options }
    }

    fn killed(&self) -> Self {
        let disk = self.world.disk.after_kill();
        Self::on(self.world.clock.clone(), disk, self.options.clone())
    }

    fn diary(&self) -> Stub<Diary> {
        self.world.env().object::<Diary>().get_by_name("ada")
    }

    async fn set_in(&self, name: &str, millis: u64) {
        let set = self.diary().set_in(name.to_owned(), millis).await;
        set.unwrap();
    }

    async fn remember(&self, key: &str, name: &str) {
        let put = self.diary().remember(key.to_owned(), name.to_owned());
        put.await.unwrap();
    }

    /// Lets time pass, and returns when nothing is due any more.
    async fn pass(&self, millis: u64) {
        self.world.clock.advance(Duration::from_millis(millis));
        self.settle().await;
    }

    async fn settle(&self) {
        let now = self.world.clock.unix_millis().cast_signed();
        self.world
            .until(|node| {
                let pending = node.alarms(AlarmState::Pending, None, 10);
                let is_due = pending.iter().any(|alarm| alarm.due.unix_millis() <= now);
                !is_due && node.store().alarms().counts().in_flight == 0
            })
            .await;
        self.world.fence().await;
    }

    fn notes(&self) -> Vec<String> {
        self.world.signals.notes()
    }
}

#[test]
fn each_alarm_goes_off_at_its_own_time_under_its_name() {
    run(async {
        let shelf = Shelf::new();
        for (name, millis) in [
            ("tea", 3_000),
            ("own", 2_000),
            ("eggs", 1_000),
            ("rice", 2_000),
        ] {
            shelf.set_in(name, millis).await;
        }
        assert_eq!(
            shelf.diary().names().await.unwrap(),
            ["eggs", "rice", "tea"]
        );
        shelf.set_in("tea", 2_500).await;
        shelf.diary().delete("rice".to_owned()).await.unwrap();
        for _ in 0..5 {
            shelf.pass(500).await;
        }
        let notes = [
            "eggs at 1000 retry 0",
            "own at 2000 retry 0",
            "tea at 2500 retry 0",
        ];
        assert_eq!(shelf.notes(), notes);
        shelf.pass(HOUR).await;
        assert_eq!(shelf.notes(), notes);
        assert_eq!(shelf.world.node.stats().alarms_pending, 0);
    });
}

#[test]
fn alarms_that_are_due_together_go_off_one_after_another() {
    run(async {
        let shelf = Shelf::new();
        for name in ["own", "b", "a"] {
            shelf.set_in(name, 1_000).await;
        }
        shelf.pass(5_000).await;
        let notes = [
            "own at 5000 retry 0",
            "a at 5000 retry 0",
            "b at 5000 retry 0",
        ];
        assert_eq!(shelf.notes(), notes);
    });
}

#[test]
fn one_that_fails_is_tried_again_beside_the_others() {
    run(async {
        let shelf = Shelf::new();
        shelf.remember("bad", "bad").await;
        shelf.set_in("bad", 1_000).await;
        shelf.set_in("good", 1_500).await;
        for _ in 0..14 {
            shelf.pass(500).await;
        }
        let notes = [
            "bad at 1000 retry 0",
            "good at 1500 retry 0",
            "bad at 3000 retry 1",
            "bad at 7000 retry 2",
        ];
        assert_eq!(shelf.notes(), notes);
        let node = &shelf.world.node;
        let alarms = node.alarms_of(shelf.diary().untyped()).await.unwrap();
        let [alarm] = alarms.as_slice() else {
            panic!("{alarms:?}")
        };
        assert_eq!(alarm.name.as_deref(), Some("bad"));
        assert_eq!(
            (alarm.attempts, alarm.error.as_deref()),
            (3, Some("it is bad"))
        );
        assert_eq!(node.stats().alarms_failing, 1);
    });
}

#[test]
fn a_given_up_alarm_is_listed_with_pending_ones_and_can_be_rerun() {
    run(async {
        let shelf = Shelf::on(TestClock::new(), SimDisk::new(), giving_up_after(0));
        let diary = shelf.diary();
        shelf.remember("bad", "bad").await;
        shelf.set_in("bad", 1_000).await;
        shelf.set_in("good", HOUR).await;
        shelf.pass(1_000).await;
        for shelf in [&shelf, &shelf.killed()] {
            let node = &shelf.world.node;
            let stats = node.stats();
            assert_eq!((stats.alarms_failed, stats.alarms_pending), (1, 1));
            for state in [AlarmState::Failed, AlarmState::Pending] {
                let listed = node.alarms(state, None, 10);
                assert!(listed.len() == 1 && listed[0].named, "{listed:?}");
            }
        }
        let node = &shelf.world.node;
        let alarms = node.alarms_of(diary.untyped()).await.unwrap();
        let failed: Vec<_> = alarms.iter().map(|alarm| alarm.failed).collect();
        assert_eq!(failed, [true, false], "{alarms:?}");
        let other = node.rerun_alarm(diary.untyped(), Some("good")).await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::NotFound);
        diary.forget("bad".to_owned()).await.unwrap();
        node.rerun_alarm(diary.untyped(), Some("bad"))
            .await
            .unwrap();
        shelf.settle().await;
        assert_eq!(shelf.notes(), ["bad at 1000 retry 0"; 2]);
        assert_eq!(node.stats().alarms_failed, 0);
        shelf.pass(HOUR).await;
        assert_eq!(shelf.notes().len(), 3);
    });
}

#[test]
fn an_alarm_set_by_its_handler_replaces_only_itself() {
    run(async {
        let shelf = Shelf::new();
        shelf.remember("again", "tick").await;
        shelf.set_in("tick", 1_000).await;
        shelf.set_in("other", 10_000).await;
        for _ in 0..10 {
            shelf.pass(1_000).await;
        }
        let notes = [
            "tick at 1000 retry 0",
            "tick at 2000 retry 0",
            "other at 10000 retry 0",
        ];
        assert_eq!(shelf.notes(), notes);
    });
}

#[test]
fn all_alarms_outlive_the_process_and_go_with_what_the_object_has_stored() {
    run(async {
        let shelf = Shelf::new();
        for (name, millis) in [("a", 1_000), ("b", 2_000), ("own", 3_000)] {
            shelf.set_in(name, millis).await;
        }
        let shelf = shelf.killed();
        shelf.pass(1_000).await;
        shelf.world.node.store().checkpoint().unwrap();
        let shelf = shelf.killed();
        shelf.pass(1_000).await;
        assert_eq!(shelf.notes(), ["b at 2000 retry 0"]);
        shelf.set_in("c", 1_000).await;
        shelf.diary().delete_all().await.unwrap();
        let shelf = shelf.killed();
        shelf.pass(HOUR).await;
        assert_eq!(shelf.notes(), [""; 0]);
        shelf.set_in("d", 1_000).await;
        shelf.pass(1_000).await;
        assert_eq!(shelf.notes().len(), 1);
    });
}

#[test]
fn the_alarm_of_a_component_is_never_given_up() {
    run(async {
        let shelf = Shelf::on(TestClock::new(), SimDisk::new(), giving_up_after(0));
        shelf.set_in("handled", 1_000).await;
        for _ in 0..20 {
            // A quarter of a minute more than the longest wait.
            shelf.pass(75_000).await;
        }
        let notes = shelf.notes();
        assert_eq!(notes.len(), 20, "{notes:?}");
        let all_by_handler = notes
            .iter()
            .all(|note| note.starts_with("handler of handled"));
        assert!(all_by_handler, "{notes:?}");
        assert!(notes[19].ends_with("retry 19"), "{notes:?}");
        let twice = shelf.diary().open_twice().await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::Input);
    });
}

#[test]
fn a_wait_behind_a_timed_alarm_is_not_lengthened_by_a_clock_set_back() {
    run(async {
        for (kill, checkpoint) in [(false, false), (true, false), (true, true)] {
            let mut shelf = Shelf::new();
            let diary = shelf.diary();
            diary.set_at("time".to_owned(), 2 * HOUR).await.unwrap();
            shelf.set_in("wait", 3 * HOUR).await;
            shelf.set_in("longer", 5 * HOUR).await;
            shelf.pass(HOUR).await;
            shelf
                .world
                .clock
                .set_wall(-i64::try_from(10 * HOUR).unwrap());
            shelf.pass(HOUR).await;
            // What is written now must not undo it.
            shelf.set_in("later", 24 * HOUR).await;
            if checkpoint {
                shelf.world.node.store().checkpoint().unwrap();
            }
            if kill {
                shelf = shelf.killed();
            }
            shelf.pass(HOUR - 1).await;
            assert_eq!(shelf.notes(), [""; 0]);
            shelf.pass(1).await;
            let at = |hours: i64| hours * i64::try_from(HOUR).unwrap();
            let wait = format!("wait at {} retry 0", at(-7));
            assert_eq!(shelf.notes(), [wait.as_str()], "{kill} {checkpoint}");
            shelf.pass(2 * HOUR - 1).await;
            assert_eq!(shelf.notes().len(), 1);
            shelf.pass(1).await;
            let longer = format!("longer at {} retry 0", at(-5));
            assert_eq!(shelf.notes(), [wait.clone(), longer.clone()]);
            shelf.pass(7 * HOUR).await;
            let time = format!("time at {} retry 0", at(2));
            assert_eq!(shelf.notes(), [wait, longer, time]);
        }
    });
}

#[test]
fn setting_an_alarm_after_the_clock_was_set_back_lengthens_no_other_wait() {
    run(async {
        for (wait, other) in [("own", "other"), ("wait", "own"), ("wait", "other")] {
            let shelf = Shelf::new();
            shelf.set_in(wait, 5 * HOUR).await;
            shelf.pass(HOUR).await;
            // By so little that nothing becomes due.
            shelf.world.clock.set_wall(-i64::try_from(HOUR).unwrap());
            shelf.world.fence().await;
            shelf.set_in(other, 24 * HOUR).await;
            shelf.pass(4 * HOUR - 1).await;
            assert_eq!(shelf.notes(), [""; 0], "{wait} {other}");
            shelf.pass(1).await;
            assert_eq!(shelf.notes().len(), 1, "{wait} {other}");
        }
    });
}

#[test]
fn a_crashing_alarm_runs_alone_and_other_alarms_of_the_object_run() {
    run(async {
        let mut shelf = Shelf::new();
        shelf.remember("hang", "killer").await;
        shelf.set_in("killer", 1_000).await;
        let mut own = 0;
        for wait in [1_u64, 2, 4, 8, 16] {
            // In time for its next attempt, and not before.
            shelf
                .world
                .clock
                .advance(Duration::from_millis(wait * 1_000 - 1));
            shelf.world.fence().await;
            let began = |notes: Vec<String>| notes.iter().any(|note| note.starts_with("killer"));
            assert!(!began(shelf.notes()));
            shelf.world.clock.advance(Duration::from_millis(1));
            shelf.world.until(|_| began(shelf.notes())).await;
            shelf = shelf.killed();
            shelf.set_in("other", 0).await;
            shelf.settle().await;
            own += 1;
            assert_eq!(shelf.notes().len(), 1, "{own}: {:?}", shelf.notes());
            assert_eq!(shelf.world.node.stats().alarms_suspect, 1);
        }
        let diary = shelf.diary();
        let alarms = shelf.world.node.alarms_of(diary.untyped()).await.unwrap();
        let told: Vec<_> = alarms.iter().map(|a| (a.cut_off, a.crashes)).collect();
        assert_eq!(told, [(4, 2)], "{alarms:?}");
    });
}

#[test]
fn names_and_numbers_of_alarms_have_bounds() {
    run(async {
        let shelf = Shelf::new();
        let diary = shelf.diary();
        for (name, says) in [
            (String::new(), "must not be empty"),
            ("x".repeat(257), "256 bytes"),
        ] {
            let set = diary.set_in(name, 1_000).await;
            let error = set.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.message().contains(says), "{error}");
        }
        diary.fill(1_000).await.unwrap();
        shelf.set_in("own", 2 * HOUR).await;
        shelf.set_in("n7", 2 * HOUR).await;
        let one_more = diary.set_in("more".to_owned(), 1).await.unwrap_err();
        assert!(
            one_more.message().contains("at most 1000 named alarms"),
            "{one_more}"
        );
        shelf.pass(HOUR).await;
        assert_eq!(shelf.notes().len(), 999);
        assert_eq!(diary.names().await.unwrap(), ["n7"]);
    });
}

/// Random lives of the alarms of an object against a map of times, with kills of the process.
#[test]
fn random_lives_of_alarms_agree_with_a_map_of_times() {
    run(async {
        for seed in 0..30 {
            life(seed).await;
        }
    });
}

async fn life(seed: u64) {
    let mut random = abide_harness::Random::new(seed);
    let mut shelf = Shelf::new();
    let mut model = BTreeMap::new();
    let mut now = 0;
    for _ in 0..60 {
        let name = ["own", "a", "b", "c"][random.below(4) as usize];
        match random.below(8) {
            0..=2 => {
                let wait = 1 + u64::from(random.below(5_000));
                shelf.set_in(name, wait).await;
                model.insert(name, now + wait);
            }
            3 => {
                shelf.diary().delete(name.to_owned()).await.unwrap();
                model.remove(name);
            }
            4 if random.below(4) == 0 => {
                shelf.diary().delete_all().await.unwrap();
                model.clear();
            }
            5 => {
                if random.below(2) == 0 {
                    shelf.world.node.store().checkpoint().unwrap();
                }
                shelf = shelf.killed();
            }
            _ => {
                let before = shelf.notes().len();
                now += 1 + u64::from(random.below(3_000));
                shelf
                    .pass(now - (shelf.world.clock.unix_millis() - TestClock::START_UNIX_MILLIS))
                    .await;
                let mut due: Vec<_> = model.iter().filter(|(_, at)| **at <= now).collect();
                due.sort_by_key(|(name, at)| (**at, **name != "own", **name));
                let due: Vec<_> = due
                    .iter()
                    .map(|(name, _)| format!("{name} at {now} retry 0"))
                    .collect();
                assert_eq!(shelf.notes()[before..], due, "seed {seed}");
                model.retain(|_, at| *at > now);
            }
        }
    }
}
