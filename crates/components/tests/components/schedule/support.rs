//! A node on an in-memory disk whose objects hold schedules, and a handler that does what a timer's metadata say.

pub(crate) use abide_harness::run;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::schedule::{
    Entry, Failure, Firing, RetryPolicy, Run, Schedule, ScheduleError, ScheduleOptions, Spec,
    Timer, Upserted,
};
use abide::{NodeBuilder, prelude::*, storage::SimDisk};
use serde::{Deserialize, Serialize};

use crate::world::{self, Setup};

/// What a handler does, by a timer's metadata.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Deed {
    /// This many attempts fail.
    pub(crate) fails: u32,
    /// This many attempts panic.
    pub(crate) panics: u32,
    /// It fails for good.
    pub(crate) never: bool,
    /// This many attempts after those that fail are throttled, for this long.
    pub(crate) throttled: u32,
    pub(crate) after: Option<Duration>,
    /// The process ends during each attempt: nothing that is not on disk remains.
    pub(crate) ends: bool,
    /// It waits so long first; only in the background.
    pub(crate) waits: Option<Duration>,
    /// It sets its own timer again, after this time.
    pub(crate) again: Option<Duration>,
    /// It cancels a timer.
    pub(crate) cancels: Option<String>,
    /// Bytes that tell it from others.
    pub(crate) ballast: String,
}

/// All calls of handlers, also those whose work was undone; and in which life of the process: a killed process makes
/// no calls.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Called>>, u64);

#[derive(Default)]
struct Called {
    life: u64,
    all: Vec<Firing>,
    /// True if a handler has ended the process.
    ended: bool,
}

impl Calls {
    pub(crate) fn all(&self) -> Vec<Firing> {
        self.0.lock().unwrap().all.clone()
    }

    fn add(&self, firing: &Firing) {
        let mut calls = self.0.lock().unwrap();
        if calls.life == self.1 && !calls.ended {
            calls.all.push(firing.clone());
        }
    }

    /// From now on nothing of this life has happened.
    fn end(&self) {
        self.0.lock().unwrap().ended = true;
    }

    /// True if a handler has ended the process.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.lock().unwrap().ended
    }

    /// The calls of the next life. This one has ended.
    fn next_life(&self) -> Self {
        let mut calls = self.0.lock().unwrap();
        calls.life += 1;
        calls.ended = false;
        Self(Arc::clone(&self.0), calls.life)
    }

    /// The numbers of the attempts at a timer.
    pub(crate) fn attempts(&self, timer: &str) -> Vec<u32> {
        let all = self.all();
        let of = all.iter().filter(|firing| firing.timer == timer);
        of.map(|firing| firing.attempt).collect()
    }
}

/// What a handler has written: the timer, for when it was planned, and when it went off.
pub(crate) type Effect = (String, i64, i64);

#[derive(Clone)]
struct Parts {
    ctx: Ctx,
    schedule: Schedule,
    calls: Arc<Calls>,
    disk: Option<Arc<SimDisk>>,
}

impl Parts {
    fn open(ctx: Ctx, env: &Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY, timer TEXT, due_at INTEGER, at INTEGER)",
            (),
        )?;
        let options = env.require::<ScheduleOptions>()?;
        Ok(Self {
            schedule: Schedule::open(&ctx, ScheduleOptions::clone(&options))?,
            calls: env.require::<Calls>()?,
            disk: env.get::<SimDisk>(),
            ctx,
        })
    }

    fn now(&self) -> i64 {
        self.ctx.now().unix_millis()
    }

    fn goes_off(&self, firing: &Firing) -> Result<(), Failure> {
        self.calls.add(firing);
        let deed = firing.metadata::<Option<Deed>>()?.unwrap_or_default();
        self.ctx.sql().exec(
            "INSERT INTO effects (timer, due_at, at) VALUES (?1, ?2, ?3)",
            (&firing.timer, firing.due_at, self.now()),
        )?;
        assert!(firing.attempt > deed.panics, "as the test wants it");
        if deed.ends {
            // What the handlers before this one have written may not be on disk either.
            let disk = self.disk.as_ref().expect("a disk that can stop");
            disk.stop_at(disk.changes());
            self.calls.end();
        }
        if firing.attempt <= deed.fails {
            return Err(Failure::temporary(format!("failure {}", firing.attempt)));
        }
        if firing.attempt <= deed.fails + deed.throttled {
            return Err(Failure::throttled("later", deed.after));
        }
        if deed.never {
            return Err(Failure::permanent("never"));
        }
        if let Some(after) = deed.again {
            let at = self.now() + i64::try_from(after.as_millis()).unwrap();
            let next = Spec::once(&firing.kind, at).metadata(&deed)?;
            self.schedule
                .upsert(&firing.timer, &next)
                .map_err(Error::from)?;
        }
        if let Some(other) = &deed.cancels {
            self.schedule.cancel(other)?;
        }
        Ok(())
    }

    async fn goes_off_later(&self, firing: Firing) -> Result<(), Failure> {
        let deed = firing.metadata::<Option<Deed>>()?.unwrap_or_default();
        if let Some(wait) = deed.waits {
            let clock = self.ctx.env().clock();
            clock.sleep_until(clock.now() + wait).await;
        }
        self.goes_off(&firing)
    }
}

