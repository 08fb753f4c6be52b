//! A handler's view of its own alarm.

use std::time::Duration;

use abide::{Timestamp, prelude::*};

use crate::{
    alarms::sleeper::{Dormitory, Sleeper, time},
    support::{Signals, World, run, signals},
};

fn alarm(sleeper: &Sleeper) -> Option<Timestamp> {
    sleeper.ctx.storage().alarm().unwrap()
}

#[test]
fn inside_the_handler_there_is_no_alarm_unless_it_is_set_again() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            assert_eq!(alarm(&sleeper), None);
            sleeper.ctx.storage().set_alarm(time(9_000))?;
            assert_eq!(alarm(&sleeper), Some(time(9_000)));
            sleeper.ctx.storage().delete_alarm()?;
            assert_eq!(alarm(&sleeper), None);
            sleeper.ctx.storage().set_alarm(time(8_000))
        });
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.pass(2_000).await;
        assert_eq!(ada.get().await.unwrap(), Some(8_000));
        beds.pass(7_000).await;
        assert_eq!(
            beds.notes("ada"),
            ["at 2000 for 1000 retry 0", "at 9000 for 8000 retry 0"]
        );
    });
}

#[test]
fn an_alarm_set_to_now_or_the_past_in_its_handler_fires_again() {
    run(async {
        let beds = Dormitory::new();
        for round in 0..20 {
            beds.script.then(async move |sleeper| {
                let storage = sleeper.ctx.storage();
                if round % 2 == 0 {
                    storage.set_alarm(Duration::ZERO)
                } else {
                    storage.set_alarm(time(1))
                }
            });
        }
        beds.object("ada").set(1_000).await.unwrap();
        beds.advance(1_000);
        for _ in 0..21 {
            beds.fired("ada").await;
        }
        let mut expected = vec!["at 1000 for 1000 retry 0"];
        for _ in 0..10 {
            expected.extend(["at 1000 for 1000 retry 0", "at 1000 for 1 retry 0"]);
        }
        assert_eq!(beds.notes("ada"), expected);
        beds.pass(1_000).await;
        assert_eq!(beds.notes("ada").len(), 21);
    });
}

#[test]
fn an_alarm_deleted_in_its_handler_is_kept_if_the_handler_fails() {
    run(async {
        let beds = Dormitory::new();
        for fails in [true, false] {
            beds.script.then(async move |sleeper| {
                sleeper.ctx.storage().delete_alarm()?;
                if fails {
                    return Err("deleted, and failed".into());
                }
                Ok(())
            });
        }
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.pass(1_000).await;
        beds.pass(10_000).await;
        beds.pass(100_000).await;
        assert_eq!(
            beds.notes("ada"),
            ["at 1000 for 1000 retry 0", "at 11000 for 1000 retry 1"]
        );
    });
}

#[test]
fn deleting_everything_in_the_handler_does_not_end_its_retries() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.ctx.storage().delete_all()?;
            assert_eq!(alarm(&sleeper), None);
            Err("deleted all, and failed".into())
        });
        let ada = beds.object("ada");
        ada.put("key".to_owned(), 1).await.unwrap();
        ada.set(1_000).await.unwrap();
        beds.pass(1_000).await;
        assert_eq!(ada.read("key".to_owned()).await.unwrap(), None);
        beds.pass(2_000).await;
        assert_eq!(beds.notes("ada").len(), 2);
    });
}

#[test]
fn an_error_or_a_panic_does_not_undo_what_the_handler_has_committed() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.ctx.storage().put("first", &1_i64)?;
            Err("failed after a write".into())
        });
        beds.script.then(async |sleeper| {
            sleeper.ctx.storage().put("second", &2_i64)?;
            tokio::task::yield_now().await;
            sleeper.ctx.storage().put("third", &3_i64)?;
            panic!("in a later poll")
        });
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.pass(1_000).await;
        beds.pass(2_000).await;
        beds.broken(1).await;
        let read = async |key: &str| ada.read(key.to_owned()).await.unwrap();
        assert_eq!(read("first").await, Some(1));
        assert_eq!(read("second").await, Some(2));
        assert_eq!(read("third").await, None, "the poll that panicked");
        beds.pass(4_000).await;
        assert_eq!(beds.notes("ada").len(), 3);
    });
}

