//! Components of one object, in any combination and order: each has its own alarm.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

#[path = "../../../../verify/harness/shared/world.rs"]
mod world;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use abide::{
    Node, NodeBuilder,
    clock::{Clock as _, TestClock},
    prelude::*,
    storage::SimDisk,
};
use abide::{
    outbox::{
        Counts, DeadLetterFilter, Deliver, Delivery, Failure, Outbox, OutboxError, OutboxOptions,
        Registry, Submitted,
        live::{self, Live},
    },
    outcomes::{Declaration, Entry, Machine, Outcomes, OutcomesOptions},
    party::{self, Room},
    patterns::{
        cleanup::{self, Cleanup},
        lock::Fence,
        presence::{self, Presence},
        sessions::{self, Sessions},
        sharding::{self, Coordinator, Figures},
    },
    projection::{Feed, Projection, SqliteModel, Table, Tables, Type},
    queue::{self, QueueShard},
    schedule::{self, Schedule, Spec},
    workflow::{self, WorkflowInstance},
    yjs::{self, Document},
};
use abide_harness::{run, until};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;
use world::store;

#[derive(Serialize, Deserialize)]
struct Letter {
    text: String,
}

/// Fails at first: the second attempt is due a second later.
#[derive(Clone, Default)]
struct Post(Arc<AtomicUsize>);

impl Deliver for Post {
    type Payload = Letter;
    const KIND: &'static str = "letter";

    async fn submit(&self, _: &Delivery, letter: &Letter) -> Result<Submitted, Failure> {
        if letter.text == "never" {
            return Err(Failure::permanent("no"));
        }
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(Failure::refused("not now")),
            _ => Ok(Submitted::Done),
        }
    }
}

/// Opens what its name says, in that order: its outbox, its schedule, its feed.
#[durable_object]
struct Desk {
    ctx: Ctx,
    outbox: Option<Outbox>,
    schedule: Option<Schedule>,
    feed: Option<Feed>,
}

impl DurableObject for Desk {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let (mut outbox, mut schedule, mut feed) = (None, None, None);
        for component in ctx.name().unwrap_or_default().chars() {
            match component {
                'o' => outbox = Some(Outbox::open(&ctx, OutboxOptions::default())?),
                's' => {
                    let opened = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
                    let storage = ctx.storage().clone();
                    opened.on_firing(move |firing| storage.put("fired", &firing.due_at))?;
                    schedule = Some(opened);
                }
                'f' => feed = Some(Feed::open(&ctx)?),
                _ => {}
            }
        }
        Ok(Self {
            ctx,
            outbox,
            schedule,
            feed,
        })
    }

    async fn alarm(&self, info: AlarmInfo) -> Result<()> {
        assert_eq!(info.name, None, "a component handles its own");
        self.ctx.storage().put("rang", &info.scheduled_time)
    }
}

#[rpc]
impl Desk {
    /// Lets each component, and the object itself, do something one to three seconds later.
    pub async fn begin(&self) -> Result<()> {
        let now = self.ctx.now().unix_millis();
        self.ctx.storage().set_alarm(now + 3_000)?;
        if let Some(outbox) = &self.outbox {
            Post::enqueue(
                outbox,
                &Letter {
                    text: "hello".into(),
                },
            )?;
        }
        if let Some(schedule) = &self.schedule {
            schedule
                .upsert("bell", &Spec::once("bell", now + 2_000))
                .map_err(Error::from)?;
        }
        if let Some(feed) = &self.feed {
            // There is no queue: the feed retries.
            feed.put("desks", "one", 1, &json!({ "open": 1 }))
                .map_err(Error::from_std)?;
        }
        Ok(())
    }

    pub async fn alarms(&self) -> Result<Vec<String>> {
        let alarms = self.ctx.alarms()?;
        Ok(alarms.into_iter().map(|(name, _)| name).collect())
    }

    /// The times when the timer fired and the object's own alarm went off, and the number of sent messages.
    pub async fn done(&self) -> Result<(Option<i64>, Option<Timestamp>, i64)> {
        let storage = self.ctx.storage();
        let sent = self
            .outbox
            .as_ref()
            .map_or(Ok(0), |outbox| outbox.counts().map(|counts| counts.sent))?;
        Ok((storage.get("fired")?, storage.get("rang")?, sent))
    }

