//! One life of the process: from opening the data directory to its end.

use std::{path::Path, pin::pin, rc::Rc, sync::Arc, time::Duration};

use abide::outbox::Registry;
use abide::{
    AlarmRetry, ClassOptions, Env, Node,
    clock::{Clock as _, TestClock},
    random::SeededRandomness,
    storage::{AlarmState, SimDisk, Store, StoreOptions},
};
use tokio::task::JoinHandle;

use crate::{
    classes::{Circular, Ledger, Sender, Slate},
    copies::{Copies, Place},
    executor::Executor,
    history::{History, Recorder},
    machine::Machine,
    meanwhile,
    network::Network,
    plan::Plan,
    receiver::{Receiver, ReceiverDelivery},
};

pub(crate) const DIR: &str = "/data";

/// How long a clean stop waits for handlers.
const GRACE: Duration = Duration::from_secs(2);

/// Slates leave memory soon, because those that are erased end then.
const SLATE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a step may run and write before it is considered endless.
const PATIENCE: u32 = 10_000;

/// A running process.
pub(crate) struct Life {
    pub(crate) node: Node,
    pub(crate) disk: SimDisk,
    pub(crate) executor: Rc<Executor>,
    pub(crate) recorder: Recorder,
    pub(crate) receiver: Receiver,
    tasks: Vec<JoinHandle<()>>,
    /// None if nothing is copied.
    pub(crate) copies: Option<Copies>,
}

impl Life {
    /// Opens the data directory and starts a node on it.
    pub(crate) fn begin(
        plan: &Plan,
        machine: &dyn Machine,
        disk: &SimDisk,
        clock: &TestClock,
        history: &History,
        receiver: &Receiver,
        mut place: Option<&mut Place>,
    ) -> Result<Self, String> {
        let executor = Rc::new(Executor::new().map_err(|error| error.to_string())?);
        disk.while_syncing(meanwhile::syncing);
        let recorder = Recorder::new(history);
        let wall = clock.clone();
        let options = StoreOptions::small()
            .manual(true)
            .checkpoint_bytes(plan.checkpoint_bytes)
            .cache_kib(64)
            .await_copy(place.as_ref().is_some_and(|place| place.is_awaited))
            .remote_runs(place.as_mut().map(|place| place.remote_runs()))
            .unix_millis(Arc::new(move || wall.unix_millis()));
        let store = Store::open(machine.disk(disk), Path::new(DIR), options)
            .map_err(|error| error.to_string())?;
        let copies = place.map(|place| Copies::start(place, &executor, disk, &store, &recorder));
        let copies = copies.transpose()?;
        let life = u64::from(history.life());
        let options =
            || ClassOptions::default().alarm_retry(AlarmRetry::for_ever(Duration::from_secs(10)));
        let delivery = ReceiverDelivery {
            recorder: recorder.clone(),
            receiver: receiver.clone(),
        };
        let (node, futures) = Node::builder(store)
            .class::<Ledger>(options())
            .class::<Sender>(options())
            .class::<Slate>(options().idle_timeout(SLATE_TIMEOUT))
            .with(Registry::new().with(delivery).with_fan_out(Circular))
            .with(plan.delivery_options)
            .with(clock.clone())
            .clock(machine.clock(clock))
            .randomness(Arc::new(SeededRandomness::new(
                plan.seed.wrapping_add(life << 32),
            )))
            .outbound(Arc::new(Network::new(recorder.clone())))
            .with(recorder.clone())
            .workers(plan.workers)
            .build()
            .map_err(|error| error.to_string())?;
        let tasks = futures.into_iter().map(|task| executor.spawn(task));
        Ok(Self {
            tasks: tasks.collect(),
            node,
            disk: disk.clone(),
            executor,
            recorder,
            receiver: receiver.clone(),
            copies,
        })
    }

    pub(crate) fn env(&self) -> &Env {
        self.node.env()
    }

    /// Runs until nothing can run; unless the disk is slow, it writes immediately.
    pub(crate) fn settle(&self, slow: bool) {
        for _ in 0..PATIENCE {
            self.executor.until_idle();
            if slow || !self.write_group() {
                return;
            }
        }
        panic!("the node never comes to rest");
    }

    /// The log writes one group; returns whether there was one.
    pub(crate) fn write_group(&self) -> bool {
        let has_written = self.node.store().write_group();
        if let Some(copies) = self.copies.as_ref().filter(|_| has_written) {
            copies.wrote();
        }
        has_written
    }

    /// Runs everything that is ready, and what maintains the store, as its threads do.
    pub(crate) fn idle(&self, slow: bool) {
        self.settle(slow);
        meanwhile::beside(&self.executor, || drop(self.node.store().run_maintenance()));
        self.settle(slow);
    }

    /// Returns whether an alarm is due within this time.
    pub(crate) fn alarm_within(&self, time: Duration) -> bool {
        let now = self.env().now().unix_millis();
        let next = self.node.alarms(AlarmState::Pending, None, 1);
        next.first()
            .is_some_and(|alarm| alarm.due.unix_millis() <= now + time.as_millis() as i64)
    }

    /// The time until the retry of an alarm whose process has ended during it.
    pub(crate) fn next_retry(&self) -> Option<Duration> {
        let now = self.env().now().unix_millis();
        let next = self.node.alarms(AlarmState::Failing, None, 1);
        let due = next.first()?.due.unix_millis();
        Some(Duration::from_millis(u64::try_from(due - now).unwrap_or(0)))
    }

    /// Why the node stops: another has taken its history over.
    pub(crate) fn superseded(&self) -> Option<String> {
        self.copies.as_ref()?.superseded()
    }

    /// True if the bucket is not known to have everything.
    pub(crate) fn is_behind(&self) -> bool {
        self.copies.as_ref().is_some_and(Copies::is_behind)
    }

    /// Returns whether the process would stop itself, or a part of it has ended.
    pub(crate) fn has_failed(&self) -> bool {
        self.node.failed()
            || self.superseded().is_some()
            || self.tasks.iter().any(JoinHandle::is_finished)
    }

    /// Stops the node cleanly, which advances time.
    pub(crate) fn stop(mut self, clock: &TestClock) -> Result<(), String> {
        let node = self.node.clone();
        let stopped = self
            .executor
            .spawn(async move { node.shutdown(GRACE).await });
        self.wait(clock, |life| {
            stopped.is_finished() && life.tasks.iter().all(JoinHandle::is_finished)
        })?;
        if let Some(copies) = self.copies.take() {
            let copied = self.executor.spawn(copies.finish(GRACE));
            self.wait(clock, |_| copied.is_finished())?;
        }
        let mut stopped = pin!(stopped);
        let waker = std::task::Waker::noop();
        let mut cx = std::task::Context::from_waker(waker);
        if let std::task::Poll::Ready(Ok(Err(error))) = stopped.as_mut().poll(&mut cx) {
            return Err(error.to_string());
        }
        self.node.store().close().map_err(|error| error.to_string())
    }

    /// Lets time pass until something is done.
    fn wait(&self, clock: &TestClock, is_done: impl Fn(&Self) -> bool) -> Result<(), String> {
        for _ in 0..PATIENCE {
            if is_done(self) {
                return Ok(());
            }
            self.settle(false);
            clock.advance(Duration::from_millis(100));
        }
        Err("the node does not stop".to_owned())
    }

    /// Ends it without any time. Its disk stops, and its events are no longer observed.
    pub(crate) fn end(self) {
        self.disk.stop_at(0);
        drop(self.copies);
        // The node's parts reference each other until they are stopped.
        drop(self.node);
        self.executor.until_idle();
    }
}
