//! Reading an object that does not exist stores nothing, whatever components its constructor opens.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::sync::Arc;

use abide::{
    Host,
    outbox::{self, Outbox},
    outcomes::{self, Declaration, Entry, Machine, Outcomes},
    party::{self, Room},
    patterns::{
        cleanup::{self, Cleanup},
        leaderboard::{self, Leaderboard},
        lock::{self, Fence, Lock},
        presence::{self, Presence},
        sessions::{self, Sessions},
        sharding::{self, Figures, Sharded},
    },
    prelude::*,
    projection::{Feed, Projection, ReadModel, SqliteModel, Table, Tables, Type},
    queue::{self, Batch, Consumer, Queue, Queues},
    schedule::{self, Schedule},
    server::LocalHost,
    workflow::{self, Context, Failure, Filter, Workflow, Workflows},
    yjs::{self, Document},
};
use abide_harness::run;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Account;

impl Machine for Account {
    const SCHEMA: Declaration = Declaration {
        name: "account",
        initial: "fresh",
        states: &["fresh", "open"],
        terminal: &["open"],
        actions: &["open"],
        outcomes: &["opened"],
        transitions: &[("fresh", "open", "opened", "open")],
    };

    fn validate(&self, _: &Entry) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, _: &Entry) -> Result<()> {
        Ok(())
    }
}

struct Nothing;

impl Workflow for Nothing {
    const NAME: &'static str = "nothing";
    type Input = ();
    type Output = ();

    async fn run(&self, _: Context, (): ()) -> Result<(), Failure> {
        Ok(())
    }
}

impl Consumer for Nothing {
    type Body = ();

    async fn consume(&self, _: &Batch<()>) -> Result<()> {
        Ok(())
    }
}

/// Opens every component that an object can open.
#[durable_object]
struct Everything {
    ctx: Ctx,
    outbox: Outbox,
    schedule: Schedule,
    feed: Feed,
    outcomes: Outcomes<Account>,
    presence: Presence,
    sessions: Sessions,
    cleanup: Cleanup,
    figures: Figures,
    fence: Fence,
    document: Document,
}

impl DurableObject for Everything {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec(
            "CREATE TABLE IF NOT EXISTS notes (text TEXT); CREATE INDEX IF NOT EXISTS notes_text ON notes (text);
             CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text)",
            (),
        )?;
        ctx.storage().set_up(|| {
            sql.exec(
                "CREATE TABLE IF NOT EXISTS settings AS SELECT 7 AS volume",
                (),
            )
            .map(drop)
        })?;
        let schedule = Schedule::open(&ctx, schedule::ScheduleOptions::default())?;
        schedule.on_firing(|_| Ok::<_, Error>(()))?;
        let room = Room::open(&ctx, party::RoomOptions::default())?;
        Ok(Self {
            outbox: Outbox::open(&ctx, outbox::OutboxOptions::default())?,
            schedule,
            feed: Feed::open(&ctx)?,
            outcomes: Outcomes::open(&ctx, outcomes::OutcomesOptions::default())?,
            presence: Presence::open(&ctx, presence::PresenceOptions::default())?,
            sessions: Sessions::open(&ctx, sessions::SessionOptions::default())?,
            cleanup: Cleanup::open(&ctx, cleanup::CleanupOptions::default())?,
            figures: Figures::open(&ctx, sharding::ShardingOptions::default())?,
            fence: Fence::open(&ctx, "door")?,
            document: Document::open(&ctx, &room, yjs::DocumentOptions::default())?,
            ctx,
        })
    }
}

#[rpc]
impl Everything {
    /// Reads from all components.
    pub async fn read(&self) -> Result<()> {
        self.outbox.counts()?;
        self.outbox
            .dead_letters(&outbox::DeadLetterFilter::default())?;
        self.schedule.list(None, 10)?;
        self.feed.waiting()?;
        self.outcomes.state()?;
        self.presence.here()?;
        self.sessions.get::<()>("none")?;
        self.cleanup.goes_at()?;
        self.figures.get("likes")?;
        self.fence.newest()?;
        self.document.size().await?;
        self.ctx
            .sql()
            .exec("SELECT * FROM notes, words, settings", ())?;
        self.ctx.storage().sync().await
    }

    pub async fn write(&self) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec("INSERT INTO notes VALUES ('hello')", ()).map(drop)
    }
}

async fn host(dir: &std::path::Path) -> LocalHost {
    let notes = Table::new("notes").column("n", Type::Integer);
    let tables = Tables::new([notes]).unwrap();
    let model: Arc<dyn ReadModel> = Arc::new(SqliteModel::open(dir.join("m.db"), tables).unwrap());
    let projection = Projection::new("read-model", &*model);
    let queues = projection.install(Queues::new(), Arc::clone(&model)).with(
        "work",
        queue::QueueOptions::default(),
        Nothing,
    );
    let host = queue::install(Host::open_in_memory(), queues)
        .with(projection)
        .object::<Everything>();
    let host = outbox::service::install(
        host,
        outbox::Registry::new(),
        outbox::OutboxOptions::default(),
    );
    let host = leaderboard::install(host, leaderboard::LeaderboardOptions::default());
    let host = sharding::install(lock::install(host));
    let registry = workflow::WorkflowRegistry::new().with(Nothing);
    let host = workflow::install(host, registry, workflow::WorkflowOptions::default());
    host.start_local().await.unwrap()
}

async fn read_all(env: &Env) {
    env.object::<Everything>()
        .get_by_name("likes/7")
        .read()
        .await
        .unwrap();
    let boards = env.object::<Leaderboard>();
    boards.get_by_name("none").top(0, 10).await.unwrap();
    let locks = env.object::<Lock>();
    locks.get_by_name("none").holder().await.unwrap();
    Sharded::<Everything>::new(env, "none", 4)
        .unwrap()
        .totals()
        .await
        .unwrap();
    Queue::new(env, "work").unwrap().counts().await.unwrap();
    Queue::new(env, "work")
        .unwrap()
        .dead_letters(10)
        .await
        .unwrap();
    let workflows = Workflows::<Nothing>::new(env);
    workflows.status("none").await.unwrap_err();
    workflows.list(Filter::default()).await.unwrap();
    let outboxes = env.object::<outbox::service::Outbox>();
    outboxes.get_by_name("none").overview().await.unwrap();
}

#[test]
fn reads_store_nothing_whatever_components_a_constructor_opens() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path()).await;
        read_all(host.env()).await;
        for namespace in host.env().namespaces() {
            let written = namespace.written().unwrap();
            assert!(written.is_empty(), "{}: {written:?}", namespace.class());
        }
        host.shutdown().await.unwrap();
    });
}

#[test]
fn the_first_write_stores_what_all_components_have_set_up() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let host = host(dir.path()).await;
        let everything = host.env().object::<Everything>();
        let object = everything.get_by_name("likes/7");
        object.read().await.unwrap();
        object.write().await.unwrap();
        assert_eq!(everything.untyped().written().unwrap().len(), 1);
        object.read().await.unwrap();
        host.shutdown().await.unwrap();
    });
}