    pub async fn open_again(&self) -> Result<()> {
        Outbox::open(&self.ctx, OutboxOptions::default()).map(drop)
    }
}

struct World {
    clock: TestClock,
    disk: SimDisk,
    _dir: tempfile::TempDir,
    projection: Projection,
    post: Post,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let desks = Table::new("desks").column("open", Type::Integer);
        let tables = Tables::new([desks]).unwrap();
        let model = SqliteModel::open(dir.path().join("model.db"), tables).unwrap();
        Self {
            clock: TestClock::new(),
            disk: SimDisk::new(),
            _dir: dir,
            projection: Projection::new("model", &model),
            post: Post::default(),
        }
    }

    fn node(&self, disk: &SimDisk, class: fn(NodeBuilder, ClassOptions) -> NodeBuilder) -> Node {
        let options = ClassOptions::default().unique_key("Desk".to_owned());
        class(Node::builder(store(disk, &self.clock)), options)
            .with(Registry::new().with(self.post.clone()))
            .with(self.projection.clone())
            .clock(Arc::new(self.clock.clone()))
            .workers(1)
            .start()
            .unwrap()
    }

    async fn pass(&self, half_seconds: u32) {
        for _ in 0..half_seconds {
            self.clock.advance(Duration::from_millis(500));
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn components_work_in_any_combination_and_order() {
    run(async {
        let all = ["x", "o", "s", "f", "os", "so", "of", "fo", "sf", "fs"];
        let orders = ["osf", "ofs", "sof", "sfo", "fos", "fso"];
        for name in all.iter().chain(&orders) {
            let world = World::new();
            let node = world.node(&world.disk, NodeBuilder::class::<Desk>);
            let desk = node.env().object::<Desk>().get_by_name(name);
            let start = world.clock.unix_millis().cast_signed();
            desk.begin().await.unwrap();
            let fired = name.contains('s').then_some(start + 2_000);
            let rang = Some(Timestamp::from_unix_millis(start + 3_000));
            let expected = (fired, rang, i64::from(name.contains('o')));
            until(name, async || {
                world.pass(1).await;
                (desk.done().await.unwrap() == expected).then_some(())
            })
            .await;
            let left: Vec<&str> = name.matches('f').map(|_| "projection").collect();
            until(name, async || {
                let mut alarms = desk.alarms().await.unwrap();
                // The outbox removes sent messages some days later.
                alarms.retain(|alarm| alarm != "outbox");
                (alarms == left).then_some(())
            })
            .await;
        }
    });
}

#[test]
fn a_second_component_of_a_name_is_refused() {
    run(async {
        let world = World::new();
        let node = world.node(&world.disk, NodeBuilder::class::<Desk>);
        let desk = node.env().object::<Desk>().get_by_name("o");
        let error = desk.open_again().await.unwrap_err();
        assert!(error.message().contains("`outbox`"), "{error}");
    });
}

/// Has a table with a version, and nothing else.
#[durable_object]
struct Versioned {
    ctx: Ctx,
}

impl DurableObject for Versioned {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

#[rpc]
impl Versioned {
    pub async fn make(&self, table: String, column: String, version: i64) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec(&format!("CREATE TABLE {table} ({column} INTEGER)"), ())?;
        sql.exec(&format!("INSERT INTO {table} VALUES (?1)"), (version,))
            .map(drop)
    }

    /// All tables, and the version in this one.
    pub async fn found(&self, table: String, column: String) -> Result<(Vec<String>, i64)> {
        let sql = self.ctx.sql();
        let tables = "SELECT name FROM sqlite_schema WHERE name NOT LIKE '\\_abide%' ESCAPE '\\'";
        let version = sql.exec(&format!("SELECT {column} FROM {table}"), ())?;
        Ok((sql.exec(tables, ())?.all()?, version.one()?))
    }
}

/// Opens the component that its name begins with.
#[durable_object]
struct Opener {
    _ctx: Ctx,
}

impl DurableObject for Opener {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let name = ctx.name().unwrap_or_default();
        match name.split('/').next().unwrap_or_default() {
            "outbox" => Outbox::open(&ctx, OutboxOptions::default()).map(drop)?,
            "schedule" => Schedule::open(&ctx, schedule::ScheduleOptions::default()).map(drop)?,
            "projection" => Feed::open(&ctx).map(drop)?,
            "presence" => Presence::open(&ctx, presence::PresenceOptions::default()).map(drop)?,
            "sessions" => Sessions::open(&ctx, sessions::SessionOptions::default()).map(drop)?,
            "figures" => Figures::open(&ctx, sharding::ShardingOptions::default()).map(drop)?,
            "yjs" => {
                let room = Room::open(&ctx, party::RoomOptions::default())?;
                Document::open(&ctx, &room, yjs::DocumentOptions::default()).map(drop)?;
            }
            other => panic!("{other}"),
        }
        Ok(Self { _ctx: ctx })
    }
}

#[rpc]
impl Opener {
    pub async fn open(&self) -> Result<()> {
        Ok(())
    }
}

/// The error of opening an object whose table has a version that the program does not know. The object must be left as
/// it is.
async fn refused(
    class: &str,
    name: &str,
    (table, column): (&str, &str),
    version: i64,
    open: impl AsyncFn(Node, &str) -> String,
    install: fn(NodeBuilder, ClassOptions) -> NodeBuilder,
) -> String {
    let world = World::new();
    let start = |disk: &SimDisk, install: fn(NodeBuilder, ClassOptions) -> NodeBuilder| {
        let options = ClassOptions::with_unique_key(class);
        install(Node::builder(store(disk, &world.clock)), options)
            .with(Registry::new().with(world.post.clone()))
            .with(world.projection.clone())
            .with(workflow::WorkflowRegistry::new())
            .with(queue::Queues::new().without_consumer("words", queue::QueueOptions::default()))
            .clock(Arc::new(world.clock.clone()))
            .workers(1)
            .start()
            .unwrap()
    };
    let versioned: fn(NodeBuilder, ClassOptions) -> NodeBuilder =
        |node, options| node.class::<Versioned>(options);
    let node = start(&world.disk, versioned);
    let object = node.env().object::<Versioned>().get_by_name(name);
    let (table, column) = (table.to_owned(), column.to_owned());
    object
        .make(table.clone(), column.clone(), version)
        .await
        .unwrap();
    let disk = world.disk.after_kill();
    let told = open(start(&disk, install), name).await;
    let node = start(&disk.after_kill(), versioned);
    let object = node.env().object::<Versioned>().get_by_name(name);
    let found = object.found(table.clone(), column).await.unwrap();
    assert_eq!(found, (vec![table], version), "{name}");
    told
}

#[test]
fn tables_of_another_version_are_refused_and_left_as_they_are() {
    run(async {
        let opened = async |node: Node, name: &str| {
            let object = node.env().object::<Opener>().get_by_name(name);
            object.open().await.unwrap_err().to_string()
        };
        let shard = async |node: Node, _: &str| {
            let queue = queue::Queue::new(node.env(), "words").unwrap();
            queue.counts().await.unwrap_err().to_string()
        };
        let instance = async |node: Node, name: &str| {
            let object = node.env().object::<WorkflowInstance>().get_by_name(name);
            object.record().await.unwrap_err().to_string()
        };
        for version in [0, 2] {
            let told = |whose: &str| {
                format!(
                    "the {whose}'s tables have version {version} and this program knows 1: run the program that wrote them, or \
                     a newer one"
                )
            };
            for (name, whose) in [
                ("outbox", "outbox"),
                ("schedule", "schedule"),
                ("projection", "feed"),
                ("presence", "presence"),
                ("sessions", "sessions"),
                ("figures/1", "figures"),
                ("yjs", "document"),
            ] {
                let meta = format!("{}_meta", name.split('/').next().unwrap_or_default());
                let error = refused(
                    "Opener",
                    name,
                    (&meta, "version"),
                    version,
                    opened,
                    |node, options| {
                        node.class::<Opener>(options)
                            .class::<Coordinator>(ClassOptions::default())
                    },
                )
                .await;
                assert!(error.contains(&told(whose)), "{name}: {error}");
            }
            let error = refused(
                "QueueShard",
                "words/0",
                ("queue_meta", "version"),
                version,
                shard,
                NodeBuilder::class::<QueueShard>,
            )
            .await;
            assert!(error.contains(&told("queue")), "{error}");
            let error = refused(
                "WorkflowInstance",
                "test/a",
                ("workflow_instance", "tables"),
                version,
                instance,
                NodeBuilder::class::<WorkflowInstance>,
            )
            .await;
            assert!(error.contains(&told("workflow")), "{error}");
        }
    });
}

/// An object that deletes itself when it is not used for an hour.
#[durable_object]
struct Cart {
    ctx: Ctx,
    outbox: Outbox,
    cleanup: Cleanup,
}

impl DurableObject for Cart {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
        let hour = cleanup::CleanupOptions::default().after(Duration::from_hours(1));
        let cleanup = Cleanup::open(&ctx, hour)?;
        Ok(Self {
            ctx,
            outbox,
            cleanup,
        })
    }
}

