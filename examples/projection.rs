// A query over many objects: each order feeds a row to a read model, here a SQLite file.
//
// `cargo run --example projection`

use std::sync::Arc;

use abide::{
    Host,
    clock::TestClock,
    prelude::*,
    projection::{Feed, Projection, ReadModel, SqliteModel, Table, Tables, Type},
    queue::{self, Queues},
};
use serde_json::json;

#[durable_object]
pub struct Order {
    ctx: Ctx,
    feed: Feed,
}

impl DurableObject for Order {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let feed = Feed::open(&ctx)?;
        Ok(Self { ctx, feed })
    }
}

#[rpc]
impl Order {
    /// Changes the state, and puts the row that shows it, in one transaction.
    pub fn set(&self, state: String) -> Result<()> {
        let storage = self.ctx.storage();
        storage.put("state", &state)?;
        // A row with a lower number never replaces one with a higher.
        let number = storage.get("number")?.unwrap_or(0) + 1;
        storage.put("number", &number)?;
        let id = self.ctx.name().unwrap_or_default();
        self.feed
            .put("orders", id, number, &json!({ "state": state }))?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let orders = Table::new("orders")
        .column("state", Type::Text)
        .index(["state"]);
    let file = dir.path().join("read-model.db");
    let model: Arc<dyn ReadModel> = Arc::new(SqliteModel::open(&file, Tables::new([orders])?)?);
    let projection = Projection::new("read-model", &*model);
    let queues = projection.install(Queues::new(), Arc::clone(&model));
    let host = queue::install(Host::open_in_memory(), queues)
        .with(projection)
        .object::<Order>()
        .clock(Arc::new(TestClock::new()))
        .start_local()
        .await?;

    let orders = host.env().object::<Order>();
    for (name, state) in [("1", "open"), ("2", "open"), ("3", "open"), ("2", "paid")] {
        orders.get_by_name(name).set(state.to_owned()).await?;
    }
    host.settle().await?; // the read model has every row
    let count = "SELECT state, count(*) AS orders FROM orders GROUP BY state ORDER BY state";
    for row in model.query(count, vec![]).await? {
        println!("{}: {}", row["state"], row["orders"]);
    }
    host.shutdown().await?;
    Ok(())
}
