//! The costs of a message: statements, commits and bytes of the log, which do not depend on the machine's load.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use abide::{
    Node,
    clock::TestClock,
    prelude::*,
    storage::{SimDisk, Store, StoreOptions},
};
use serde::{Deserialize, Serialize};

use super::{
    Deliver, Delivery, Failure, Outbox, OutboxError, OutboxOptions, Pace, Registry, Submitted,
};

#[derive(Serialize, Deserialize)]
struct Parcel {
    number: usize,
}

/// Delivers every message, and counts it.
struct Courier(Arc<AtomicUsize>);

impl Deliver for Courier {
    type Payload = Parcel;
    const KIND: &'static str = "parcel";

    async fn submit(&self, _: &Delivery, _: &Parcel) -> Result<Submitted, Failure> {
        // Keeps attempts of one pass in flight together.
        tokio::task::yield_now().await;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Submitted::Done)
    }
}

/// How many attempts are in flight at a time.
struct Concurrency(u32);

#[durable_object]
struct Depot {
    ctx: Ctx,
    outbox: Outbox,
    /// How many statements opening the outbox took.
    opened: usize,
}

impl DurableObject for Depot {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = OutboxOptions {
            pace: Pace::unlimited(env.require::<Concurrency>()?.0),
            ..OutboxOptions::default()
        };
        let outbox = Outbox::open(&ctx, options)?;
        let opened = outbox.0.rows.sql.statements();
        Ok(Self {
            ctx,
            outbox,
            opened,
        })
    }
}

#[rpc]
#[allow(unreachable_pub, reason = "callable methods are the `pub` ones")]
impl Depot {
    /// Enqueues messages, and returns how many statements the outbox has run before and after.
    pub async fn enqueue(&self, count: usize) -> Result<(usize, usize), OutboxError> {
        let before = self.outbox.0.rows.sql.statements();
        for number in 0..count {
            Courier::enqueue(&self.outbox, &Parcel { number })?;
        }
        Ok((before, self.outbox.0.rows.sql.statements()))
    }

    /// Enqueues messages that are not due before a day has gone by.
    pub async fn enqueue_for_later(&self, count: usize) -> Result<(), OutboxError> {
        let now = self.ctx.now().unix_millis();
        for number in 0..count {
            let message = Courier::message(&Parcel { number })?;
            self.outbox.enqueue(&message.not_before(now + 86_400_000))?;
        }
        Ok(())
    }

    pub async fn opened(&self) -> Result<usize> {
        Ok(self.opened)
    }

    pub async fn statements(&self) -> Result<usize> {
        Ok(self.outbox.0.rows.sql.statements())
    }

    /// Without a statement of the outbox.
    pub async fn sent(&self) -> Result<usize> {
        let sql = self.ctx.sql();
        sql.exec("SELECT sent FROM outbox_meta", ())?.one()
    }
}

/// The costs of a message.
#[derive(Debug)]
struct Costs {
    /// Statements to enqueue it.
    enqueue: f64,
    /// Statements to deliver it.
    deliver: f64,
    /// Commits to deliver it.
    commits: f64,
    /// Bytes of the log, of both.
    log_bytes: f64,
}

const MESSAGES: usize = 400;

/// A node with a depot.
struct World {
    disk: SimDisk,
    clock: TestClock,
    concurrency: u32,
    delivered: Arc<AtomicUsize>,
    node: Node,
    depot: Stub<Depot>,
}

impl World {
    fn new(concurrency: u32) -> Self {
        Self::on(SimDisk::new(), TestClock::new(), concurrency)
    }