#[rpc]
impl Cart {
    pub async fn send(&self, texts: Vec<String>) -> Result<(), OutboxError> {
        self.cleanup.used()?;
        for text in texts {
            let message = Post::message(&Letter { text })?;
            self.outbox.enqueue(&message.ordering_key("k"))?;
        }
        Ok(())
    }

    pub async fn counts(&self) -> Result<Counts> {
        self.outbox.counts()
    }

    pub async fn discard_all(&self) -> Result<(), OutboxError> {
        self.outbox
            .discard_all(&DeadLetterFilter::default())
            .map(drop)
    }

    pub async fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    /// Deletes everything and sends, in one transaction; undone, if that is wanted.
    pub async fn delete_and_send(&self, text: String, undo: bool) -> Result<(), OutboxError> {
        self.ctx.storage().transaction(|| {
            self.ctx.storage().delete_all()?;
            Post::enqueue(&self.outbox, &Letter { text: text.clone() })?;
            if undo {
                Err(OutboxError::Invalid("undone".to_owned()))
            } else {
                Ok(())
            }
        })
    }

    pub async fn tables(&self) -> Result<i64> {
        let sql = self.ctx.sql();
        let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'outbox_%'";
        sql.exec(count, ())?.one()
    }
}

/// A node with a cart, and its clock. Attempts at letters succeed.
fn with_cart() -> (Node, TestClock, Stub<Cart>) {
    let (clock, disk) = (TestClock::new(), SimDisk::new());
    let post = Post(Arc::new(AtomicUsize::new(1)));
    let node = Node::builder(store(&disk, &clock))
        .class::<Cart>(ClassOptions::default())
        .with(Registry::new().with(post))
        .clock(Arc::new(clock.clone()))
        .workers(1)
        .start()
        .unwrap();
    let cart = node.env().object::<Cart>().get_by_name("ada");
    (node, clock, cart)
}

