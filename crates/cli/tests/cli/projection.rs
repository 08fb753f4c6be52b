//! `abide projection` on the feed of an object, whose class has no line of code for it.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{path::Path, process::Command, sync::Arc};

use abide::{
    Host,
    prelude::*,
    projection::{Feed, Projection, ReadModel, SqliteModel, Table, Tables, Type},
    queue::{self, Queues},
    server::{ListenAddress, RunningHost, access::AccessStore},
};
use serde_json::json;

#[durable_object]
struct Order {
    feed: Feed,
}

impl DurableObject for Order {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let feed = Feed::open(&ctx)?;
        Ok(Self { feed })
    }
}

#[rpc]
impl Order {
    pub(crate) async fn put(&self, id: String) -> Result<()> {
        let put = self.feed.put("orders", id, 7, &json!({ "state": "paid" }));
        put.map_err(Error::from)
    }
}

fn model(dir: &Path) -> Arc<dyn ReadModel> {
    let orders = Table::new("orders").column("state", Type::Text);
    let tables = Tables::new([orders]).unwrap();
    Arc::new(SqliteModel::open(dir.join("read-model.db"), tables).unwrap())
}

/// A program whose queue is there, or has been forgotten.
async fn start(dir: &Path, has_queue: bool) -> RunningHost {
    let model = model(dir);
    let projection = Projection::new("read-model", &*model);
    let host = Host::builder(dir.join("data"))
        .configure(|config| {
            config.server.listen = ListenAddress::any_port();
            config.admin.listen = None;
        })
        .object::<Order>();
    let queues = if has_queue {
        projection.install(Queues::new(), model)
    } else {
        Queues::new()
    };
    let host = queue::install(host, queues).with(projection);
    host.start().await.unwrap()
}

/// What the command prints, or says if it fails.
async fn abide(dir: &Path, verb: &str, object: &str) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abide"));
    command.args(["projection", verb, object, "--data"]);
    command.arg(dir.join("data"));
    abide_harness::printed(command).await
}

/// Waits until a command prints this, and returns what else it prints.
async fn until(dir: &Path, verb: &str, wanted: &str) -> String {
    abide_harness::until(wanted, async || {
        let printed = abide(dir, verb, "Order/4711").await.unwrap();
        printed.contains(wanted).then_some(printed)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_feed_has_not_handed_over_is_seen_and_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let host = start(dir, false).await;
    let order = host.env().object::<Order>().get_by_name("4711");
    for id in ["4711", "a\u{7}b"] {
        order.put(id.to_owned()).await.unwrap();
    }
    let shown = until(dir, "show", "status: refused").await;
    assert!(shown.contains("rows that wait: 2\n"), "{shown}");
    assert!(
        shown.contains("error: ") && !shown.contains("error: -"),
        "{shown}"
    );
    assert!(shown.contains("queue: read-model\n"), "{shown}");
    assert!(shown.contains("the queue does not answer"), "{shown}");
    assert!(!shown.contains("asked again: -"), "{shown}");
    let rows = abide(dir, "rows", "Order/4711").await.unwrap();
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(rows.contains("orders\t4711\t7\t20"), "{rows}");
    assert!(rows.contains("orders\ta\\u{7}b\t7\t"), "{rows}");
    host.shutdown().await.unwrap();

    let host = start(dir, true).await;
    abide(dir, "retry", "Order/4711").await.unwrap();
    let shown = until(dir, "show", "status: up to date").await;
    assert!(shown.contains("refused in a row: 0\nerror: -\n"), "{shown}");
    let shown = until(dir, "show", "rows in the queue: 0\n").await;
    assert!(shown.contains("read model: takes rows"), "{shown}");
    let found = model(dir).query("SELECT id FROM orders", vec![]).await;
    assert_eq!(found.unwrap().len(), 2);

    let nobody = abide(dir, "show", "Order/1").await.unwrap_err();
    assert!(nobody.contains("no object"), "{nobody}");
    let shard = abide(dir, "show", "QueueShard/read-model/0")
        .await
        .unwrap_err();
    assert!(shard.contains("no component \"projection\""), "{shard}");
    let audit = AccessStore::open(&dir.join("data")).unwrap();
    let audit = audit.audit(None, 20).unwrap();
    let mut told = audit.iter().map(|row| row.operation.detail.as_deref());
    assert!(
        told.any(|detail| detail == Some("POST projection/retry")),
        "{audit:?}"
    );
    host.shutdown().await.unwrap();
}
