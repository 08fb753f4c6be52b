//! A process that crashes while many alarms run: the cause is identified, and the others pay nothing for it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    clock::TestClock,
    limits::{ALARM_SUSPECT_PATIENCE, ALARM_SUSPECTS_TOGETHER},
    prelude::*,
    storage::SimDisk,
};

use crate::{
    alarms::sleeper::{giving_up_after, time},
    support::{Signals, World, run, signals},
};

/// What a handler does.
#[derive(Clone, Copy, Default)]
enum Mood {
    #[default]
    Succeed,
    Hang,
}

/// The moods of members, by name; the others succeed.
#[derive(Clone, Default)]
struct Moods(Arc<Mutex<HashMap<String, Mood>>>);

impl Moods {
    fn set(&self, names: &[String], mood: Mood) {
        let mut moods = self.0.lock().unwrap();
        moods.extend(names.iter().map(|name| (name.clone(), mood)));
    }

    fn of(&self, name: &str) -> Mood {
        self.0
            .lock()
            .unwrap()
            .get(name)
            .copied()
            .unwrap_or_default()
    }
}

#[durable_object]
struct Member {
    ctx: Ctx,
    signals: Signals,
    moods: Moods,
}

impl DurableObject for Member {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self {
            ctx,
            signals: signals(&env),
            moods: Moods::clone(&*env.require()?),
        })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        let name = self.ctx.name().unwrap_or_default();
        self.signals
            .note(format!("in {name} retry {}", info.retry_count));
        match self.moods.of(&name) {
            Mood::Succeed => {}
            Mood::Hang => std::future::pending().await,
        }
        self.signals.note(format!("done {name}"));
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Member {
    pub async fn set(&self, millis: i64) -> Result<()> {
        self.ctx.storage().set_alarm(time(millis))
    }
}

/// A node of members, whose alarms are given up when they have failed once.
struct Crew {
    world: World,
    moods: Moods,
}

impl Crew {
    fn on(clock: TestClock, disk: SimDisk, moods: Moods) -> Self {
        let world = World::at(clock, disk, 1, |node| {
            let options = giving_up_after(0).event_timeout(Duration::MAX);
            node.class::<Member>(options).with(moods.clone())
        });
        Self { world, moods }
    }

    fn new() -> Self {
        Self::on(TestClock::new(), SimDisk::new(), Moods::default())
    }

    /// Another node on the state that a kill of this one leaves. Moods are set before: alarms may go off at once.
    fn killed(self) -> Self {
        let disk = self.world.disk.after_kill();
        Self::on(self.world.clock.clone(), disk, self.moods.clone())
    }

    fn member(&self, name: &str) -> Stub<Member> {
        self.world.env().object::<Member>().get_by_name(name)
    }

    async fn set(&self, names: &[String], millis: i64) {
        for name in names {
            self.member(name).set(millis).await.unwrap();
        }
    }

    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.world.clock.advance(Duration::from_secs(1));
            self.world.fence().await;
            // The node's threads live in real time: an hour of the clock must not go by while one of them wakes.
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert_eq!(self.world.node.stats().alarms_given_up, 0);
        }
    }

    /// Returns when the handlers of this many have begun in this life, and no more after another while.
    async fn have_begun(&self, count: usize) -> Vec<String> {
        // A thread that wakes late begins to wait when the clock has moved already.
        while self.begun().len() < count {
            self.pass(1).await;
        }
        self.pass(2).await;
        assert_eq!(self.begun().len(), count);
        self.begun()
    }

    /// Lets time pass until no alarm is left.
    async fn finish(&self) {
        while self.world.node.stats().alarms_pending > 0 {
            self.pass(1).await;
        }
    }

    /// Whose handlers have begun in this life.
    fn begun(&self) -> Vec<String> {
        self.noted("in ")
    }

    fn done(&self) -> Vec<String> {
        self.noted("done ")
    }

    fn noted(&self, what: &str) -> Vec<String> {
        let notes = self.world.signals.notes();
        let name = |note: &String| {
            let name = note.strip_prefix(what)?.split(' ').next()?;
            Some(name.to_owned())
        };
        notes.iter().filter_map(name).collect()
    }

    /// How often the process has crashed while the alarm of a member ran alone.
    async fn crashes(&self, name: &str) -> u32 {
        let member = self.member(name);
        let alarms = self.world.node.alarms_of(member.untyped()).await.unwrap();
        alarms.iter().map(|alarm| alarm.crashes).sum()
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("m{number:02}")).collect()
}

#[test]
fn a_crash_uses_up_no_retry_of_what_ran() {
    run(async {
        let members = names(20);
        let mut crew = Crew::new();
        crew.moods.set(&members, Mood::Hang);
        crew.set(&members, 1_000).await;
        for crashes in 1..=6 {
            while crew.begun().is_empty() {
                crew.pass(1).await;
            }
            if crashes == 6 {
                crew.moods.set(&members, Mood::Succeed);
            }
            crew = crew.killed();
        }
        crew.finish().await;
        let mut done = crew.done();
        done.sort();
        assert_eq!(done, members);
        let stats = crew.world.node.stats();
        assert_eq!((stats.alarms_failed, stats.alarms_given_up), (0, 0));
        assert_eq!((stats.alarms_pending, stats.alarms_suspect), (0, 0));
    });
}

