//! An alarm that several components share.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod world;

use std::{sync::Arc, time::Duration};

use abide::{Node, SimDisk, clock::TestClock, prelude::*};
use abide_patterns::{
    alarm::{AGAIN, SharedAlarm},
    outbox::{Options, Outbox, Registry},
};

use world::store;

/// Two components: one sees to what is due, the other fails as often as it is told to.
struct Parts {
    state: State,
    alarm: SharedAlarm,
}

impl Parts {
    fn ring(&self) -> Result<()> {
        self.alarm.woken()?;
        if self.alarm.is_due("good")? {
            self.alarm.set("good", None)?;
            self.count("good")?;
        }
        if self.alarm.is_due("bad")? {
            let failures: u32 = self.count("bad")?;
            if failures < 3 {
                return Ok(());
            }
            self.alarm.set("bad", None)?;
        }
        Ok(())
    }

    fn count(&self, what: &str) -> Result<u32> {
        let storage = self.state.storage();
        let count = storage.get(what)?.unwrap_or(0) + 1;
        storage.put(what, &count)?;
        Ok(count)
    }

    fn counted(&self) -> Result<(u32, u32)> {
        let storage = self.state.storage();
        Ok((
            storage.get("good")?.unwrap_or(0),
            storage.get("bad")?.unwrap_or(0),
        ))
    }
}

#[durable_object]
struct Alone(Parts);

impl DurableObject for Alone {
    fn new(state: State, _env: Env) -> Result<Self> {
        let alarm = SharedAlarm::open(&state)?;
        Ok(Self(Parts { state, alarm }))
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.0.ring()
    }
}

#[rpc]
impl Alone {
    pub async fn set(&self, slot: String, at: Option<i64>) -> Result<()> {
        self.0.alarm.set(&slot, at)
    }

    pub async fn counted(&self) -> Result<(u32, u32)> {
        self.0.counted()
    }

    pub async fn is_armed(&self) -> Result<bool> {
        Ok(self.0.state.storage().get_alarm()?.is_some())
    }
}

#[durable_object]
struct Beside(Parts);

impl DurableObject for Beside {
    fn new(state: State, env: Env) -> Result<Self> {
        Outbox::open(&state, env.require::<Registry>()?, Options::default())?;
        let alarm = SharedAlarm::open(&state)?;
        Ok(Self(Parts { state, alarm }))
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.0.ring()
    }
}

#[rpc]
impl Beside {
    pub async fn set(&self, slot: String, at: Option<i64>) -> Result<()> {
        self.0.alarm.set(&slot, at)
    }

    pub async fn counted(&self) -> Result<(u32, u32)> {
        self.0.counted()
    }
}

fn world() -> (Node, TestClock) {
    let clock = TestClock::new();
    let node = Node::builder(store(&SimDisk::new(), &clock))
        .with(Registry::new())
        .class::<Alone>("ALONE", ClassOptions::default())
        .class::<Beside>("BESIDE", ClassOptions::default())
        .clock(Arc::new(clock.clone()))
        .start()
        .unwrap();
    (node, clock)
}

fn now(node: &Node) -> i64 {
    node.env().clock().unix_millis().cast_signed()
}

/// Asks until so many alarms were seen to, of the good slot and of the bad one.
async fn until(wanted: (u32, u32), counted: impl AsyncFn() -> (u32, u32)) {
    let what = format!("{wanted:?}");
    abide_harness::until(&what, async || (counted().await == wanted).then_some(())).await;
}

#[tokio::test]
async fn each_slot_goes_off_at_its_time_and_what_is_not_seen_to_again() {
    let (node, clock) = world();
    let object = node.env().object::<Alone>().get_by_name("a");
    let start = now(&node);
    object
        .set("bad".into(), Some(start + 1_000))
        .await
        .unwrap()
        .unwrap();
    object
        .set("good".into(), Some(start + 2_000))
        .await
        .unwrap()
        .unwrap();
    let counted = async || object.counted().await.unwrap().unwrap();
    clock.advance(Duration::from_millis(999));
    assert_eq!(counted().await, (0, 0));
    clock.advance(Duration::from_millis(1));
    until((0, 1), counted).await;
    clock.advance(Duration::from_secs(1));
    until((1, 1), counted).await;
    for failures in [2, 3] {
        clock.advance(AGAIN.saturating_sub(Duration::from_secs(2)));
        // Long enough for an alarm that comes too early to be seen.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(counted().await, (1, failures - 1));
        clock.advance(Duration::from_secs(2));
        until((1, failures), counted).await;
    }
    assert!(!object.is_armed().await.unwrap().unwrap());
}

#[tokio::test]
async fn a_slot_that_is_emptied_does_not_go_off() {
    let (node, clock) = world();
    let object = node.env().object::<Alone>().get_by_name("a");
    object
        .set("good".into(), Some(now(&node) + 1_000))
        .await
        .unwrap()
        .unwrap();
    object.set("good".into(), None).await.unwrap().unwrap();
    assert!(!object.is_armed().await.unwrap().unwrap());
    clock.advance(Duration::from_mins(1));
    assert_eq!(object.counted().await.unwrap().unwrap(), (0, 0));
}

#[tokio::test]
async fn slots_go_off_beside_an_outbox() {
    let (node, clock) = world();
    let object = node.env().object::<Beside>().get_by_name("a");
    let start = now(&node);
    object
        .set("good".into(), Some(start + 1_000))
        .await
        .unwrap()
        .unwrap();
    object
        .set("bad".into(), Some(start + 1_000))
        .await
        .unwrap()
        .unwrap();
    let counted = async || object.counted().await.unwrap().unwrap();
    clock.advance(Duration::from_secs(1));
    until((1, 1), counted).await;
    clock.advance(AGAIN);
    until((1, 2), counted).await;
}