#[test]
fn an_alarm_that_a_failing_handler_sets_takes_the_place_of_its_retries() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.ctx.storage().set_alarm(time(50_000))?;
            Err("failed, but set".into())
        });
        beds.script.then(async |sleeper| {
            sleeper.ctx.storage().set_alarm(time(90_000))?;
            tokio::task::yield_now().await;
            panic!("set in an earlier poll")
        });
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.pass(1_000).await;
        assert_eq!(ada.get().await.unwrap(), Some(50_000));
        beds.pass(49_000).await;
        beds.broken(1).await;
        assert_eq!(ada.get().await.unwrap(), Some(90_000));
        beds.pass(40_000).await;
        assert_eq!(
            beds.notes("ada"),
            [
                "at 1000 for 1000 retry 0",
                "at 50000 for 50000 retry 0",
                "at 90000 for 90000 retry 0"
            ]
        );
    });
}

#[test]
fn what_others_do_to_the_alarm_while_it_is_handled_is_about_the_next_one() {
    run(async {
        let beds = Dormitory::new();
        beds.script.then(async |sleeper| {
            sleeper.signals.give("begun");
            sleeper.signals.wait("go").await;
            Ok(())
        });
        let ada = beds.object("ada");
        ada.set(1_000).await.unwrap();
        beds.advance(1_000);
        beds.world.signals.wait("begun").await;
        assert_eq!(ada.get().await.unwrap(), None);
        ada.delete().await.unwrap();
        ada.set(1_000).await.unwrap();
        assert_eq!(ada.get().await.unwrap(), Some(1_000));
        beds.world.fence().await;
        assert_eq!(beds.notes("ada").len(), 1, "one at a time");
        beds.world.signals.give("go");
        beds.fired("ada").await;
        beds.fired("ada").await;
        assert_eq!(beds.notes("ada").len(), 2);
    });
}

/// A class without a handler for its alarm.
#[durable_object]
struct Deaf {
    ctx: Ctx,
}

impl DurableObject for Deaf {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Deaf {
    pub async fn set(&self) -> Result<()> {
        self.ctx.storage().set_alarm(Duration::ZERO)
    }
}

#[test]
fn an_alarm_of_a_class_without_a_handler_fails() {
    run(async {
        let world = World::new(|node| node.class::<Deaf>(ClassOptions::default()));
        let deaf = world.env().object::<Deaf>().get_by_name("a");
        deaf.set().await.unwrap();
        world.until(|node| node.stats().errors == 1).await;
        assert_eq!(world.node.stats().alarms_pending, 1);
    });
}

/// An object whose constructor is slow.
#[durable_object]
struct Slow {
    ctx: Ctx,
    signals: Signals,
}

impl DurableObject for Slow {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let signals = signals(&env);
        let (told, storage) = (signals.clone(), ctx.storage().clone());
        drop(ctx.block_concurrency_while(async move {
            tokio::task::yield_now().await;
            let alarm = storage.alarm()?.map_or("None", |_| "the alarm");
            told.note(format!("made with {alarm}"));
            Ok(())
        }));
        Ok(Self { ctx, signals })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        self.signals.note(format!("retry {}", info.retry_count));
        self.signals.give("fired");
        Ok(())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Slow {
    pub async fn set(&self) -> Result<()> {
        self.ctx.storage().set_alarm(Duration::from_mins(1))
    }
}

#[test]
fn an_alarm_waits_for_a_constructor_that_closes_the_gate() {
    run(async {
        let world = World::new(|node| node.class::<Slow>(ClassOptions::default()));
        let slow = world.env().object::<Slow>().get_by_name("a");
        slow.set().await.unwrap();
        world.clock.advance(Duration::from_secs(20));
        world.until(|node| node.stats().evicted == 1).await;
        world.clock.advance(Duration::from_secs(40));
        world.signals.wait("fired").await;
        world.until(|node| node.stats().alarms_pending == 0).await;
        assert_eq!(
            world.signals.notes(),
            ["made with None", "made with the alarm", "retry 0"]
        );
        assert_eq!(world.node.stats().alarms_fired, 1);
    });
}