macro_rules! object {
    ($name:ident, $serve:expr) => {
        #[durable_object]
        pub(crate) struct $name(Parts);

        impl DurableObject for $name {
            fn new(ctx: Ctx, env: Env) -> Result<Self> {
                let parts = Parts::open(ctx, &env)?;
                $serve(parts.clone())?;
                Ok(Self(parts))
            }
        }

        #[rpc]
        impl $name {
            pub async fn upsert(&self, name: String, spec: Spec) -> Result<Upserted, ScheduleError> {
                self.0.schedule.upsert(&name, &spec)
            }

            pub async fn cancel(&self, name: String) -> Result<bool> {
                self.0.schedule.cancel(&name)
            }

            pub async fn get(&self, name: String) -> Result<Option<Timer>> {
                self.0.schedule.get(&name)
            }

            pub async fn list(&self, after: Option<String>, limit: usize) -> Result<Vec<Timer>> {
                self.0.schedule.list(after.as_deref(), limit)
            }

            pub async fn failed(&self) -> Result<Vec<Run>> {
                self.0.schedule.failed(None, 100)
            }

            pub async fn history(&self, timer: Option<String>, limit: usize) -> Result<Vec<Entry>> {
                self.0.schedule.history(timer.as_deref(), None, limit)
            }

            pub async fn run_now(&self, name: String) -> Result<(), ScheduleError> {
                self.0.schedule.run_now(&name)
            }

            pub async fn retry(&self, name: String) -> Result<(), ScheduleError> {
                self.0.schedule.retry(&name)
            }

            pub async fn discard(&self, name: String) -> Result<(), ScheduleError> {
                self.0.schedule.discard(&name)
            }

            pub async fn effects(&self) -> Result<Vec<Effect>> {
                self.0
                    .ctx.sql()
                    .exec("SELECT timer, due_at, at FROM effects ORDER BY id", ())?
                    .all()
            }

            /// Many timers in one call.
            pub async fn upsert_all(&self, specs: Vec<(String, Spec)>) -> Result<(), ScheduleError> {
                for (name, spec) in &specs {
                    self.0.schedule.upsert(name, spec)?;
                }
                Ok(())
            }

            /// What tells whether something still happens: the next time of the schedule and of the alarm, and the rows
            /// that were changed.
            pub async fn pulse(&self) -> Result<(Option<i64>, Option<i64>, i64)> {
                self.0.ctx.storage().sync().await?;
                let sql = self.0.ctx.sql();
                let alarm = self.0.ctx.alarm("schedule").get()?;
                Ok((
                    self.0.schedule.next()?,
                    alarm.map(Timestamp::unix_millis),
                    sql.exec(
                        "SELECT coalesce(sum(id * 7 + attempts + length(state)), 0) +
                             (SELECT coalesce(max(id), 0) FROM schedule_history) * 1000 FROM schedule_runs",
                        (),
                    )?
                    .one()?,
                ))
            }

            pub async fn scalar(&self, sql: String) -> Result<i64> {
                self.0.ctx.sql().exec(&sql, ())?.one()
            }
        }
    };
}

object!(Sync, |parts: Parts| {
    let schedule = parts.schedule.clone();
    schedule.on_firing(move |firing| parts.goes_off(firing))
});
object!(Background, |parts: Parts| {
    let schedule = parts.schedule.clone();
    schedule.on_firing_in_background(move |firing| {
        let parts = parts.clone();
        async move { parts.goes_off_later(firing).await }
    })
});

/// The options of schedules, and the calls of their handlers.
pub(crate) struct Handlers {
    pub(crate) calls: Calls,
    options: ScheduleOptions,
}

impl Setup for Handlers {
    fn build(&self, node: NodeBuilder, disk: &SimDisk) -> NodeBuilder {
        node.class::<Sync>(ClassOptions::default())
            .class::<Background>(ClassOptions::default())
            .with(self.calls.clone())
            .with(disk.clone())
            .with(self.options.clone())
    }

