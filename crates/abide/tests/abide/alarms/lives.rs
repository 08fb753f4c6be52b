//! Random lives of alarms beside a simple model: waits and times of the clock are set, moved, removed, retried and held
//! by handlers that run on, savepoints fail, the wall clock is set back, and the process is killed. In the model a wait
//! ends by a clock that is never set. `ABIDE_ALARM_SEEDS` is the number of lives, `ABIDE_ALARM_FIRST_SEED` the first.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    AlarmInfo, NodeBuilder,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::SimDisk,
};
use abide_harness::{Random, setting};

use crate::{
    alarms::sleeper::{exact, time},
    support::{World, run},
};

const NAMES: [&str; 6] = ["", "plain", "fails", "holds", "again", "other"];
/// How long the handler of the alarm `holds` runs, and the wait that it sets first.
const HOLD: Duration = Duration::from_secs(40);
const NEXT: Duration = Duration::from_secs(61);
/// The back-off of a first retry.
const RETRY: Duration = Duration::from_secs(2);

#[derive(Clone, Default)]
struct Fired(Arc<Mutex<Vec<String>>>);

#[durable_object]
struct Liver {
    ctx: Ctx,
    fired: Fired,
}

impl DurableObject for Liver {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let fired = Fired::clone(&*env.require()?);
        Ok(Self { ctx, fired })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        let name = info.name.as_deref().unwrap_or_default().to_owned();
        let object = self.ctx.name().unwrap_or_default();
        self.fired
            .0
            .lock()
            .unwrap()
            .push(format!("{object}/{name}"));
        match name.as_str() {
            "fails" if !info.is_retry => return Err(Error::new("not yet")),
            "again" => self.ctx.alarm("again").set(NEXT)?,
            "holds" => {
                self.ctx.alarm("holds").set(NEXT)?;
                let clock = self.ctx.env().clock();
                clock.sleep_until(clock.now() + HOLD).await;
            }
            _ => {}
        }
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Liver {
    pub async fn wait(&self, name: String, millis: u64) -> Result<()> {
        let wait = Duration::from_millis(millis);
        match name.as_str() {
            "" => self.ctx.storage().set_alarm(wait),
            name => self.ctx.alarm(name).set(wait),
        }
    }

    pub async fn set(&self, name: String, millis: i64) -> Result<()> {
        match name.as_str() {
            "" => self.ctx.storage().set_alarm(time(millis)),
            name => self.ctx.alarm(name).set(time(millis)),
        }
    }

    pub async fn delete(&self, name: String) -> Result<()> {
        match name.as_str() {
            "" => self.ctx.storage().delete_alarm(),
            name => self.ctx.alarm(name).delete(),
        }
    }

    /// Changes an alarm, and undoes that.
    pub async fn fail(&self, name: String) -> Result<()> {
        self.ctx.storage().put("n", &1)?;
        let undone: Result<()> = self.ctx.storage().transaction(|| {
            self.ctx.alarm(&name).set(Duration::from_hours(20))?;
            Err(Error::new("no"))
        });
        assert!(undone.is_err());
        Ok(())
    }

    /// Milliseconds from now until the alarm goes off, as the object sees it.
    pub async fn left(&self, name: String) -> Result<Option<i64>> {
        let set = match name.as_str() {
            "" => self.ctx.storage().alarm()?,
            name => self.ctx.alarm(name).get()?,
        };
        let now = self.ctx.now().unix_millis();
        Ok(set.map(|set| set.unix_millis() - now))
    }
}

/// When an alarm of the model is due.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// By the clock that is never set.
    Wait(Duration),
    /// Milliseconds after the start of the wall clock.
    At(i64),
}

#[derive(Clone, Copy, Debug)]
struct Alarm {
    due: Due,
    is_retry: bool,
}

/// An object of the model.
#[derive(Default)]
struct Model {
    alarms: BTreeMap<&'static str, Alarm>,
    /// Until when the handler of `holds` runs.
    held: Option<Duration>,
}

struct Life {
    world: World,
    fired: Fired,
    models: [Model; 2],
}

fn node(clock: TestClock, disk: SimDisk, fired: &Fired) -> World {
    let classes = |node: NodeBuilder| node.class::<Liver>(exact()).with(fired.clone());
    World::at(clock, disk, 1, classes)
}

impl Life {
    fn new() -> Self {
        let fired = Fired::default();
        Self {
            world: node(TestClock::new(), SimDisk::new(), &fired),
            fired,
            models: Default::default(),
        }
    }

    fn object(&self, object: usize) -> Stub<Liver> {
        let name = format!("o{object}");
        self.world.env().object::<Liver>().get_by_name(&name)
    }

    /// The wall clock, in milliseconds after its start.
    fn wall(&self) -> i64 {
        let now = self.world.clock.unix_millis().cast_signed();
        now - TestClock::START_UNIX_MILLIS.cast_signed()
    }