async fn pass(node: &Node, clock: &TestClock, minutes: u32) {
    for _ in 0..minutes {
        node.settle().await.unwrap();
        clock.advance(Duration::from_mins(1));
    }
    node.settle().await.unwrap();
}

#[test]
fn cleanup_keeps_an_object_whose_messages_wait_for_an_operator() {
    run(async {
        let (node, clock, cart) = with_cart();
        let texts = ["never", "paid: ship the goods", "third"].map(str::to_owned);
        cart.send(texts.to_vec()).await.unwrap();
        pass(&node, &clock, 150).await;
        let counts = cart.counts().await.unwrap();
        assert_eq!((counts.failed, counts.queued), (1, 2));
        cart.discard_all().await.unwrap();
        node.settle().await.unwrap();
        assert_eq!(cart.counts().await.unwrap().sent, 2);
        pass(&node, &clock, 150).await;
        let counts = cart.counts().await.unwrap();
        assert_eq!((counts.sent, counts.discarded), (0, 0), "nothing waits");
    });
}

#[test]
fn an_outbox_works_after_everything_was_deleted() {
    run(async {
        let (node, clock, cart) = with_cart();
        let sent = async || cart.counts().await.unwrap().sent;
        cart.send(vec!["one".to_owned()]).await.unwrap();
        node.settle().await.unwrap();
        let undone = cart.delete_and_send("two".to_owned(), true).await;
        assert!(undone.is_err());
        pass(&node, &clock, 1).await;
        assert_eq!(sent().await, 1, "what was deleted is there again");
        cart.delete_and_send("two".to_owned(), false).await.unwrap();
        node.settle().await.unwrap();
        assert_eq!(sent().await, 1);
        cart.delete_all().await.unwrap();
        node.settle().await.unwrap();
        assert_eq!(cart.tables().await.unwrap(), 0, "nothing is left");
        for count in 1..4 {
            cart.send(vec!["more".to_owned()]).await.unwrap();
            node.settle().await.unwrap();
            assert_eq!(sent().await, count);
        }
    });
}

