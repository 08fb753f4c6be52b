//! A node in memory, its clock, and the gateway and the receiver that outlive it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{
    Env, Error, ErrorKind, Fetching, Node, Outbound, Request, Stub,
    clock::{Clock, TestClock},
    storage::SimDisk,
};
use abide::{
    outbox::service,
    outbox::{DeadLetterFilter, OutboxOptions},
};
use abide_harness::Random;
use billing::{
    gateway::{AnyGateway, HttpGateway, LocalGateway, Mischief},
    hooks::{self, Endpoints, NewEndpoint, Registered},
};

use crate::{
    node::{engine, passes},
    webhooks::receiver::{self, Receiver},
};

const KEY: &str = "sk_test";

/// How far the clock is moved at a time.
const STEP: Duration = Duration::from_mins(20);

/// How long something may take that is certain to come: longer than an outbox retries.
const PATIENCE: Duration = Duration::from_hours(4 * 24);

/// What passes between two looks at what comes soon.
const MOMENT: Duration = Duration::from_secs(5);

/// Looks at what comes soon: less than the hours after which an outbox gives something up.
const LOOKS: u32 = 1_000;

pub(crate) struct World {
    pub(crate) clock: TestClock,
    pub(crate) gateway: LocalGateway,
    pub(crate) receiver: Receiver,
    disk: SimDisk,
    node: Node,
    alive: Arc<AtomicBool>,
    outbox: OutboxOptions,
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

impl World {
    /// A node whose receiver misbehaves this many times of a hundred.
    pub(crate) fn new(seed: u64, mischief: u32) -> Self {
        Self::with_outboxes(seed, mischief, OutboxOptions::default())
    }

    /// The same, with outboxes that are as it is said.
    pub(crate) fn with_outboxes(seed: u64, mischief: u32, outbox: OutboxOptions) -> Self {
        let clock = TestClock::new();
        let gateway = LocalGateway::new(KEY, Mischief::none(seed), Arc::new(clock.clone()));
        let receiver = Receiver::new(&clock, seed, mischief);
        Self::at(clock, gateway, receiver, SimDisk::new(), outbox)
    }

    fn at(
        clock: TestClock,
        gateway: LocalGateway,
        receiver: Receiver,
        disk: SimDisk,
        outbox: OutboxOptions,
    ) -> Self {
        let alive = Arc::new(AtomicBool::new(true));
        let network = Network {
            gateway: gateway.clone(),
            receiver: receiver.clone(),
            alive: Arc::clone(&alive),
        };
        let adapter = AnyGateway::new(HttpGateway::new("http://gateway.test", KEY));
        let node = hooks::register(engine(&disk, &clock, adapter, network))
            .with(outbox.clone())
            .start()
            .unwrap();
        Self {
            clock,
            gateway,
            receiver,
            disk,
            node,
            alive,
            outbox,
        }
    }

    /// Another node, on what a kill of this one leaves of the disk, or a loss of power.
    pub(crate) fn dies(self, random: &mut Random) -> Self {
        self.alive.store(false, Ordering::SeqCst);
        let disk = match random.below(2) {
            0 => self.disk.after_kill(),
            _ => self.disk.crash(u64::from(random.below(u32::MAX))),
        };
        Self::at(self.clock, self.gateway, self.receiver, disk, self.outbox)
    }

    pub(crate) fn env(&self) -> &Env {
        self.node.env()
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
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
        let registered = self.endpoints().register(id, new).await.unwrap();
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
        passes(&self.node, &self.clock, time, STEP).await;
    }

    /// Waits, a little of the clock's time at each look, until something is so.
    pub(crate) async fn soon(&self, is_so: impl AsyncFn() -> bool) {
        for _ in 0..LOOKS {
            if is_so().await {
                return;
            }
            self.passes(MOMENT).await;
        }
        panic!("it does not come");
    }

    /// Lets time pass until something is so. What was refused too often a person sends again: a clock that jumps ends
    /// attempts that are on their way.
    pub(crate) async fn until(&self, is_so: impl AsyncFn() -> bool) {
        let end = self.clock.now() + PATIENCE;
        while !is_so().await {
            assert!(self.clock.now() < end, "it never comes");
            for endpoint in self.endpoints().list().await.unwrap() {
                let outbox = self.env().object::<service::Outbox>();
                let outbox = outbox.get_by_name(&endpoint.id);
                let redriven = outbox.redrive_all(DeadLetterFilter::default());
                redriven.await.unwrap();
            }
            self.passes(STEP).await;
        }
    }
}
