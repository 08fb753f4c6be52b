//! A node whose objects have feeds, and a read model that misbehaves on demand.

pub(crate) use abide_harness::run;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{
    NodeBuilder, Value,
    clock::{Clock, TestClock},
    prelude::*,
    storage::SimDisk,
};
use abide::{
    projection::{
        Begun, Feed, Found, Projection, ProjectionError, ReadModel, Row, SqliteModel, Table,
        Tables, Type, Written, queue_options,
    },
    queue::{self, Counts, Queue, QueueOptions, QueueShard, Queues},
};
use abide_harness::setting;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::world::{self, Setup};

pub(crate) fn tables() -> Tables {
    Tables::new([
        Table::new("accounts")
            .column("balance", Type::Integer)
            .column("owner", Type::Text)
            .column("rate", Type::Real)
            .index(["owner", "balance"]),
        Table::new("deposits")
            .column("account", Type::Text)
            .column("amount", Type::Integer),
    ])
    .unwrap()
}

/// A row of `accounts`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) seq: i64,
    pub(crate) balance: i64,
}

/// All rows of `accounts`.
pub(crate) async fn accounts(model: &dyn ReadModel) -> Vec<Account> {
    model
        .rows("SELECT id, seq, balance FROM accounts ORDER BY id", vec![])
        .await
        .unwrap()
}

pub(crate) fn row(id: &str, seq: i64, balance: i64) -> Row {
    let serde_json::Value::Object(values) = json!({ "balance": balance, "owner": "ada" }) else {
        unreachable!()
    };
    Row {
        table: "accounts".to_owned(),
        id: id.to_owned(),
        source: "source".to_owned(),
        timeline: "1".to_owned(),
        seq,
        at: 17,
        values,
    }
}

/// What ails a read model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Well,
    /// It refuses everything.
    Down,
    /// It never answers.
    Stuck,
    /// It refuses what is 13.
    Superstitious,
    /// It keeps what it is to forget.
    Clinging,
}

fn is_unlucky(row: &Row) -> bool {
    row.values.values().any(|value| *value == 13)
}

/// A read model with moods.
#[derive(Clone)]
pub(crate) struct Moody {
    pub(crate) model: Arc<dyn ReadModel>,
    mood: Arc<Mutex<Mood>>,
    clock: TestClock,
    /// Sizes of the batches that were applied.
    pub(crate) batches: Arc<Mutex<Vec<usize>>>,
}

impl Moody {
    pub(crate) fn new(model: Arc<dyn ReadModel>, clock: TestClock) -> Self {
        Self {
            model,
            mood: Arc::default(),
            clock,
            batches: Arc::default(),
        }
    }

    /// Never ends; rests on the test's clock, so that the node settles.
    fn never<T: 'static>(&self) -> BoxFuture<'static, T> {
        let clock = self.clock.clone();
        Box::pin(async move {
            clock.sleep_until(Duration::MAX).await;
            unreachable!("the end of time")
        })
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
}

impl ReadModel for Moody {
    fn tables(&self) -> &Tables {
        self.model.tables()
    }

    fn apply(&self, rows: Vec<Row>) -> BoxFuture<'static, Result<Written, ProjectionError>> {
        self.batches.lock().unwrap().push(rows.len());
        let refused = |error| Box::pin(std::future::ready(Err(error)));
        match *self.mood.lock().unwrap() {
            Mood::Down => refused(ProjectionError::Unavailable("the test says so".to_owned())),
            Mood::Stuck => self.never(),
            Mood::Superstitious if rows.iter().any(is_unlucky) => {
                refused(ProjectionError::Refused("13".to_owned()))
            }
            Mood::Well | Mood::Superstitious | Mood::Clinging => self.model.apply(rows),
        }
    }

    fn begin(&self, timeline: Begun) -> BoxFuture<'static, Result<(), ProjectionError>> {
        let refused = |error| Box::pin(std::future::ready(Err(error)));
        match *self.mood.lock().unwrap() {
            Mood::Down => refused(ProjectionError::Unavailable("the test says so".to_owned())),
            Mood::Stuck => self.never(),
            Mood::Well | Mood::Superstitious | Mood::Clinging => self.model.begin(timeline),
        }
    }

    fn query(
        &self,
        sql: &str,
        params: Vec<Value>,
    ) -> BoxFuture<'static, Result<Vec<Found>, ProjectionError>> {
        self.model.query(sql, params)
    }

    fn wipe(&self) -> BoxFuture<'static, Result<(), ProjectionError>> {
        match *self.mood.lock().unwrap() {
            Mood::Clinging => Box::pin(std::future::ready(Ok(()))),
            _ => self.model.wipe(),
        }
    }
}

/// An account that feeds its balance, and each deposit.
#[durable_object]
pub(crate) struct Bank {
    ctx: Ctx,
    feed: Feed,
}

impl DurableObject for Bank {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let feed = Feed::open(&ctx)?;
        Ok(Self { ctx, feed })
    }
}

#[rpc]
#[allow(
    unreachable_pub,
    reason = "the methods that others may call are the `pub` ones"
)]
impl Bank {
    /// Returns the number of the change.
    pub async fn deposit(&self, amount: i64) -> Result<i64> {
        let storage = self.ctx.storage();
        storage.transaction(|| {
            let (seq, balance): (i64, i64) = storage.get("account")?.unwrap_or_default();
            let (seq, balance) = (seq + 1, balance + amount);
            storage.put("account", &(seq, balance))?;
            let name = self.ctx.name().unwrap_or_default();
            let deposit = json!({ "account": name, "amount": amount });
            self.feed
                .put("deposits", format!("{name}/{seq}"), seq, &deposit)?;
            self.put(seq, balance)?;
            Ok(seq)
        })
    }

