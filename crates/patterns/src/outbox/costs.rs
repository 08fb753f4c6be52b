//! What a message costs: statements, commits and bytes of the log, which do not depend on how busy the machine is.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use abide::{Node, SimDisk, Store, StoreOptions, clock::TestClock, prelude::*};
use serde::{Deserialize, Serialize};

use super::{
    Deliver, Delivery, Failure, Options, Outbox, OutboxError, Pace, Registry, Submitted,
    class_options,
};

#[derive(Serialize, Deserialize)]
struct Parcel {
    number: usize,
}

/// Delivers whatever it is given, and counts it.
struct Courier(Arc<AtomicUsize>);

impl Deliver for Courier {
    type Payload = Parcel;
    const KIND: &'static str = "parcel";

    async fn submit(&self, _: &Delivery, _: &Parcel) -> Result<Submitted, Failure> {
        // So that attempts of one pass are in flight together.
        tokio::task::yield_now().await;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Submitted::Done)
    }
}

/// How many attempts are in flight at a time.
struct Concurrency(u32);

#[durable_object]
struct Depot {
    state: State,
    outbox: Outbox,
}

impl DurableObject for Depot {
    fn new(state: State, env: Env) -> Result<Self> {
        let options = Options {
            pace: Pace::unlimited(env.require::<Concurrency>()?.0),
            ..Options::default()
        };
        let outbox = Outbox::open(&state, env.require::<Registry>()?, options)?;
        Ok(Self { state, outbox })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        self.outbox.alarm()
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

    pub async fn statements(&self) -> Result<usize> {
        Ok(self.outbox.0.rows.sql.statements())
    }

    /// Without a statement of the outbox.
    pub async fn sent(&self) -> Result<usize> {
        let sql = self.state.storage().sql();
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

/// What each message of a backlog costs, with so many in flight at a time.
fn costs_of_a_backlog(concurrency: u32) -> Costs {
    let mut costs = None;
    abide_harness::run(async {
        let (disk, clock) = (SimDisk::new(), TestClock::new());
        let store = Store::open(Arc::new(disk), Path::new("/data"), StoreOptions::small()).unwrap();
        let delivered = Arc::new(AtomicUsize::new(0));
        let node = Node::builder(store)
            .class::<Depot>("DEPOT", class_options())
            .with(Registry::new().with(Courier(Arc::clone(&delivered))))
            .with(Concurrency(concurrency))
            .clock(Arc::new(clock))
            .workers(1)
            .start()
            .unwrap();
        let depot = node.env().object::<Depot>().get_by_name("ada");
        let mut all_sent = 0;
        let mut deliver = async |count: usize| {
            let (before, enqueued) = depot.enqueue(count).await.unwrap().unwrap();
            all_sent += count;
            while depot.sent().await.unwrap().unwrap() < all_sent {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let statements = depot.statements().await.unwrap().unwrap();
            (enqueued - before, statements - enqueued)
        };
        // Tables, indexes and what is learned of the destination.
        deliver(20).await;
        let before = node.store().stats();
        let (enqueue, send) = deliver(MESSAGES).await;
        let after = node.store().stats();
        let each = |total: u64| total as f64 / MESSAGES as f64;
        costs = Some(Costs {
            enqueue: each(enqueue as u64),
            deliver: each(send as u64),
            commits: each(after.commits - before.commits),
            log_bytes: each(after.log_bytes - before.log_bytes),
        });
        assert_eq!(delivered.load(Ordering::Relaxed), all_sent);
    });
    costs.unwrap()
}

#[test]
fn delivering_one_of_a_backlog_takes_few_statements_and_one_commit() {
    let one = costs_of_a_backlog(1);
    println!("one at a time: {one:?}");
    assert!(one.enqueue <= 4.0, "{one:?}");
    assert!(one.deliver <= 4.1, "{one:?}");
    assert!(one.commits <= 1.1, "{one:?}");
    assert!(one.log_bytes <= 2_700.0, "{one:?}");
}

#[test]
fn delivering_sixteen_of_a_backlog_takes_few_statements_and_one_commit() {
    let many = costs_of_a_backlog(16);
    println!("16 at a time: {many:?}");
    assert!(many.deliver <= 0.3, "{many:?}");
    assert!(many.commits <= 0.1, "{many:?}");
    assert!(many.log_bytes <= 950.0, "{many:?}");
}
