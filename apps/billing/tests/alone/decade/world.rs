//! A node, its clock, and what outlives it: the gateway and the read model.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use abide::{
    ClassOptions, Env, Error, ErrorKind, Fetching, Node, Outbound, Request,
    clock::{Clock, Sleep, SystemClock, TestClock},
    storage::{AlarmState, ArchiveOptions, Disk, SimDisk, Store, StoreOptions},
};
use abide::{
    projection::{Progress, Projection},
    queue::{self, Queue, QueueShard, Queues},
    workflow,
};
use abide_harness::Random;
use billing::{
    clock::AnyPayments,
    gateway::{AnyGateway, HttpGateway, LocalGateway, Mischief},
    host::QUEUE,
    payment::{self, WorkflowPayments},
    read, resources,
};
use tempfile::TempDir;

use crate::decade::{disk::Folder, model::Model};

const KEY: &str = "sk_test";

/// At least as many parts as a node divides its alarms into: one for each class and worker.
const PARTS: usize = 32;

/// What is due within this time is waited for before anything else is done.
const SOON: i64 = 10 * 60 * 1_000;

/// How long a read model that takes nothing is waited for, in milliseconds; longer if it is to catch up.
const PATIENCE: i64 = 60 * 1_000;

/// Between two looks.
const LOOK: Duration = Duration::from_micros(30);

/// Looks at a node that has nothing to do, before it is believed.
const LOOKS: u32 = 5;

/// Looks at a node that is in the middle of something and does not move, before it is believed to wait for the clock.
const LONG_LOOKS: u32 = 60;

/// How far the clock is moved for something that waits for it, in milliseconds.
const NAP: i64 = 500;

/// How far the clock is moved at least, in milliseconds: what is due at nearly the same time is done together.
const HOP: i64 = 200;

/// How far the clock is moved each real millisecond while a read model is made anew.
const PACE: Duration = Duration::from_millis(5);

/// What a node waits for that does not move.
enum Waits {
    ForNothing,
    ForTheClock,
}

/// What the node keeps its objects on.
enum Ground {
    Memory(SimDisk),
    Folder(Folder, Arc<TempDir>),
}

impl Ground {
    fn disk(&self) -> (Arc<dyn Disk>, PathBuf) {
        match self {
            Self::Memory(disk) => (Arc::new(disk.clone()), Path::new("/data").to_owned()),
            Self::Folder(folder, dir) => (Arc::new(folder.clone()), dir.path().join("data")),
        }
    }

    fn options(&self) -> StoreOptions {
        match self {
            Self::Memory(_) => StoreOptions::small(),
            Self::Folder(..) => StoreOptions::default().segment_bytes(16 << 20),
        }
    }

    /// What a kill leaves; in memory sometimes what a loss of power leaves.
    fn killed(&self, random: &mut Random) -> Self {
        match self {
            Self::Memory(disk) => Self::Memory(match random.below(2) {
                0 => disk.after_kill(),
                _ => disk.crash(u64::from(random.below(u32::MAX))),
            }),
            Self::Folder(folder, dir) => {
                folder.kill();
                Self::Folder(Folder::default(), Arc::clone(dir))
            }
        }
    }
}

pub(crate) struct World {
    pub(crate) clock: TestClock,
    pub(crate) gateway: LocalGateway,
    pub(crate) model: Model,
    pub(crate) deaths: u32,
    node: Node,
    alive: Arc<AtomicBool>,
    ground: Ground,
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

/// A clock by which nothing becomes due any more, and unused objects leave memory.
struct Still {
    at: u64,
    real: SystemClock,
}

impl Clock for Still {
    fn now(&self) -> Duration {
        self.real.now()
    }

    fn unix_millis(&self) -> u64 {
        self.at
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.real.sleep_until(deadline)
    }
}

impl World {
    /// On a disk in memory, with a read model in a file.
    pub(crate) fn new(seed: u64) -> Self {
        let clock = TestClock::new();
        let model = Model::sqlite(&clock, TempDir::new().unwrap());
        Self::begin(seed, clock, model, Ground::Memory(SimDisk::new()))
    }

    /// In its own directory in this one.
    pub(crate) fn in_folder(seed: u64, dir: &Path) -> Self {
        let clock = TestClock::new();
        let model = Model::sqlite(&clock, TempDir::with_prefix_in("read-model-", dir).unwrap());
        let dir = TempDir::with_prefix_in("billing-", dir).unwrap();
        let ground = Ground::Folder(Folder::default(), Arc::new(dir));
        Self::begin(seed, clock, model, ground)
    }

    /// On a disk in memory, with this read model.
    pub(crate) fn with_model(seed: u64, model: impl FnOnce(&TestClock) -> Model) -> Self {
        let clock = TestClock::new();
        let model = model(&clock);
        Self::begin(seed, clock, model, Ground::Memory(SimDisk::new()))
    }

    fn begin(seed: u64, clock: TestClock, model: Model, ground: Ground) -> Self {
        let gateway = LocalGateway::new(KEY, Mischief::lively(seed), Arc::new(clock.clone()));
        let alive = Arc::new(AtomicBool::new(true));
        Self {
            node: node(
                &ground,
                &clock,
                Arc::new(clock.clone()),
                &gateway,
                &alive,
                &model,
            ),
            clock,
            gateway,
            model,
            deaths: 0,
            ground,
            alive,
        }
    }

    /// The next node on this ground.
    fn again(self, ground: Ground, clock: Option<Arc<dyn Clock>>, deaths: u32) -> Self {
        let Self {
            clock: time,
            gateway,
            model,
            node: dead,
            ..
        } = self;
        drop(dead);
        let alive = Arc::new(AtomicBool::new(true));
        let clock = clock.unwrap_or_else(|| Arc::new(time.clone()));
        Self {
            node: node(&ground, &time, clock, &gateway, &alive, &model),
            clock: time,
            gateway,
            model,
            deaths,
            ground,
            alive,
        }
    }