#[test]
fn what_ran_at_a_crash_runs_a_few_at_a_time_and_at_the_next_crash_alone() {
    run(async {
        let members = names(ALARM_SUSPECTS_TOGETHER + 4);
        let crew = Crew::new();
        crew.moods.set(&members, Mood::Hang);
        crew.set(&members, 1_000).await;
        crew.pass(1).await;
        crew.have_begun(members.len()).await;

        let crew = crew.killed();
        crew.pass(3).await;
        let few = crew.have_begun(ALARM_SUSPECTS_TOGETHER).await;
        assert_eq!(crew.world.node.stats().alarms_suspect, 4, "had no turn");

        let crew = crew.killed();
        crew.pass(10).await;
        let rest = crew.have_begun(4).await;
        let had_no_turn = |name| !few.contains(name);
        assert!(rest.iter().all(had_no_turn), "{rest:?} go first");
        // They hang; after a while they no longer delay other alarms.
        crew.pass(ALARM_SUSPECT_PATIENCE.as_secs()).await;
        let alone = crew.have_begun(5).await.split_off(4);
        assert!(few.contains(&alone[0]));

        crew.moods.set(&members, Mood::Succeed);
        let crew = crew.killed();
        crew.finish().await;
        assert_eq!(crew.done().len(), members.len());
        assert_eq!(crew.world.node.stats().alarms_crashed, 1);
        assert_eq!(crew.world.node.stats().alarms_failed, 0);
    });
}

#[test]
fn what_ends_the_process_whenever_it_runs_is_found_and_all_others_run() {
    run(async {
        let members = names(40);
        let killers = ["m07".to_owned(), "m23".to_owned()];
        let mut crew = Crew::new();
        crew.moods.set(&members, Mood::Hang);
        crew.set(&members, 1_000).await;
        crew.pass(1).await;
        crew.have_begun(members.len()).await;
        crew.moods.set(&members, Mood::Succeed);
        crew.moods.set(&killers, Mood::Hang);
        crew = crew.killed();

        let (mut done, mut crashes, mut waits) = (Vec::new(), Vec::new(), Vec::new());
        let mut waited = 0;
        while crashes.len() < 12 {
            waited += 1;
            crew.pass(1).await;
            let killer = crew.begun().into_iter().find(|name| killers.contains(name));
            if let Some(killer) = killer {
                // One that has run just before a crash runs again.
                done.extend(crew.done());
                done.sort();
                done.dedup();
                if done.len() == members.len() - 2 {
                    waits.push(waited);
                }
                waited = 0;
                crashes.push(killer);
                crew = crew.killed();
            }
        }
        assert_eq!(done.len(), members.len() - 2, "all others have run");
        for killer in &killers {
            let times = crashes.iter().filter(|name| *name == killer).count();
            assert!(times >= 4, "{crashes:?}");
            let crashes = crew.crashes(killer).await;
            assert!(crashes >= 2, "{killer}: {crashes}");
        }
        let last_two: u32 = waits[waits.len() - 2..].iter().sum();
        assert!(last_two >= 10, "the node lives ever longer: {waits:?}");
        assert_eq!(crew.world.node.stats().alarms_failed, 0);
    });
}

#[test]
fn other_alarms_go_off_while_suspects_run() {
    run(async {
        let members = names(3);
        let crew = Crew::new();
        crew.moods.set(&members, Mood::Hang);
        crew.set(&members, 1_000).await;
        crew.pass(1).await;
        crew.have_begun(3).await;
        let crew = crew.killed();
        crew.pass(3).await;
        crew.have_begun(3).await;
        let other = ["other".to_owned()];
        crew.set(&other, 15_000).await;
        crew.pass(10).await;
        crew.world.until(|_| crew.done() == other).await;
    });
}

#[test]
fn a_clean_stop_makes_no_suspects_and_interrupted_alarms_run_again() {
    run(async {
        let members = names(3);
        let crew = Crew::new();
        crew.moods.set(&members, Mood::Hang);
        crew.set(&members, 1_000).await;
        crew.pass(1).await;
        crew.have_begun(3).await;
        let node = crew.world.node.clone();
        tokio::spawn(async move { node.shutdown(Duration::ZERO).await })
            .await
            .unwrap()
            .unwrap();
        crew.world.node.store().close().unwrap();
        crew.moods.set(&members, Mood::Succeed);
        let crew = Crew::on(
            crew.world.clock.clone(),
            crew.world.disk.clone(),
            crew.moods.clone(),
        );
        let stats = crew.world.node.stats();
        assert_eq!((stats.alarms_suspect, stats.alarms_failing), (0, 0));
        crew.world.until(|_| crew.done().len() == 3).await;
        let notes = crew.world.signals.notes();
        assert!(notes.contains(&"in m00 retry 1".to_owned()), "{notes:?}");
        assert_eq!(crew.world.node.stats().alarms_failed, 0);
    });
}

#[test]
fn setting_the_alarm_of_a_suspect_does_not_hasten_it() {
    run(async {
        let ada = ["ada".to_owned()];
        let mut crew = Crew::new();
        crew.moods.set(&ada, Mood::Hang);
        crew.set(&ada, 1_000).await;
        // Four crashes: the fifth attempt comes 16 s after the fourth.
        for seconds in [1, 2, 4, 8] {
            crew.pass(seconds).await;
            crew.world.until(|_| crew.begun() == ada).await;
            crew = crew.killed();
        }
        crew.set(&ada, 1).await;
        assert_eq!(crew.world.node.stats().alarms_suspect, 1);
        crew.pass(15).await;
        assert!(crew.begun().is_empty());
        crew.pass(1).await;
        crew.world.until(|_| crew.begun() == ada).await;
        assert_eq!(crew.crashes("ada").await, 2);
    });
}
