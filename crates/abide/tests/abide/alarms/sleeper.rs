//! The object of these tests: its alarm follows the test's script, and records when it went off.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    AlarmInfo, AlarmListing, AlarmRetry, LocalFuture, Node, NodeBuilder, Timestamp,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::{AlarmState, SimDisk},
};

use crate::support::{Signals, World, signals};

/// Its alarms never have an act.
const WITNESS: &str = "witness";

type Act = Box<dyn FnOnce(Sleeper) -> LocalFuture<Result<()>> + Send>;

/// The script of handlers, one act for each alarm that goes off; without one they succeed.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<VecDeque<Act>>>);

impl Script {
    pub(crate) fn then<F: Future<Output = Result<()>> + 'static>(
        &self,
        act: impl FnOnce(Sleeper) -> F + Send + 'static,
    ) -> &Self {
        let act: Act = Box::new(|sleeper| Box::pin(act(sleeper)));
        self.0.lock().unwrap().push_back(act);
        self
    }

    fn next(&self) -> Option<Act> {
        self.0.lock().unwrap().pop_front()
    }

    /// This many handlers fail.
    pub(crate) fn fail(&self, times: usize) -> &Self {
        for _ in 0..times {
            self.then(async |_| Err(Error::from("it does not work")));
        }
        self
    }

    /// A handler panics.
    pub(crate) fn panic(&self) -> &Self {
        self.then(async |_| panic!("it does not work at all"))
    }
}

#[durable_object]
#[derive(Clone)]
pub(crate) struct Sleeper {
    pub(crate) ctx: Ctx,
    pub(crate) signals: Signals,
    pub(crate) script: Script,
}

impl DurableObject for Sleeper {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        signals.note("made");
        Ok(Self {
            ctx,
            signals,
            script: Script::clone(&*env.require()?),
        })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        let name = self.ctx.name().unwrap_or_default();
        self.signals.note(format!(
            "{name} at {} for {} retry {}",
            after(self.ctx.now().unix_millis()),
            after(info.scheduled_time.unix_millis()),
            info.retry_count
        ));
        assert_eq!(info.is_retry, info.retry_count > 0);
        let act = if name == WITNESS {
            None
        } else {
            self.script.next()
        };
        let outcome = match act {
            Some(act) => act(self.clone()).await,
            None => Ok(()),
        };
        self.signals.give(&format!("{name} fired"));
        outcome
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Sleeper {
    /// Sets the alarm to this many milliseconds after the clock's beginning.
    pub async fn set(&self, millis: i64) -> Result<()> {
        self.ctx.storage().set_alarm(time(millis))
    }

    pub async fn set_in(&self, millis: u64) -> Result<()> {
        self.ctx.storage().set_alarm(Duration::from_millis(millis))
    }

    /// Sets a named alarm.
    pub async fn set_other(&self, millis: u64) -> Result<()> {
        let other = self.ctx.alarm("other");
        other.set(Duration::from_millis(millis))
    }

    /// Sets a named alarm in a savepoint that fails.
    pub async fn set_other_in_vain(&self) -> Result<()> {
        self.ctx.storage().put("kept", &1)?;
        let undone: Result<()> = self.ctx.storage().transaction(|| {
            self.ctx.alarm("other").set(Duration::from_hours(20))?;
            Err(Error::new("no"))
        });
        assert!(undone.is_err());
        Ok(())
    }

    pub async fn get(&self) -> Result<Option<i64>> {
        let alarm = self.ctx.storage().alarm()?;
        Ok(alarm.map(|alarm| after(alarm.unix_millis())))
    }

    pub async fn delete(&self) -> Result<()> {
        self.ctx.storage().delete_alarm()
    }

    pub async fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub async fn put(&self, key: String, value: i64) -> Result<()> {
        self.ctx.storage().put(&key, &value)
    }

    /// Writes this many numbers, others each round.
    pub async fn fill(&self, count: i64, round: i64) -> Result<()> {
        let noise: Vec<i64> = (0..count).map(|n| n * 7_919 + round).collect();
        self.ctx.storage().put("noise", &noise)
    }

    pub async fn read(&self, key: String) -> Result<Option<i64>> {
        self.ctx.storage().get(&key)
    }

    pub async fn set_then_panic(&self, millis: i64) -> Result<()> {
        self.set(millis).await?;
        panic!("nothing of this is kept")
    }
}

/// Milliseconds after the beginning of a test's clock.
fn after(unix_millis: i64) -> i64 {
    unix_millis - TestClock::START_UNIX_MILLIS.cast_signed()
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_unix_millis(TestClock::START_UNIX_MILLIS.cast_signed() + millis)
}

/// Options without jitter, so that the time of a retry is known.
pub(crate) fn exact() -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::default().jitter(0.0))
}

