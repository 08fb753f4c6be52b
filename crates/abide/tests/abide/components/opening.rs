//! Components are opened in any combination and order, and refuse tables that they do not know.

use abide::{
    Node, NodeBuilder,
    outbox::{Deliver as _, Outbox, OutboxOptions},
    party::{self, Room},
    patterns::{
        presence::{self, Presence},
        sessions::{self, Sessions},
        sharding::{self, Coordinator, Figures},
    },
    prelude::*,
    projection::Feed,
    queue::{self, QueueShard},
    schedule::{self, Schedule, Spec},
    workflow::{self, WorkflowInstance},
    yjs::{self, Document},
};
use abide_harness::until;
use serde_json::json;

use super::{Letter, Post, World, run};

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

#[test]
fn components_work_in_any_combination_and_order() {
    run(async {
        let all = ["x", "o", "s", "f", "os", "so", "of", "fo", "sf", "fs"];
        let orders = ["osf", "ofs", "sof", "sfo", "fos", "fso"];
        for name in all.iter().chain(&orders) {
            let world = World::with_class::<Desk>();
            let desk = world.stub::<Desk>(name);
            let start = world.now();
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
        let world = World::with_class::<Desk>();
        let desk = world.stub::<Desk>("o");
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
    class: &'static str,
    name: &str,
    (table, column): (&str, &str),
    version: i64,
    open: impl AsyncFn(&Node, &str) -> String,
    install: fn(NodeBuilder, ClassOptions) -> NodeBuilder,
) -> String {
    type Install = fn(NodeBuilder, ClassOptions) -> NodeBuilder;
    let with = move |install: Install| {
        move |node: NodeBuilder| {
            install(node, ClassOptions::with_unique_key(class))
                .with(workflow::WorkflowRegistry::new())
                .with(
                    queue::Queues::new().without_consumer("words", queue::QueueOptions::default()),
                )
        }
    };
    let versioned: Install = |node, options| node.class::<Versioned>(options);
    let world = World::new(with(versioned));
    let object = world.stub::<Versioned>(name);
    let (table, column) = (table.to_owned(), column.to_owned());
    let made = object.make(table.clone(), column.clone(), version).await;
    made.unwrap();
    let world = world.restarted_with(|parts| parts.install = Box::new(with(install)));
    let told = open(&world.node, name).await;
    let world = world.restarted_with(|parts| parts.install = Box::new(with(versioned)));
    let object = world.stub::<Versioned>(name);
    let found = object.found(table.clone(), column).await.unwrap();
    assert_eq!(found, (vec![table], version), "{name}");
    told
}

#[test]
fn tables_of_another_version_are_refused_and_left_as_they_are() {
    run(async {
        let opened = async |node: &Node, name: &str| {
            let object = node.env().object::<Opener>().get_by_name(name);
            object.open().await.unwrap_err().to_string()
        };
        let shard = async |node: &Node, _: &str| {
            let queue = queue::Queue::new(node.env(), "words").unwrap();
            queue.counts().await.unwrap_err().to_string()
        };
        let instance = async |node: &Node, name: &str| {
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
