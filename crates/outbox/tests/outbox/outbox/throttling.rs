//! Receivers that throttle: their refusals do not count as attempts, and their capacity is found and held.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::outbox::{
    Counts, Deliver, Delivery, Failure, Outbox, OutboxError, OutboxOptions, Registry, RetryPolicy,
    Status, Submitted,
};
use abide::{
    Node,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::SimDisk,
};
use serde::{Deserialize, Serialize};

use crate::{
    outbox::support::{Act, World, note, plain, run},
    world::store,
};

/// A receiver that takes this many messages in each window of time, and answers the others with 429 and `Retry-After`.
#[derive(Clone)]
struct Busy {
    most: u32,
    window: Duration,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// By window.
    taken: HashMap<u128, u32>,
    refused: u32,
}

#[derive(Serialize, Deserialize)]
struct Ping(u32);

impl Deliver for Busy {
    type Payload = Ping;
    const KIND: &'static str = "ping";

    fn retry(&self) -> Option<RetryPolicy> {
        Some(RetryPolicy::webhooks())
    }

    async fn submit(&self, delivery: &Delivery, _: &Ping) -> Result<Submitted, Failure> {
        tokio::task::yield_now().await;
        let mut seen = self.seen.lock().unwrap();
        let window = u128::from(delivery.now().unsigned_abs()) / self.window.as_millis();
        let taken = seen.taken.entry(window).or_default();
        if *taken < self.most {
            *taken += 1;
            return Ok(Submitted::Done);
        }
        seen.refused += 1;
        Err(Failure::throttled("429", Some(self.window)))
    }
}

#[durable_object]
struct Pinger {
    ctx: Ctx,
    outbox: Outbox,
}

impl DurableObject for Pinger {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
        Ok(Self { ctx, outbox })
    }
}

#[rpc]
impl Pinger {
    pub async fn pings(&self, count: u32) -> Result<(), OutboxError> {
        for number in 0..count {
            Busy::enqueue(&self.outbox, &Ping(number))?;
        }
        Ok(())
    }

    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }

    pub async fn fence(&self) -> Result<()> {
        let storage = self.ctx.storage();
        storage.put("fence", &0)?;
        storage.sync().await
    }
}

/// Sends messages to a receiver that takes `most` in each window of this many seconds. Returns how many windows that took, how
/// many requests it refused, and the counts at the end.
async fn send(messages: u32, most: u32, window: u64) -> (u64, u32, Counts) {
    let (disk, clock) = (SimDisk::new(), TestClock::new());
    let busy = Busy {
        most,
        window: Duration::from_secs(window),
        seen: Arc::default(),
    };
    let node = Node::builder(store(&disk, &clock))
        .class::<Pinger>(ClassOptions::default())
        .with(Registry::new().with(busy.clone()))
        .clock(Arc::new(clock.clone()))
        .workers(1)
        .start()
        .unwrap();
    let stub = node.env().object::<Pinger>().get_by_name("ada");
    stub.pings(messages).await.unwrap();
    let begun = clock.unix_millis();
    loop {
        for _ in 0..6 {
            stub.fence().await.unwrap();
        }
        let counts = stub.counts().await.unwrap();
        let windows = (clock.unix_millis() - begun) / 1_000 / window;
        if counts.queued + counts.sending == 0 || windows > 20 * u64::from(messages / most) {
            return (windows, busy.seen.lock().unwrap().refused, counts);
        }
        clock.advance(Duration::from_millis(500));
    }
}

#[test]
fn a_receiver_that_takes_two_a_second_gets_all_at_nearly_its_capacity() {
    run(async {
        let (windows, refused, counts) = send(600, 2, 1).await;
        assert_eq!((counts.sent, counts.failed), (600, 0), "{counts:?}");
        assert!(windows <= 300 * 3 / 2, "{windows} s, and 300 would do");
        // One in five.
        assert!(refused <= 150, "{refused} requests were refused");
    });
}

#[test]
fn a_slow_receiver_gets_all_messages_near_its_capacity() {
    run(async {
        let (windows, refused, counts) = send(300, 1, 5).await;
        assert_eq!((counts.sent, counts.failed), (300, 0), "{counts:?}");
        assert!(
            windows <= 300 * 3 / 2,
            "{windows} windows, and 300 would do"
        );
        assert!(refused <= 60, "{refused} requests were refused");
    });
}

fn throttled(seconds: u64) -> Act {
    Act::Submit(Err(Failure::throttled(
        "429",
        Some(Duration::from_secs(seconds)),
    )))
}

#[test]
fn being_throttled_is_no_attempt_and_is_bounded_by_age() {
    run(async {
        let world = World::new(plain().patience(Duration::from_secs(100)));
        world.script.say("patient", vec![throttled(10); 9]);
        let patient = world.enqueue(note("bob", "patient")).await;
        world.script.say("never", vec![throttled(10); 50]);
        let never = world.enqueue(note("eve", "never")).await;
        world.pass(Duration::from_secs(99)).await;
        let record = world.get(patient).await;
        assert_eq!((record.status, record.attempts), (Status::Sent, 1));
        assert_eq!(world.status(never).await, Status::Queued);
        world.pass(Duration::from_secs(11)).await;
        let record = world.get(never).await;
        assert_eq!((record.status, record.attempts), (Status::Failed, 1));
        let error = record.last_error.unwrap();
        assert!(
            error.contains("throttled") && error.contains("429"),
            "{error}"
        );
        // Redriven, it has all its patience before it.
        world.sender().redrive(never).await.unwrap();
        world.pass(Duration::from_mins(1)).await;
        assert_eq!(world.status(never).await, Status::Queued);
    });
}

#[test]
fn being_throttled_is_bounded_by_the_deadline() {
    run(async {
        let world = World::new(plain());
        world.script.say("mortal", vec![throttled(10); 50]);
        let deadline = world.now() + 35_000;
        let id = world
            .enqueue(note("bob", "mortal").deadline(deadline))
            .await;
        world.pass(Duration::from_secs(40)).await;
        assert_eq!(world.status(id).await, Status::Failed);
        assert_eq!(world.script.times("mortal"), [0, 10_000, 20_000, 30_000]);
    });
}

#[test]
fn what_was_throttled_keeps_its_place_and_probes_alone() {
    run(async {
        let world = World::new(plain());
        world.script.say("first", [throttled(5), throttled(5)]);
        let first = world.enqueue(note("bob", "first")).await;
        world
            .until(first, |record| record.last_error.is_some())
            .await;
        let others = (0..5).map(|number| note("bob", &format!("later {number}")));
        world.enqueue_all(others).await;
        world.pass(Duration::from_secs(9)).await;
        assert_eq!(world.script.times("first"), [0, 5_000]);
        assert_eq!(world.script.calls().len(), 2, "nothing goes beside a probe");
        world.pass(Duration::from_secs(6)).await;
        assert_eq!(world.script.times("first"), [0, 5_000, 10_000]);
        assert_eq!(world.counts().await.sent, 6);
    });
}

#[test]
fn what_a_pause_has_taught_outlives_the_process() {
    run(async {
        let world = World::new(plain());
        world.script.say("first", [throttled(20)]);
        let id = world.enqueue(note("bob", "first")).await;
        world.until(id, |record| record.last_error.is_some()).await;
        let world = world.killed();
        world.enqueue(note("bob", "second")).await;
        world.pass(Duration::from_secs(19)).await;
        assert_eq!(world.script.calls().len(), 1);
        world.pass(Duration::from_secs(2)).await;
        assert_eq!(world.counts().await.sent, 2);
    });
}