/// Has timers, of which the broken ones fail for good, and a feed. It deletes itself when it is not used for an hour.
#[durable_object]
struct Stand {
    ctx: Ctx,
    schedule: Schedule,
    feed: Feed,
    cleanup: Cleanup,
}

impl DurableObject for Stand {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        let storage = ctx.storage().clone();
        schedule.on_firing(move |firing| match firing.kind.as_str() {
            "broken" => Err(Failure::permanent("broken")),
            _ => Ok(storage.put("fired", &firing.timer)?),
        })?;
        let hour = cleanup::CleanupOptions::default().after(Duration::from_hours(1));
        Ok(Self {
            feed: Feed::open(&ctx)?,
            cleanup: Cleanup::open(&ctx, hour)?,
            schedule,
            ctx,
        })
    }
}

#[rpc]
impl Stand {
    pub fn set(&self, timer: String, kind: String) -> Result<()> {
        self.cleanup.used()?;
        self.schedule
            .upsert(&timer, &Spec::after(kind, Duration::from_secs(1)))?;
        Ok(())
    }

    pub fn failed(&self) -> Result<usize> {
        Ok(self.schedule.failed(None, 10)?.len())
    }

    pub fn discard(&self, timer: String) -> Result<()> {
        Ok(self.schedule.discard(&timer)?)
    }

    pub fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    /// Deletes everything, sets a timer and puts a row, in one transaction; undone, if that is wanted.
    pub fn begin_anew(&self, timer: String, undo: bool) -> Result<()> {
        self.ctx.storage().delete_all()?;
        self.set(timer.clone(), "works".to_owned())?;
        self.feed
            .put("desks", timer, 1, &json!({ "open": 1 }))
            .map_err(Error::from_std)?;
        if undo {
            return Err(Error::new("undone"));
        }
        Ok(())
    }

    /// The timer that fired last, the rows that wait, and the number of tables.
    pub fn state(&self) -> Result<(Option<String>, u64, i64)> {
        let fired = self.ctx.storage().get("fired")?;
        let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'schedule_%' OR name LIKE 'projection_%'";
        let tables = self.ctx.sql().exec(count, ())?.one()?;
        let waiting = if tables > 0 { self.feed.waiting()? } else { 0 };
        Ok((fired, waiting, tables))
    }
}

#[test]
fn cleanup_keeps_an_object_whose_timers_wait_for_an_operator() {
    run(async {
        let world = World::new();
        let node = world.node(&world.disk, NodeBuilder::class::<Stand>);
        let stand = node.env().object::<Stand>().get_by_name("ada");
        let set = |timer: &str, kind: &str| stand.set(timer.to_owned(), kind.to_owned());
        set("bell", "works").await.unwrap();
        set("gong", "broken").await.unwrap();
        pass(&node, &world.clock, 150).await;
        assert_eq!(stand.failed().await.unwrap(), 1);
        assert_eq!(stand.state().await.unwrap().0.as_deref(), Some("bell"));
        stand.discard("gong".to_owned()).await.unwrap();
        pass(&node, &world.clock, 150).await;
        assert_eq!(stand.state().await.unwrap().0, None, "nothing waits");
    });
}

#[test]
fn a_schedule_and_a_feed_work_after_everything_was_deleted() {
    run(async {
        let world = World::new();
        let node = world.node(&world.disk, NodeBuilder::class::<Stand>);
        let stand = node.env().object::<Stand>().get_by_name("ada");
        let state = async || {
            node.settle().await.unwrap();
            world.clock.advance(Duration::from_secs(2));
            node.settle().await.unwrap();
            let (fired, waiting, tables) = stand.state().await.unwrap();
            (fired.unwrap_or_default(), waiting, tables > 0)
        };
        stand.begin_anew("one".to_owned(), false).await.unwrap();
        assert_eq!(state().await, ("one".to_owned(), 1, true));
        assert!(stand.begin_anew("two".to_owned(), true).await.is_err());
        assert_eq!(state().await, ("one".to_owned(), 1, true), "it was undone");
        stand.begin_anew("three".to_owned(), false).await.unwrap();
        assert_eq!(state().await, ("three".to_owned(), 1, true));
        stand.delete_all().await.unwrap();
        assert_eq!(state().await, (String::new(), 0, false));
        stand
            .set("four".to_owned(), "works".to_owned())
            .await
            .unwrap();
        assert_eq!(state().await, ("four".to_owned(), 0, true));
    });
}

