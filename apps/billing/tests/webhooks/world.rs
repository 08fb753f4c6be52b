//! A node in memory, its clock, and the gateway and the receiver that outlive it.

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{
    ArchiveOptions, ClassOptions, Env, Error, ErrorKind, Fetching, Node, Outbound, Request,
    SimDisk, Store, StoreOptions, Stub,
    clock::{Clock, TestClock},
};
use abide_harness::Random;
use abide_patterns::{outbox::DeadLetterFilter, service, workflow};
use billing::{
    clock::AnyPayments,
    gateway::{AnyGateway, HttpGateway, LocalGateway, Mischief},
    hooks::{self, Endpoints, NewEndpoint, Registered},
    payment::{self, WorkflowPayments},
    resources,
};

use crate::receiver::{self, Receiver};

const KEY: &str = "sk_test";

/// A test that hangs fails instead, after far longer than any of them takes.
const PATIENCE: Duration = Duration::from_mins(4);

/// How far the clock is moved at a time.
const STEP: Duration = Duration::from_mins(20);

/// Between two looks.
const LOOK: Duration = Duration::from_micros(50);

/// Looks at a node that has nothing to do, before the clock moves.
const LOOKS: u32 = 5;

/// Looks at a node that is in the middle of something and does not move, before it is believed to wait for the clock.
const LONG_LOOKS: u32 = 100;

pub(crate) struct World {
    pub(crate) clock: TestClock,
    pub(crate) gateway: LocalGateway,
    pub(crate) receiver: Receiver,
    disk: SimDisk,
    node: Node,
    alive: Arc<AtomicBool>,
}

/// The network, which ends with the process.
struct Network {
    gateway: LocalGateway,
    receiver: Receiver,
    alive: Arc<AtomicBool>,
}

impl Outbound for Network {
    fn fetch(&self, request: Request) -> Fetching {
        if !self.alive.load(Ordering::SeqCst) {
            let error = Error::with_kind(ErrorKind::Unavailable, "the process is dead");
            return Box::pin(std::future::ready(Err(error)));
        }
        match request.uri().host() {
            Some(receiver::HOST) => self.receiver.fetch(request),
            _ => self.gateway.fetch(request),
        }
    }
}

/// Runs a test to its end.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let result = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, test).await })
        .expect("the test hangs");
    runtime.shutdown_background();
    result
}

impl World {
    /// A node whose receiver misbehaves so many times of a hundred.
    pub(crate) fn new(seed: u64, mischief: u32) -> Self {
        let clock = TestClock::new();
        let gateway = LocalGateway::new(KEY, Mischief::none(seed), Arc::new(clock.clone()));
        let receiver = Receiver::new(&clock, seed, mischief);
        Self::at(clock, gateway, receiver, SimDisk::new())
    }

    fn at(clock: TestClock, gateway: LocalGateway, receiver: Receiver, disk: SimDisk) -> Self {
        let time = clock.clone();
        let options = StoreOptions {
            unix_millis: Arc::new(move || time.unix_millis()),
            archive: ArchiveOptions {
                enabled: false,
                ..ArchiveOptions::default()
            },
            ..StoreOptions::small()
        };
        let store = Store::open(Arc::new(disk.clone()), Path::new("/data"), options).unwrap();
        let alive = Arc::new(AtomicBool::new(true));
        let network = Network {
            gateway: gateway.clone(),
            receiver: receiver.clone(),
            alive: Arc::clone(&alive),
        };
        let node = hooks::register(resources::register(Node::builder(store)))
            .class::<workflow::WorkflowInstance>(workflow::INSTANCES, workflow::class_options())
            .class::<workflow::WorkflowDirectory>(workflow::DIRECTORIES, ClassOptions::default())
            .with(payment::workflows())
            .with(workflow::Options::default())
            .with(AnyGateway::new(HttpGateway::new(
                "http://gateway.test",
                KEY,
            )))
            .with(AnyPayments::new(WorkflowPayments))
            .outbound(Arc::new(network))
            .clock(Arc::new(clock.clone()))
            .start()
            .unwrap();
        Self {
            clock,
            gateway,
            receiver,
            disk,
            node,
            alive,
        }
    }

    /// Another node, on what a kill of this one leaves of the disk, or a loss of power.
    pub(crate) fn dies(self, random: &mut Random) -> Self {
        self.alive.store(false, Ordering::SeqCst);
        let disk = match random.below(2) {
            0 => self.disk.after_kill(),
            _ => self.disk.crash(u64::from(random.below(u32::MAX))),
        };
        Self::at(self.clock, self.gateway, self.receiver, disk)
    }

    pub(crate) fn env(&self) -> &Env {
        self.node.env()
    }

    pub(crate) fn endpoints(&self) -> Stub<Endpoints> {
        self.env().object::<Endpoints>().get_by_name("all")
    }

    /// Has the receiver told of some types, or all, under a path.
    pub(crate) async fn listens(&self, path: &str, events: &[&str]) -> Registered {
        let new = NewEndpoint {
            url: format!("https://{}{path}", receiver::HOST),
            events: events.iter().copied().map(str::to_owned).collect(),
            secret: None,
        };
        let id = format!("we_{}", path.trim_start_matches('/'));
        let registered = self.endpoints().register(id, new).await.unwrap().unwrap();
        self.receiver.knows(path, &registered.secret);
        registered
    }

    /// The outbox of an endpoint.
    pub(crate) fn outbox(&self, endpoint: &Registered) -> Stub<service::Outbox> {
        let outboxes = self.env().object::<service::Outbox>();
        outboxes.get_by_name(&endpoint.endpoint.id)
    }

    /// Lets so much time pass, with what it makes due.
    pub(crate) async fn passes(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            left -= step;
            self.clock.advance(step);
            self.rests().await;
        }
    }

    /// Waits until nothing moves any more, or whatever does waits for the clock.
    async fn rests(&self) {
        let (mut idle, mut still, mut before) = (0, 0, (0, 0, 0));
        while idle < LOOKS && still < LONG_LOOKS {
            // A timer of the runtime would sleep a whole millisecond.
            std::thread::sleep(LOOK);
            tokio::task::yield_now().await;
            let stats = self.node.stats();
            let now = (stats.events, stats.outstanding, stats.held);
            still = if now == before { still + 1 } else { 0 };
            idle = if still > 0 && stats.outstanding == 0 {
                idle + 1
            } else {
                0
            };
            before = now;
        }
    }

    /// Lets time pass until something is so. What was refused too often a person sends again: a clock that jumps ends
    /// attempts that are on their way.
    pub(crate) async fn until(&self, is_so: impl AsyncFn() -> bool) {
        while !is_so().await {
            for endpoint in self.endpoints().list().await.unwrap().unwrap() {
                let outbox = self.env().object::<service::Outbox>();
                let outbox = outbox.get_by_name(&endpoint.id);
                let redriven = outbox.redrive_all(DeadLetterFilter::default());
                redriven.await.unwrap().unwrap();
            }
            self.passes(STEP).await;
        }
    }
}
