//! Components of one object.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod deletion;
mod functions;
mod opening;
#[path = "../../../../../verify/harness/shared/world.rs"]
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
    clock::TestClock,
    outbox::{Deliver, Delivery, Failure, Registry, Submitted},
    prelude::*,
    projection::{Projection, SqliteModel, Table, Tables, Type},
    storage::SimDisk,
};
use abide_harness::run;
use serde::{Deserialize, Serialize};
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