/// Counts the functions that are in memory.
#[derive(Clone, Default)]
struct Functions(Arc<()>);

/// Gives its components functions that own clones of them all.
#[durable_object]
struct Circle {
    components: Owned,
}

type Owned = (Outbox, Live, Schedule, Feed, Presence);

impl DurableObject for Circle {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let outbox = Outbox::open(&ctx, OutboxOptions::default())?;
        let components: Owned = (
            outbox.clone(),
            Live::open(&ctx, &outbox, live::Table)?,
            Schedule::open(&ctx, schedule::ScheduleOptions::default())?,
            Feed::open(&ctx)?,
            Presence::open(&ctx, presence::PresenceOptions::default())?,
        );
        let functions = env.require::<Functions>()?;
        let (outbox, _, schedule, _, presence) = &components;
        let own = || {
            let owned = (components.clone(), Functions::clone(&functions));
            move || {
                let _ = &owned;
                Ok::<(), Error>(())
            }
        };
        let (change, sent, failed, fires, came) = (own(), own(), own(), own(), own());
        outbox.on_change(move |_| change().unwrap());
        outbox.on_sent(Post::KIND, move |_, _| sent())?;
        outbox.on_failed(Post::KIND, move |_, _| failed())?;
        schedule.on_firing(move |_| fires())?;
        presence.on_change(move |_| came());
        Ok(Self { components })
    }
}

#[rpc]
impl Circle {
    pub fn failed(&self) -> Result<usize> {
        Ok(self.components.2.failed(None, 1)?.len())
    }
}

#[test]
fn functions_that_own_their_component_leave_memory_with_the_object() {
    run(async {
        let world = World::new();
        let functions = Functions::default();
        let node = Node::builder(store(&world.disk, &world.clock))
            .class::<Circle>(ClassOptions::default())
            .with(Registry::new().with(world.post.clone()))
            .with(world.projection.clone())
            .with(functions.clone())
            .clock(Arc::new(world.clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        let circle = node.env().object::<Circle>().get_by_name("ada");
        let in_memory = || Arc::strong_count(&functions.0) - 2;
        for _ in 0..3 {
            assert_eq!(circle.failed().await.unwrap(), 0);
            assert_eq!(in_memory(), 5);
            node.evict(circle.untyped()).await.unwrap();
            assert_eq!(in_memory(), 0);
        }
    });
}

/// A parcel that can be delivered once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Parcel;

impl Machine for Parcel {
    const SCHEMA: Declaration = Declaration {
        name: "parcel",
        initial: "sent",
        states: &["sent", "delivered"],
        terminal: &["delivered"],
        actions: &["deliver"],
        outcomes: &["accepted"],
        transitions: &[("sent", "deliver", "accepted", "delivered")],
    };

    fn apply(&mut self, _: &Entry) -> Result<()> {
        Ok(())
    }
}

/// A shard with tables of many components.
#[durable_object]
struct House {
    ctx: Ctx,
    fence: Fence,
    figures: Figures,
    outcomes: Outcomes<Parcel>,
    presence: Presence,
    sessions: Sessions,
}

impl DurableObject for House {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self {
            fence: Fence::open(&ctx, "door")?,
            figures: Figures::open(&ctx, sharding::ShardingOptions::default())?,
            outcomes: Outcomes::open(&ctx, OutcomesOptions::default())?,
            presence: Presence::open(&ctx, presence::PresenceOptions::default())?,
            sessions: Sessions::open(&ctx, sessions::SessionOptions::default())?,
            ctx,
        })
    }
}

/// How many are present and logged in, a figure, and whether the parcel was delivered.
type InHouse = (usize, i64, i64, bool);

#[rpc]
impl House {
    /// Deletes everything and uses each component, in one transaction; undone, if that is wanted.
    pub fn begin_anew(&self, undo: bool) -> Result<InHouse> {
        self.ctx.storage().delete_all()?;
        self.fence.newest()?;
        self.figures.add("likes", 1)?;
        self.outcomes.transition("deliver", "accepted", &())?;
        self.presence.beat("ada")?;
        self.sessions.create("ada", &())?;
        if undo {
            return Err(Error::new("undone"));
        }
        self.state()
    }