/// As [`exact`], and alarms are given up after this many retries.
pub(crate) fn giving_up_after(retries: u32) -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::at_most(retries).jitter(0.0))
}

/// A node of sleepers and their script.
pub(crate) struct Dormitory {
    pub(crate) world: World,
    pub(crate) script: Script,
}

impl Dormitory {
    pub(crate) fn new() -> Self {
        Self::on(TestClock::new(), SimDisk::new(), exact())
    }

    pub(crate) fn on(clock: TestClock, disk: SimDisk, options: ClassOptions) -> Self {
        let script = Script::default();
        let classes = |node: NodeBuilder| node.class::<Sleeper>(options).with(script.clone());
        Self {
            world: World::at(clock, disk, 1, classes),
            script,
        }
    }

    /// Another node on the state that a kill of this one leaves.
    pub(crate) fn killed(&self) -> Self {
        let disk = self.world.disk.after_kill();
        Self::on(self.world.clock.clone(), disk, exact())
    }

    pub(crate) fn object(&self, name: &str) -> Stub<Sleeper> {
        self.world.env().object::<Sleeper>().get_by_name(name)
    }

    pub(crate) async fn fired(&self, name: &str) {
        self.world.signals.wait(&format!("{name} fired")).await;
    }

    pub(crate) fn advance(&self, millis: u64) {
        self.world.clock.advance(Duration::from_millis(millis));
    }

    /// Lets time pass and returns when whatever was due by then has been begun: a witness whose alarm is due last, on
    /// the same worker, has gone off.
    pub(crate) async fn pass(&self, millis: u64) {
        let witness = self.object(WITNESS);
        witness.set_in(millis).await.unwrap();
        self.advance(millis);
        self.fired(WITNESS).await;
        // Others may have been due in the same moment; by now they have been taken, and this one comes behind them.
        witness.set_in(0).await.unwrap();
        self.fired(WITNESS).await;
        witness.get().await.unwrap();
        // Those that ran when an earlier process ended do not go off in the order of the others.
        let now = self.world.clock.unix_millis().cast_signed();
        let is_due = |alarm: &AlarmListing| alarm.due.unix_millis() <= now;
        let is_late = |node: &Node| {
            let failing = node.alarms(AlarmState::Failing, None, 10);
            node.stats().alarms_suspect > 0 && failing.iter().any(is_due)
        };
        self.world.until(|node| !is_late(node)).await;
        // They have been taken, and their objects are opened now.
        self.world.fence().await;
    }

    /// Returns when this many objects have been reset, and what follows from it is done.
    pub(crate) async fn broken(&self, times: u64) {
        self.world.until(|node| node.stats().resets == times).await;
        self.world.fence().await;
    }

    /// What the handlers of an object have noted: when it went off, for which time, and which retry it was.
    pub(crate) fn notes(&self, name: &str) -> Vec<String> {
        let of_it = |note: String| note.strip_prefix(name).map(|note| note.trim().to_owned());
        let notes = self.world.signals.notes();
        notes.into_iter().filter_map(of_it).collect()
    }
}
