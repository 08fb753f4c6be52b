//! A node in memory, its clock, and the gateway that outlives it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{
    AlarmState, ArchiveOptions, ClassOptions, Env, Error, ErrorKind, Fetching, Node, Outbound,
    Request, SimDisk, Store, StoreOptions,
    clock::{Clock, TestClock},
};
use abide_harness::Random;
use abide_patterns::workflow;
use billing::{
    clock::AnyPayments,
    gateway::{AnyGateway, HttpGateway, LocalGateway, Mischief},
    payment::{self, WorkflowPayments},
    resources,
};

const KEY: &str = "sk_test";

/// What is due within this time is waited for before anything else is done.
const SOON: i64 = 10 * 60 * 1_000;

/// Between two looks.
const LOOK: Duration = Duration::from_micros(30);

/// Looks at a node that has nothing to do, before it is believed.
const LOOKS: u32 = 5;

/// Looks at a node that is in the middle of something and does not move, before it is believed to wait for the clock.
const LONG_LOOKS: u32 = 60;

/// How far the clock is moved for something that waits for it, in milliseconds.
const NAP: i64 = 500;

/// What a node waits for that does not move.
enum Waits {
    ForNothing,
    ForTheClock,
}

pub(crate) struct World {
    pub(crate) clock: TestClock,
    pub(crate) gateway: LocalGateway,
    pub(crate) deaths: u32,
    disk: SimDisk,
    node: Node,
    alive: Arc<AtomicBool>,
}

/// The way to the gateway, which ends with the process.
struct Line {
    gateway: LocalGateway,
    alive: Arc<AtomicBool>,
}

impl Outbound for Line {
    fn fetch(&self, request: Request) -> Fetching {
        if self.alive.load(Ordering::SeqCst) {
            return self.gateway.fetch(request);
        }
        let error = Error::with_kind(ErrorKind::Unavailable, "the process is dead");
        Box::pin(std::future::ready(Err(error)))
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let clock = TestClock::new();
        let gateway = LocalGateway::new(KEY, Mischief::lively(seed), Arc::new(clock.clone()));
        Self::at(clock, gateway, SimDisk::new(), 0)
    }

    fn at(clock: TestClock, gateway: LocalGateway, disk: SimDisk, deaths: u32) -> Self {
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
        let line = Line {
            gateway: gateway.clone(),
            alive: Arc::clone(&alive),
        };
        let node = resources::register(Node::builder(store))
            .class::<workflow::WorkflowInstance>(workflow::INSTANCES, workflow::class_options())
            .class::<workflow::WorkflowDirectory>(workflow::DIRECTORIES, ClassOptions::default())
            .with(payment::workflows())
            .with(workflow::Options::default())
            .with(AnyGateway::new(HttpGateway::new(
                "http://gateway.test",
                KEY,
            )))
            .with(AnyPayments::new(WorkflowPayments))
            .outbound(Arc::new(line))
            .clock(Arc::new(clock.clone()))
            .start()
            .unwrap();
        Self {
            clock,
            gateway,
            deaths,
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
        Self::at(self.clock, self.gateway, disk, self.deaths + 1)
    }

    pub(crate) fn env(&self) -> &Env {
        self.node.env()
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.unix_millis().cast_signed()
    }

    /// The next alarm, if there is one.
    fn next(&self) -> Option<i64> {
        let first = self.node.alarms(AlarmState::Pending, None, 1);
        first.first().map(|alarm| alarm.due.unix_millis())
    }

    /// Waits until nothing is due, and moves the clock to what is due soon, until nothing is.
    pub(crate) async fn settle(&self) {
        loop {
            let waits = self.quiet().await;
            let next = self.next().map_or(i64::MAX, |next| next - self.now());
            let wait = match waits {
                Waits::ForNothing if next > SOON => return,
                Waits::ForNothing => next,
                Waits::ForTheClock => next.min(NAP),
            };
            let wait = u64::try_from(wait).unwrap_or(0).max(1);
            self.clock.advance(Duration::from_millis(wait));
        }
    }

    /// Waits until nothing moves any more.
    async fn quiet(&self) -> Waits {
        let (mut idle, mut still, mut before) = (0, 0, (0, 0, 0));
        loop {
            // A timer of the runtime would sleep a whole millisecond.
            std::thread::sleep(LOOK);
            tokio::task::yield_now().await;
            let stats = self.node.stats();
            let now = (stats.events, stats.outstanding, stats.held);
            let rings = self.next().is_some_and(|next| next <= self.now());
            let moves = now != before || stats.held > 0 || rings;
            before = now;
            still = if moves { 0 } else { still + 1 };
            idle = if moves || stats.outstanding > 0 {
                0
            } else {
                idle + 1
            };
            if idle >= LOOKS {
                return Waits::ForNothing;
            }
            if still >= LONG_LOOKS {
                return Waits::ForTheClock;
            }
        }
    }

    /// The gateway's webhooks come, in whatever number.
    pub(crate) async fn hear(&self) {
        for event in self.gateway.take_events() {
            payment::hear(self.env(), &event).await.unwrap();
        }
        self.settle().await;
    }
}