    pub fn delete_all(&self) -> Result<()> {
        self.ctx.storage().delete_all()
    }

    pub fn state(&self) -> Result<InHouse> {
        Ok((
            self.presence.here()?.len(),
            self.sessions.count()?,
            self.figures.get("likes")?,
            self.outcomes.state()? == "delivered",
        ))
    }
}

#[test]
fn components_are_empty_and_work_after_everything_was_deleted() {
    run(async {
        let world = World::new();
        let node = Node::builder(store(&world.disk, &world.clock))
            .class::<House>(ClassOptions::default())
            .class::<Coordinator>(ClassOptions::default())
            .clock(Arc::new(world.clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        let house = node.env().object::<House>().get_by_name("likes/1");
        let (used, empty) = ((1, 1, 1, true), (0, 0, 0, false));
        assert_eq!(house.state().await.unwrap(), empty);
        assert_eq!(house.begin_anew(false).await.unwrap(), used);
        assert!(house.begin_anew(true).await.is_err());
        assert_eq!(house.state().await.unwrap(), used, "it was undone");
        assert_eq!(house.begin_anew(false).await.unwrap(), used);
        house.delete_all().await.unwrap();
        assert_eq!(house.state().await.unwrap(), empty);
        assert_eq!(house.begin_anew(false).await.unwrap(), used);
    });
}

/// Holds the attempts of timers until it is opened.
#[derive(Clone, Default)]
struct Barrier(Arc<(AtomicUsize, Notify)>);

/// Has a timer whose handler waits.
#[durable_object]
struct Slow {
    ctx: Ctx,
    schedule: Schedule,
}

impl DurableObject for Slow {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        let (storage, barrier) = (ctx.storage().clone(), env.require::<Barrier>()?);
        schedule.on_firing_in_background(move |_| {
            let (storage, barrier) = (storage.clone(), barrier.0.clone());
            async move {
                barrier.0.fetch_add(1, Ordering::SeqCst);
                barrier.1.notified().await;
                let fired: i64 = storage.get("fired")?.unwrap_or(0);
                storage.put("fired", &(fired + 1))
            }
        })?;
        Ok(Self { ctx, schedule })
    }
}

#[rpc]
impl Slow {
    pub fn begin_anew(&self, undo: bool) -> Result<()> {
        self.ctx.storage().delete_all()?;
        let spec = Spec::after("bell", Duration::from_secs(1));
        self.schedule.upsert("bell", &spec)?;
        if undo {
            return Err(Error::new("undone"));
        }
        Ok(())
    }

    pub fn fired(&self) -> Result<i64> {
        Ok(self.ctx.storage().get("fired")?.unwrap_or(0))
    }
}

#[test]
fn an_attempt_ends_with_its_timer_when_everything_is_deleted() {
    run(async {
        let world = World::new();
        let barrier = Barrier::default();
        let node = Node::builder(store(&world.disk, &world.clock))
            .class::<Slow>(ClassOptions::default())
            .with(barrier.clone())
            .clock(Arc::new(world.clock.clone()))
            .workers(1)
            .start()
            .unwrap();
        let slow = node.env().object::<Slow>().get_by_name("ada");
        let begins = async |attempts| {
            until("the attempt", async || {
                world.pass(1).await;
                (barrier.0.0.load(Ordering::SeqCst) == attempts).then_some(())
            })
            .await;
        };
        let fired = async || {
            barrier.0.1.notify_waiters();
            node.settle().await.unwrap();
            slow.fired().await.unwrap()
        };
        slow.begin_anew(false).await.unwrap();
        begins(1).await;
        slow.begin_anew(false).await.unwrap();
        // Nothing rests while an attempt waits.
        node.settle().await.unwrap();
        assert_eq!(fired().await, 0, "the first attempt is gone");
        begins(2).await;
        assert!(slow.begin_anew(true).await.is_err());
        node.settle().await.unwrap();
        assert_eq!(fired().await, 0, "so is the second");
        // Its timer is there again, and repeats it.
        begins(3).await;
        assert_eq!(fired().await, 1);
    });
}