    /// Deposits and, while the rows are in flight, deletes everything and makes the first deposit again.
    pub async fn deposit_anew(&self, amount: i64) -> Result<i64> {
        self.deposit(amount).await?;
        for _ in 0..10 {
            // The feed has its turn.
            tokio::task::yield_now().await;
        }
        self.ctx.storage().delete_all()?;
        self.deposit(amount).await
    }

    /// Deposits, and then does not.
    pub async fn deposit_and_fail(&self) -> Result<()> {
        self.ctx.storage().transaction(|| {
            self.put(1_000, 1_000_000)?;
            Err(Error::new("undone"))
        })
    }

    /// Puts a row that does not fit.
    pub async fn put_odd(&self, table: String, values: String) -> Result<()> {
        let values: serde_json::Value = serde_json::from_str(&values).unwrap();
        Ok(self.feed.put(&table, "odd", 1, &values)?)
    }

    /// Puts the row again that shows what is.
    pub async fn feed_again(&self) -> Result<()> {
        match self.ctx.storage().get::<(i64, i64)>("account")? {
            Some((seq, balance)) => self.put(seq, balance),
            None => Err(Error::new("there is no account")),
        }
    }

    /// The number of changes so far, and the balance.
    pub async fn account(&self) -> Result<(i64, i64)> {
        Ok(self.ctx.storage().get("account")?.unwrap_or_default())
    }

    pub async fn dormant(&self) -> bool {
        self.ctx.is_dormant()
    }

    pub async fn waiting(&self) -> Result<u64> {
        self.feed.waiting()
    }

    pub async fn is_armed(&self) -> Result<bool> {
        Ok(self.ctx.storage().alarm()?.is_some())
    }

    fn put(&self, seq: i64, balance: i64) -> Result<()> {
        let name = self.ctx.name().unwrap_or_default();
        let row = json!({ "balance": balance, "owner": format!("owner of {name}"), "rate": 0.5 });
        Ok(self.feed.put("accounts", name, seq, &row)?)
    }
}

/// A read model, and the way to it.
pub(crate) struct Parts {
    pub(crate) model: Moody,
    pub(crate) projection: Projection,
    options: QueueOptions,
    /// Where the read model is, if it is a file.
    _dir: Option<TempDir>,
}

impl Setup for Parts {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        let (options, model) = (self.options.clone(), Arc::new(self.model.clone()));
        let queues = self.projection.install_with(Queues::new(), options, model);
        node.class::<QueueShard>(queue::class_options())
            .class::<Bank>(queue::class_options())
            .with(queues)
            .with(self.projection.clone())
            .workers(2)
    }
}

pub(crate) type World = world::World<Parts>;

impl World {
    /// With a read model in SQLite.
    pub(crate) fn new() -> Self {
        Self::with_options(queue_options())
    }

    pub(crate) fn with_options(options: QueueOptions) -> Self {
        let dir = TempDir::new().unwrap();
        let model = SqliteModel::open(dir.path().join("read-model.db"), tables()).unwrap();
        Self::from_parts(Arc::new(model), options, Some(dir))
    }

    pub(crate) fn with_model(model: Arc<dyn ReadModel>, options: QueueOptions) -> Self {
        Self::from_parts(model, options, None)
    }

    fn from_parts(model: Arc<dyn ReadModel>, options: QueueOptions, dir: Option<TempDir>) -> Self {
        let clock = TestClock::new();
        let model = Moody::new(model, clock.clone());
        let parts = Parts {
            projection: Projection::new("read-model", &model),
            model,
            options,
            _dir: dir,
        };
        Self::at(clock, parts)
    }

    /// Another node, whose queue works otherwise.
    pub(crate) fn with(self, options: QueueOptions) -> Self {
        self.restarted_with(|parts| parts.options = options)
    }

    pub(crate) fn bank(&self, name: &str) -> Stub<Bank> {
        self.stub(name)
    }

    pub(crate) async fn deposit(&self, name: &str, amount: i64) {
        self.bank(name).deposit(amount).await.unwrap();
    }

    pub(crate) fn queue(&self) -> Queue {
        Queue::new(self.node.env(), "read-model").unwrap()
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.queue().counts().await.unwrap()
    }

    pub(crate) async fn balances(&self) -> Vec<(String, i64)> {
        let rows = accounts(&*self.model.model).await.into_iter();
        rows.map(|row| (row.id, row.balance)).collect()
    }

    /// How many deposits the read model has.
    pub(crate) async fn deposits(&self) -> i64 {
        let count = "SELECT count(*) AS count FROM deposits";
        let rows = self.model.query(count, vec![]).await.unwrap();
        rows[0]["count"].as_i64().unwrap()
    }

    /// Waits until the read model shows these balances; moves the clock.
    pub(crate) async fn until_balances(&self, wanted: &[(&str, i64)]) {
        let wanted: Vec<(String, i64)> = wanted
            .iter()
            .map(|(name, balance)| ((*name).to_owned(), *balance))
            .collect();
        for _ in 0..setting("ABIDE_TEST_ROUNDS", 5_000) {
            if self.balances().await == wanted {
                return;
            }
            self.pass().await;
        }
        panic!("never {wanted:?}, but {:?}", self.balances().await);
    }

    /// Waits until something is so; moves the clock.
    pub(crate) async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        for _ in 0..setting("ABIDE_TEST_ROUNDS", 20_000) {
            if so().await {
                return;
            }
            self.pass().await;
        }
        panic!("never: {what}");
    }

    pub(crate) async fn pass(&self) {
        self.clock.advance(Duration::from_millis(200));
        self.node.settle().await.unwrap();
    }
}