    fn end_life(&mut self) {
        self.calls = self.calls.next_life();
    }
}

pub(crate) type World = world::World<Handlers>;

impl World {
    pub(crate) fn new(options: ScheduleOptions) -> Self {
        let calls = Calls::default();
        Self::of(Handlers { calls, options })
    }

    /// An object whose timers are handled in its alarm.
    pub(crate) fn object(&self) -> Stub<Sync> {
        self.stub("ada")
    }

    /// An object whose timers are handled in its background.
    pub(crate) fn background(&self) -> Stub<Background> {
        self.stub("ada")
    }

    pub(crate) async fn set(&self, name: &str, spec: Spec) -> Upserted {
        let set = self.object().upsert(name.to_owned(), spec).await;
        set.unwrap()
    }

    pub(crate) async fn set_in_background(&self, name: &str, spec: Spec) -> Upserted {
        let set = self.background().upsert(name.to_owned(), spec).await;
        set.unwrap()
    }

    pub(crate) async fn timer(&self, name: &str) -> Timer {
        let timer = self.object().get(name.to_owned()).await;
        timer.unwrap().unwrap()
    }

    pub(crate) async fn background_timer(&self, name: &str) -> Timer {
        let timer = self.background().get(name.to_owned()).await;
        timer.unwrap().unwrap()
    }

    /// For when the occurrences were planned that went off, of one timer.
    pub(crate) async fn dues(&self, name: &str) -> Vec<i64> {
        dues_of(name, self.object().effects().await)
    }

    /// The same in the background.
    pub(crate) async fn background_dues(&self, name: &str) -> Vec<i64> {
        dues_of(name, self.background().effects().await)
    }

    /// The events of a timer, oldest first.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let history = self.object().history(Some(name.to_owned()), 1_000).await;
        let mut events: Vec<String> = history
            .unwrap()
            .into_iter()
            .map(|entry| entry.event)
            .collect();
        events.reverse();
        events
    }

    /// Moves the clock in steps, and lets everything happen that is due at each.
    pub(crate) async fn pass(&self, time: Duration, step: Duration) {
        let mut left = time;
        self.rest().await;
        while !left.is_zero() {
            let now = left.min(step);
            self.clock.advance(now);
            left -= now;
            self.rest().await;
        }
    }

    /// Lets everything happen that can without the clock moving.
    pub(crate) async fn rest(&self) {
        let mut quiet = 0;
        let mut before = None;
        // What is due may have to wait for something that is on its way: then nothing changes for a longer while.
        let enough = |waits: bool| if waits { 4 } else { 250 };
        loop {
            // A kill may have left the object with an alarm that waits for its next attempt.
            let pulses = (self.object().pulse().await, self.background().pulse().await);
            let (Ok(object), Ok(background)) = pulses else {
                quiet = 0;
                continue;
            };
            let now = self.now();
            let waits = |(next, alarm, _): &(Option<i64>, Option<i64>, i64)| {
                next.is_none_or(|at| at > now) && alarm.is_none_or(|at| at > now)
            };
            let waits = waits(&object) && waits(&background);
            let seen = Some((self.calls.all().len(), object, background));
            quiet = if seen == before { quiet + 1 } else { 0 };
            if quiet >= enough(waits) {
                return;
            }
            before = seen;
            if quiet > 4 {
                // The task that handles due work gets the processor.
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }
}

fn dues_of(name: &str, effects: Result<Vec<Effect>>) -> Vec<i64> {
    let effects = effects.unwrap().into_iter();
    let of = effects.filter(|(timer, ..)| timer == name);
    of.map(|(_, due_at, _)| due_at).collect()
}

/// Retries after 1 s, 2 s, 4 s exactly: four attempts.
pub(crate) fn plain() -> ScheduleOptions {
    let waits = [1, 2, 4].map(Duration::from_secs).to_vec();
    ScheduleOptions::default()
        .retry(RetryPolicy::Schedule(waits))
        .jitter(false)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// This many attempts fail.
pub(crate) fn failing(attempts: u32) -> Deed {
    Deed {
        fails: attempts,
        ..Deed::default()
    }
}

/// This many seconds after a time.
pub(crate) fn at(start: i64, seconds: &[i64]) -> Vec<i64> {
    let times = seconds.iter().map(|second| start + second * 1_000);
    times.collect()
}

/// A timer that does something.
pub(crate) fn doing(spec: Spec, deed: &Deed) -> Spec {
    spec.metadata(deed).unwrap()
}

/// No times.
pub(crate) const NONE: [i64; 0] = [];