    fn on(disk: SimDisk, clock: TestClock, concurrency: u32) -> Self {
        let store = Store::open(
            Arc::new(disk.clone()),
            Path::new("/data"),
            StoreOptions::small(),
        );
        let delivered = Arc::new(AtomicUsize::new(0));
        let node = Node::builder(store.unwrap())
            .class::<Depot>(ClassOptions::default())
            .with(Registry::new().with(Courier(Arc::clone(&delivered))))
            .with(Concurrency(concurrency))
            .clock(Arc::new(clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        let depot = node.env().object::<Depot>().get_by_name("ada");
        Self {
            disk,
            clock,
            concurrency,
            delivered,
            node,
            depot,
        }
    }

    /// Another node, on the state that a kill of this one leaves.
    fn killed(self) -> Self {
        Self::on(self.disk.after_kill(), self.clock.clone(), self.concurrency)
    }

    /// Sends messages. Returns how many statements it took to enqueue them, and to deliver them.
    async fn deliver(&self, count: usize) -> (usize, usize) {
        let depot = &self.depot;
        let sent = async || depot.sent().await.unwrap();
        let all_sent = sent().await + count;
        let (before, enqueued) = depot.enqueue(count).await.unwrap();
        while sent().await < all_sent {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let statements = depot.statements().await.unwrap();
        (enqueued - before, statements - enqueued)
    }
}

/// The costs of each message of a backlog, with this many in flight at a time.
fn costs_of_a_backlog(concurrency: u32) -> Costs {
    let mut costs = None;
    abide_harness::run(async {
        let world = World::new(concurrency);
        // Creates tables, indexes and the destination's state.
        world.deliver(20).await;
        let before = world.node.store().stats();
        let (enqueue, send) = world.deliver(MESSAGES).await;
        let after = world.node.store().stats();
        let each = |total: u64| total as f64 / MESSAGES as f64;
        costs = Some(Costs {
            enqueue: each(enqueue as u64),
            deliver: each(send as u64),
            commits: each(after.commits - before.commits),
            log_bytes: each(after.log_bytes - before.log_bytes),
        });
        assert_eq!(world.delivered.load(Ordering::Relaxed), 20 + MESSAGES);
    });
    costs.unwrap()
}

/// How many statements it takes to open an outbox in which this many messages wait for another day, and to deliver 100 others next to them,
/// all to one destination.
fn statements_beside(waiting: usize) -> (usize, usize) {
    let mut statements = None;
    abide_harness::run(async {
        let world = World::new(1);
        world.deliver(1).await;
        let later = world.depot.enqueue_for_later(waiting);
        later.await.unwrap();
        let world = world.killed();
        let opened = world.depot.opened().await.unwrap();
        world.deliver(20).await;
        let (_, delivered) = world.deliver(100).await;
        statements = Some((opened, delivered));
    });
    statements.unwrap()
}

/// What each of some messages costs that are alone in their outbox: statements, of enqueuing and delivering, and commits.
fn costs_alone() -> (f64, f64) {
    const ALONE: usize = 40;
    let mut costs = None;
    abide_harness::run(async {
        let world = World::new(1);
        world.deliver(2).await;
        let commits = || world.node.store().stats().commits;
        let mut statements = 0;
        let before = commits();
        for _ in 0..ALONE {
            let (enqueue, deliver) = world.deliver(1).await;
            statements += enqueue + deliver;
        }
        let each = |total: usize| total as f64 / ALONE as f64;
        let commits = usize::try_from(commits() - before).unwrap();
        costs = Some((each(statements), each(commits)));
    });
    costs.unwrap()
}

#[test]
fn a_message_that_is_alone_takes_three_commits() {
    let (statements, commits) = costs_alone();
    println!("alone: {statements} statements, {commits} commits");
    // It is enqueued, claimed and settled; the alarm goes with the last.
    assert!(commits <= 3.1, "{commits}");
    assert!(statements <= 9.0, "{statements}");
}

// No statement looks at more rows the more there are: the plan of each is checked when it first runs.
#[test]
fn opening_and_passes_take_as_many_statements_however_many_messages_wait() {
    let few = statements_beside(1);
    let many = statements_beside(5_000);
    println!("opened, and delivered 100: {few:?} beside one, {many:?} beside 5,000");
    assert!(few.0 <= 20, "{few:?}");
    assert_eq!(few.0, many.0);
    assert!(many.1 <= few.1 + 10, "{few:?} {many:?}");
}

#[test]
fn delivering_one_of_a_backlog_takes_few_statements_and_one_commit() {
    let one = costs_of_a_backlog(1);
    println!("one at a time: {one:?}");
    assert!(one.enqueue <= 3.0, "{one:?}");
    assert!(one.deliver <= 3.1, "{one:?}");
    assert!(one.commits <= 1.1, "{one:?}");
    assert!(one.log_bytes <= 2_700.0, "{one:?}");
}

#[test]
fn delivering_sixteen_of_a_backlog_takes_few_statements_and_one_commit() {
    let many = costs_of_a_backlog(16);
    println!("16 at a time: {many:?}");
    assert!(many.deliver <= 0.25, "{many:?}");
    assert!(many.commits <= 0.1, "{many:?}");
    assert!(many.log_bytes <= 950.0, "{many:?}");
}
