//! A node on an in-memory disk whose objects hold outboxes, and a scripted handler.

mod script;
mod sender;

pub(crate) use abide_harness::run;
pub(crate) use script::*;
pub(crate) use sender::*;

use std::{sync::Arc, time::Duration};

use abide::{
    Node,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::SimDisk,
};
use abide::{
    outbox::handlers::HttpDelivery,
    outbox::{self, Counts, Deliver, Failure, Limit, Message, Options, Record, Registry, Status},
};

use self::sender::Settings;
use crate::world::store;

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: TestClock,
    pub(crate) node: Node,
    pub(crate) script: Script,
    options: Options,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        Self::at(TestClock::new(), SimDisk::new(), Script::default(), options)
    }

    pub(crate) fn at(clock: TestClock, disk: SimDisk, script: Script, options: Options) -> Self {
        let registry = Registry::new()
            .with(Scripted(script.clone(), script.life()))
            .with_kind("other", Scripted(script.clone(), script.life()))
            .with(HttpDelivery::new())
            .with_fan_out(Circular);
        let node = Node::builder(store(&disk, &clock))
            .class::<Sender>("SENDER", ClassOptions::default())
            .with(registry)
            .with(Settings(Arc::new(options.clone())))
            .clock(Arc::new(clock.clone()))
            .outbound(Arc::new(script.clone()))
            .workers(1)
            .start()
            .unwrap();
        Self {
            disk,
            clock,
            node,
            script,
            options,
        }
    }

    /// Another node on the state that a kill of this one leaves.
    pub(crate) fn killed(self) -> Self {
        self.script.kill();
        Self::at(
            self.clock.clone(),
            self.disk.after_kill(),
            self.script.clone(),
            self.options.clone(),
        )
    }

    /// Another node on the disk that a power failure leaves.
    pub(crate) fn crashed(self, seed: u64) -> Self {
        self.script.kill();
        Self::at(
            self.clock.clone(),
            self.disk.crash(seed),
            self.script.clone(),
            self.options.clone(),
        )
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.unix_millis().cast_signed()
    }

    pub(crate) fn sender(&self) -> Stub<Sender> {
        self.node.env().object::<Sender>().get_by_name("ada")
    }

    pub(crate) async fn enqueue(&self, message: Message) -> i64 {
        self.sender().enqueue(message).await.unwrap().unwrap().id
    }

    pub(crate) async fn enqueue_all(&self, messages: impl IntoIterator<Item = Message>) {
        let all = messages.into_iter().collect();
        self.sender().enqueue_all(all).await.unwrap().unwrap();
    }

    pub(crate) async fn get(&self, id: i64) -> Record {
        self.sender().get(id).await.unwrap().unwrap().unwrap()
    }

    pub(crate) async fn status(&self, id: i64) -> Status {
        self.get(id).await.status
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.sender().counts().await.unwrap().unwrap()
    }

    /// Waits until a message is so.
    pub(crate) async fn until(&self, id: i64, so: impl Fn(&Record) -> bool) -> Record {
        loop {
            let record = self.get(id).await;
            if so(&record) {
                return record;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn until_status(&self, id: i64, status: Status) -> Record {
        self.until(id, |record| record.status == status).await
    }

    /// Waits until the counts are so.
    pub(crate) async fn until_counts(&self, so: impl Fn(Counts) -> bool) -> Counts {
        loop {
            let counts = self.counts().await;
            if so(counts) {
                return counts;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Moves the clock, in steps in which alarms and attempts have time to happen.
    pub(crate) async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(500);
        let mut left = time;
        self.rest().await;
        while !left.is_zero() {
            let now = left.min(step);
            self.clock.advance(now);
            left -= now;
            self.rest().await;
        }
    }

    /// Lets everything happen that can without the clock moving: until nothing has changed for a while in which what was
    /// written became durable several times.
    pub(crate) async fn rest(&self) {
        let mut quiet = 0;
        let mut before = None;
        while quiet < 3 {
            for _ in 0..3 {
                self.sender().fence().await.unwrap().unwrap();
            }
            let now = self.now();
            let alarm = self.sender().alarm_time().await.unwrap().unwrap();
            let seen = Some((self.script.calls().len(), self.counts().await, alarm));
            if seen == before && alarm.is_none_or(|at| at > now) {
                quiet += 1;
            } else {
                quiet = 0;
            }
            before = seen;
        }
    }

    /// Events of a message's history.
    pub(crate) async fn events(&self, id: i64) -> Vec<String> {
        let history = self.sender().history(id).await.unwrap().unwrap();
        history.into_iter().map(|change| change.event).collect()
    }

    pub(crate) async fn check_counts(&self) {
        assert!(self.sender().counts_are_right().await.unwrap().unwrap());
    }
}

pub(crate) fn note(to: &str, text: &str) -> Message {
    let note = Note {
        to: to.to_owned(),
        text: text.to_owned(),
    };
    Scripted::message(&note).unwrap()
}

pub(crate) fn refused() -> Act {
    Act::Submit(Err(Failure::refused("busy")))
}

/// What makes a message a dead letter at once.
pub(crate) fn gone() -> Act {
    Act::Submit(Err(Failure::permanent("gone")))
}

/// As fast as possible, retries after 1 s, 2 s, 4 s… exactly.
pub(crate) fn plain() -> Options {
    let waits = [1, 2, 4, 8].map(Duration::from_secs).to_vec();
    Options {
        pace: outbox::Pace::unlimited(16),
        retry: outbox::RetryPolicy::Schedule(waits),
        jitter: false,
        ..Options::default()
    }
}

/// The same with so many at a time, in all and for each destination.
pub(crate) fn at_a_time(outbox: u32, destination: u32) -> Options {
    let limit = |concurrency| Limit {
        rate: None,
        concurrency,
    };
    Options {
        pace: outbox::Pace::AtOnce {
            outbox: limit(outbox),
            destination: limit(destination),
        },
        ..plain()
    }
}
