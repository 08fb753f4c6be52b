//! Objects of nodes whose stores are those of members.

use std::{sync::Arc, thread::sleep, time::Duration};

use abide::{
    ClassOptions, ErrorKind, Node, OutputLease,
    clock::{Clock, Sleep, SystemClock},
    prelude::*,
};
use abide_cluster::SHARDS;
use abide_cluster_node::{Lease, Member};
use abide_storage::Store;
use tokio::time::timeout;

use crate::members::{World, until};

#[durable_object]
struct Page {
    ctx: Ctx,
}

impl DurableObject for Page {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        self.ctx.storage().put("text", "rung")
    }
}

#[rpc]
impl Page {
    pub async fn write(&self, text: String) -> Result<()> {
        self.ctx.storage().put("text", &text)
    }

    pub async fn wake_in(&self, millis: u64) -> Result<()> {
        let wait = Duration::from_millis(millis);
        self.ctx.storage().set_alarm(wait)
    }

    pub async fn read(&self) -> Result<Option<String>> {
        self.ctx.storage().get("text")
    }
}

struct OfMember(Lease);

impl OutputLease for OfMember {
    fn is_held(&self) -> bool {
        self.0.is_held()
    }
}

/// The wall clock of a member.
struct OfStore(SystemClock, Store);

impl Clock for OfStore {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn unix_millis(&self) -> u64 {
        self.1.unix_millis()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.0.sleep_until(deadline)
    }
}

/// A node on the store of a member.
fn start(world: &World, member: &Member) -> Node {
    let _tasks = world.runtime.enter();
    let node = Node::builder(member.store().clone())
        .class::<Page>(ClassOptions::default())
        .workers(2)
        .clock(Arc::new(OfStore(
            SystemClock::new(),
            member.store().clone(),
        )))
        .output_lease(Arc::new(OfMember(member.lease().unwrap())))
        .start()
        .unwrap();
    let (mut lease, of_node) = (member.lease().unwrap(), node.clone());
    world.runtime.spawn(async move {
        while lease.changed().await {
            of_node.lease_regained();
        }
    });
    node
}

fn page(node: &Node, number: usize) -> Stub<Page> {
    node.env()
        .object::<Page>()
        .get_by_name(&format!("page {number}"))
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_node_that_is_cut_from_the_database_answers_no_reads() {
    let world = World::start();
    let member = world.join(world.home("one")).unwrap();
    until(|| member.shards() == usize::from(SHARDS));
    let node = start(&world, &member);
    let written = page(&node, 1).write("here".to_owned());
    world.runtime.block_on(written).unwrap();
    world.postgres.lock().unwrap().kill();
    let lease = member.lease().unwrap();
    until(|| !lease.is_held());
    world.runtime.block_on(async {
        let mut read = std::pin::pin!(async { page(&node, 1).read().await });
        let early = timeout(Duration::from_millis(300), &mut read).await;
        assert!(early.is_err(), "{early:?}");
        world.postgres.lock().unwrap().start_again();
        assert_eq!(read.await.unwrap().as_deref(), Some("here"));
    });
    assert_eq!(member.end(), None);
}

#[test]
#[ignore = "needs PostgreSQL"]
fn objects_of_a_lost_node_answer_at_another() {
    const PAGES: usize = 60;
    let world = World::start();
    let first = world.join(world.home("first")).unwrap();
    until(|| first.shards() == usize::from(SHARDS));
    let node = start(&world, &first);
    for number in 0..PAGES {
        let text = format!("text {number}");
        let written = page(&node, number).write(text);
        world.runtime.block_on(written).unwrap();
    }
    let second = world.join(world.home("second")).unwrap();
    let other = start(&world, &second);
    let early = page(&other, 7).read();
    let error = world.runtime.block_on(early).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    drop(first);
    // Its session waits to be fenced.
    sleep(Duration::from_millis(100));
    until(|| second.shards() == usize::from(SHARDS));
    for number in 0..PAGES {
        let read = page(&other, number).read();
        let text = world.runtime.block_on(read).unwrap();
        assert_eq!(text, Some(format!("text {number}")));
    }
    let late = page(&node, 3).read();
    world.runtime.block_on(late).unwrap_err();
}

#[test]
#[ignore = "needs PostgreSQL"]
fn alarms_of_a_lost_node_go_off_at_another() {
    const PAGES: usize = 30;
    let world = World::start();
    let first = world.join(world.home("first")).unwrap();
    until(|| first.shards() == usize::from(SHARDS));
    let node = start(&world, &first);
    let pages = |node: &Node| {
        (0..PAGES)
            .map(|number| page(node, number))
            .collect::<Vec<_>>()
    };
    for (number, page) in pages(&node).iter().enumerate() {
        // Some are in runs by the end, and others in the log alone. Some are due before they are taken over.
        world
            .runtime
            .block_on(page.wake_in(4_000 + 250 * number as u64))
            .unwrap();
        if number == PAGES / 2 {
            first.store().checkpoint().unwrap();
        }
    }
    let second = world.join(world.home("second")).unwrap();
    let other = start(&world, &second);
    // In the middle of the rest.
    drop(first);
    until(|| second.shards() == usize::from(SHARDS));
    for page in pages(&other) {
        until(|| {
            let text = world.runtime.block_on(page.read()).unwrap();
            text.as_deref() == Some("rung")
        });
    }
}