    /// Milliseconds until an alarm of the model is due.
    fn left(&self, alarm: Alarm) -> i64 {
        match alarm.due {
            Due::At(at) => at - self.wall(),
            Due::Wait(until) => {
                let millis = |time: Duration| i64::try_from(time.as_millis()).unwrap();
                millis(until) - millis(self.world.clock.now())
            }
        }
    }

    /// Lets the model do what is due, and returns it.
    fn fire(&mut self) -> Vec<String> {
        let now = self.world.clock.now();
        let mut fired = Vec::new();
        for object in 0..self.models.len() {
            loop {
                match self.models[object].held {
                    Some(until) if until > now => break,
                    _ => self.models[object].held = None,
                }
                let alarms = self.models[object].alarms.iter();
                let due = alarms.map(|(name, alarm)| (self.left(*alarm), *name, *alarm));
                let Some((_, name, alarm)) = due.filter(|due| due.0 <= 0).min_by_key(|due| due.0)
                else {
                    break;
                };
                fired.push(format!("o{object}/{name}"));
                let model = &mut self.models[object];
                let next = |after| Alarm {
                    due: Due::Wait(now + after),
                    is_retry: false,
                };
                let next = match name {
                    "fails" if !alarm.is_retry => Some(Alarm {
                        is_retry: true,
                        ..next(RETRY)
                    }),
                    "again" => Some(next(NEXT)),
                    "holds" => {
                        model.held = Some(now + HOLD);
                        Some(next(NEXT))
                    }
                    _ => None,
                };
                model.alarms.remove(name);
                model.alarms.extend(next.map(|next| (name, next)));
            }
        }
        fired.sort();
        fired
    }

    async fn settle(&mut self, what: &str) {
        self.world.node.settle().await.unwrap();
        let mut fired = std::mem::take(&mut *self.fired.0.lock().unwrap());
        fired.sort();
        assert_eq!(fired, self.fire(), "{what}");
    }

    /// Every alarm that an object knows is due when the model says.
    async fn compare(&self, what: &str) {
        for (object, model) in self.models.iter().enumerate() {
            for name in NAMES {
                let left = self.object(object).left(name.to_owned()).await;
                let left = left.unwrap();
                let expected = model.alarms.get(name).filter(|alarm| !alarm.is_retry);
                let expected = expected.map(|alarm| self.left(*alarm));
                let retries = model.alarms.get(name).is_some_and(|alarm| alarm.is_retry);
                assert!(
                    left == expected || retries,
                    "{what}: o{object}/{name} {left:?} {expected:?}"
                );
            }
        }
    }

    async fn act(&mut self, random: &mut Random, what: &str) {
        let object = random.below(2) as usize;
        let name = NAMES[random.below(6) as usize];
        let stub = self.object(object);
        match random.below(12) {
            0..=2 => {
                let millis = u64::from(random.below(300_000)) + 1;
                stub.wait(name.to_owned(), millis).await.unwrap();
                let due = Due::Wait(self.world.clock.now() + Duration::from_millis(millis));
                self.set(object, name, due);
            }
            3 => {
                let at = self.wall() + i64::from(random.below(600_000)) + 1;
                stub.set(name.to_owned(), at).await.unwrap();
                self.set(object, name, Due::At(at));
            }
            4 => {
                stub.delete(name.to_owned()).await.unwrap();
                self.models[object].alarms.remove(name);
            }
            5 => {
                let name = if name.is_empty() { "other" } else { name };
                stub.fail(name.to_owned()).await.unwrap();
            }
            6 | 7 => {
                let back = [6_000, 70_000, 3_600_000][random.below(3) as usize];
                self.world.clock.set_wall(-back);
                // The node finds the step when it next looks at the clock, before the process can end.
                self.world.env().clock().unix_millis();
            }
            8 if self.models.iter().all(|model| model.held.is_none()) => {
                if random.below(2) == 0 {
                    self.world.node.store().checkpoint().unwrap();
                }
                let disk = self.world.disk.after_kill();
                self.world = node(self.world.clock.clone(), disk, &self.fired);
            }
            _ => {
                let most = [1_000, 30_000, 200_000][random.below(3) as usize];
                let millis = random.below(most);
                self.world
                    .clock
                    .advance(Duration::from_millis(u64::from(millis) + 1));
            }
        }
        self.settle(what).await;
    }

    fn set(&mut self, object: usize, name: &'static str, due: Due) {
        let alarm = Alarm {
            due,
            is_retry: false,
        };
        self.models[object].alarms.insert(name, alarm);
    }
}

async fn live(seed: u64) {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut life = Life::new();
    for step in 0..60 {
        let what = format!("seed {seed}, step {step}");
        life.act(&mut random, &what).await;
        life.compare(&what).await;
    }
}

#[test]
fn alarms_of_random_lives_go_off_as_a_simple_model_says() {
    run(async {
        let first = setting("ABIDE_ALARM_FIRST_SEED", 1);
        for seed in first..first + setting("ABIDE_ALARM_SEEDS", 25) {
            live(seed).await;
        }
    });
}