    /// Another node, on what a kill of this one leaves of the disk, or a loss of power.
    pub(crate) fn dies(self, random: &mut Random) -> Self {
        self.alive.store(false, Ordering::SeqCst);
        let ground = self.ground.killed(random);
        let deaths = self.deaths + 1;
        self.again(ground, None, deaths)
    }

    /// Another node, for which no time passes.
    pub(crate) fn stands_still(self) -> Self {
        self.alive.store(false, Ordering::SeqCst);
        let ground = match &self.ground {
            Ground::Memory(disk) => Ground::Memory(disk.after_kill()),
            Ground::Folder(..) => self.ground.killed(&mut Random::new(1)),
        };
        let still = Still {
            at: self.clock.unix_millis(),
            real: SystemClock::new(),
        };
        let deaths = self.deaths;
        self.again(ground, Some(Arc::new(still)), deaths)
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

    /// The queue that leads to the read model.
    pub(crate) fn queue(&self) -> Queue {
        Queue::new(self.env(), QUEUE).unwrap()
    }

    /// The next alarm of all, if there is one. Looks at each.
    fn next_of_all(&self) -> Option<i64> {
        let first = self.node.alarms(AlarmState::Pending, None, 1);
        first.first().map(|alarm| alarm.due.unix_millis())
    }

    /// The next alarm that is not going off at the moment, if there is one.
    fn next(&self) -> Option<i64> {
        let alarms = self.node.store().alarms();
        let of_each = (0..PARTS).filter_map(|part| alarms.next_due(part));
        of_each.min()
    }

    /// Waits until nothing is due, and moves the clock to what is due soon, until nothing is. A read model that takes nothing
    /// is left alone after a while.
    pub(crate) async fn settle(&self) {
        self.settle_within(PATIENCE).await;
    }

    async fn settle_within(&self, patience: i64) {
        let end = self.now() + patience;
        loop {
            let waits = self.quiet().await;
            let left = |next: Option<i64>| next.map_or(i64::MAX, |next| next - self.now());
            let next = match left(self.next()) {
                next if next > SOON => left(self.next_of_all()),
                next => next,
            };
            let wait = match waits {
                Waits::ForNothing if next > SOON => return,
                Waits::ForNothing if !self.model.is_well() && self.now() > end => return,
                Waits::ForNothing => next.max(HOP),
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
            let moves = now != before || stats.held > 0 || rings || self.model.is_writing();
            before = now;
            still = if moves { 0 } else { still + 1 };
            idle = if moves || stats.outstanding > 0 {
                0
            } else {
                idle + 1
            };
            if idle < LOOKS && still < LONG_LOOKS {
                continue;
            }
            if is_anybody_about_to_run() {
                // The machine has other things to do, too.
                (idle, still) = (0, 0);
            } else if idle >= LOOKS {
                return Waits::ForNothing;
            } else {
                return Waits::ForTheClock;
            }
        }
    }

    /// The read model is made anew, while time goes by.
    pub(crate) async fn rebuild(&self) -> Progress {
        let moving = async {
            loop {
                self.clock.advance(PACE);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let done = tokio::select! {
            done = read::rebuild(self.node.env(), &self.model, |_| {}) => done.unwrap(),
            () = moving => unreachable!(),
        };
        assert!(done.failures.is_empty(), "{:?}", done.failures);
        done.progress
    }

    /// The read model has everything that there is.
    pub(crate) async fn catch_up(&self) {
        self.settle_within(SOON).await;
        // What was given up while it was stopped.
        self.queue().redrive_all().await.unwrap();
        self.settle().await;
        let counts = self.queue().counts().await.unwrap();
        assert_eq!((counts.messages, counts.dead), (0, 0), "{counts:?}");
    }
}

/// Whether a thread of a node, or of a read model, has something to do and waits for a processor.
fn is_anybody_about_to_run() -> bool {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads.flatten().any(|thread| {
        // A thread may have ended.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let name = stat.split_once('(').map_or("", |(_, name)| name);
        let is_ours = name.starts_with("abide-") || name.starts_with("read-model-");
        is_ours
            && name
                .rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('R'))
    })
}

fn node(
    ground: &Ground,
    time: &TestClock,
    clock: Arc<dyn Clock>,
    gateway: &LocalGateway,
    alive: &Arc<AtomicBool>,
    model: &Model,
) -> Node {
    let (disk, dir) = ground.disk();
    let time = time.clone();
    let options = ground
        .options()
        .unix_millis(Arc::new(move || time.unix_millis()))
        .archive(ArchiveOptions::default().enabled(false));
    let store = Store::open(disk, &dir, options).unwrap();
    let line = Line {
        gateway: gateway.clone(),
        alive: Arc::clone(alive),
    };
    let projection = Projection::new(QUEUE, model);
    let queues = projection.install(Queues::new(), Arc::new(model.clone()));
    resources::register(Node::builder(store))
        .class::<workflow::WorkflowInstance>(workflow::class_options())
        .class::<workflow::WorkflowDirectory>(ClassOptions::default())
        .class::<QueueShard>(queue::class_options())
        .with(payment::workflows())
        .with(workflow::WorkflowOptions::default())
        .with(queues)
        .with(projection)
        .with(AnyGateway::new(HttpGateway::new(
            "http://gateway.test",
            KEY,
        )))
        .with(AnyPayments::new(WorkflowPayments))
        .outbound(Arc::new(line))
        .clock(clock)
        .workers(2)
        .start()
        .unwrap()
}
