//! A node on an in-memory disk, with a manual clock, and ways to wait for events.

use std::{
    collections::HashMap,
    future::Future,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    Node,
    storage::{MemoryBudget, MemoryUsage, MemoryUse, SimDisk, Store, StoreOptions},
};
use abide::{
    NodeBuilder,
    clock::{Clock as _, TestClock},
    prelude::*,
};
use tokio::sync::Semaphore;

pub(crate) use abide_harness::run;

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: TestClock,
    pub(crate) node: Node,
    pub(crate) signals: Signals,
}

impl World {
    /// A node with one worker, which makes it easy to tell what has happened.
    pub(crate) fn new(classes: impl FnOnce(NodeBuilder) -> NodeBuilder) -> Self {
        Self::on(SimDisk::new(), 1, classes)
    }

    pub(crate) fn on(
        disk: SimDisk,
        workers: usize,
        classes: impl FnOnce(NodeBuilder) -> NodeBuilder,
    ) -> Self {
        Self::at(TestClock::new(), disk, workers, classes)
    }

    /// A node with one worker and a memory budget of this many bytes.
    pub(crate) fn with_memory(
        limit: u64,
        classes: impl FnOnce(NodeBuilder) -> NodeBuilder,
    ) -> Self {
        let options = StoreOptions::small().memory(MemoryBudget::new(limit));
        Self::open(TestClock::new(), SimDisk::new(), 1, options, classes)
    }

    /// A node that finds the clock as it is.
    pub(crate) fn at(
        clock: TestClock,
        disk: SimDisk,
        workers: usize,
        classes: impl FnOnce(NodeBuilder) -> NodeBuilder,
    ) -> Self {
        Self::open(clock, disk, workers, StoreOptions::small(), classes)
    }

    fn open(
        clock: TestClock,
        disk: SimDisk,
        workers: usize,
        options: StoreOptions,
        classes: impl FnOnce(NodeBuilder) -> NodeBuilder,
    ) -> Self {
        let time = clock.clone();
        let options = options.unix_millis(Arc::new(move || time.unix_millis()));
        let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
        let signals = Signals::default();
        let builder = Node::builder(store)
            .class::<Fence>(ClassOptions::default().idle_timeout(Duration::MAX))
            .with(signals.clone())
            .clock(Arc::new(clock.clone()))
            .workers(workers);
        let node = classes(builder).start().unwrap();
        Self {
            disk,
            clock,
            node,
            signals,
        }
    }

    pub(crate) fn env(&self) -> &Env {
        self.node.env()
    }

    /// Bytes of the memory budget that are taken for something.
    pub(crate) fn memory_for(&self, used_for: MemoryUse) -> u64 {
        self.memory_usage(used_for).bytes
    }

    /// How often something was refused for want of memory.
    pub(crate) fn refused_for(&self, used_for: MemoryUse) -> u64 {
        self.memory_usage(used_for).refused
    }

    fn memory_usage(&self, used_for: MemoryUse) -> MemoryUsage {
        self.node.store().memory().usage()[used_for as usize]
    }

    /// Returns when the (one) worker has done everything that it was given before: what is ready to run has run.
    pub(crate) async fn fence(&self) {
        let fence = self.env().object::<Fence>().get_by_name("fence");
        for _ in 0..3 {
            fence.pass().await.unwrap();
        }
    }

    /// Waits for a state that the node reaches without a call.
    pub(crate) async fn until(&self, so: impl Fn(&Node) -> bool) {
        while !so(&self.node) {
            tokio::task::yield_now().await;
        }
    }

    /// Stops the node cleanly and returns its disk.
    pub(crate) async fn stop(self) -> SimDisk {
        self.node.shutdown(Duration::from_secs(10)).await.unwrap();
        self.node.store().close().unwrap();
        self.disk
    }
}

/// An object that does nothing.
#[durable_object]
pub(crate) struct Fence;

impl DurableObject for Fence {
    fn new(_: Ctx, _: Env) -> Result<Self> {
        Ok(Self)
    }
}

#[rpc]
impl Fence {
    pub(crate) async fn pass(&self) {
        tokio::task::yield_now().await;
    }
}

/// Named places where a handler and its test meet, and what handlers have noted, in order.
#[derive(Clone, Default)]
pub(crate) struct Signals(Arc<Inner>);

#[derive(Default)]
struct Inner {
    places: Mutex<HashMap<String, Arc<Semaphore>>>,
    notes: Mutex<Vec<String>>,
}

impl Signals {
    /// Says that a place is reached, or gives leave to continue; once.
    pub(crate) fn give(&self, place: &str) {
        self.place(place).add_permits(1);
    }

    /// Waits for one [`give`](Self::give).
    pub(crate) async fn wait(&self, place: &str) {
        self.place(place).acquire().await.unwrap().forget();
    }

    pub(crate) fn note(&self, note: impl Into<String>) {
        self.0.notes.lock().unwrap().push(note.into());
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.0.notes.lock().unwrap().clone()
    }

    fn place(&self, place: &str) -> Arc<Semaphore> {
        let mut places = self.0.places.lock().unwrap();
        Arc::clone(
            places
                .entry(place.to_owned())
                .or_insert_with(|| Arc::new(Semaphore::new(0))),
        )
    }
}

/// The signals that a test shares with its objects.
pub(crate) fn signals(env: &Env) -> Signals {
    Signals::clone(&env.require().unwrap())
}

/// Polls a call once: true if its answer is there.
pub(crate) fn is_answered<R>(call: &mut abide::Call<R>) -> bool {
    let waker = std::task::Waker::noop();
    std::pin::Pin::new(call)
        .poll(&mut std::task::Context::from_waker(waker))
        .is_ready()
}
