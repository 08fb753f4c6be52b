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
    NodeBuilder, ObjectClass,
    outbox::{Deliver, Delivery, Failure, Registry, Submitted},
    prelude::*,
    projection::{Projection, SqliteModel, Table, Tables, Type},
    storage::SimDisk,
};
use abide_harness::run;
use serde::{Deserialize, Serialize};
use world::Setup;

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

/// The classes of a test, and what their objects send to.
struct Parts {
    install: Box<dyn Fn(NodeBuilder) -> NodeBuilder>,
    post: Post,
    projection: Projection,
    _dir: tempfile::TempDir,
}

impl Setup for Parts {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        (self.install)(node)
            .with(Registry::new().with(self.post.clone()))
            .with(self.projection.clone())
    }
}

type World = world::World<Parts>;

impl World {
    fn new(install: impl Fn(NodeBuilder) -> NodeBuilder + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let desks = Table::new("desks").column("open", Type::Integer);
        let tables = Tables::new([desks]).unwrap();
        let model = SqliteModel::open(dir.path().join("model.db"), tables).unwrap();
        Self::of(Parts {
            install: Box::new(install),
            post: Post::default(),
            projection: Projection::new("model", &model),
            _dir: dir,
        })
    }

    /// A node with objects of one class.
    fn with_class<T: ObjectClass>() -> Self {
        Self::new(|node| node.class::<T>(ClassOptions::default()))
    }

    async fn pass(&self, half_seconds: u32) {
        for _ in 0..half_seconds {
            self.clock.advance(Duration::from_millis(500));
            tokio::task::yield_now().await;
        }
    }

    async fn pass_minutes(&self, minutes: u32) {
        for _ in 0..minutes {
            self.node.settle().await.unwrap();
            self.clock.advance(Duration::from_mins(1));
        }
        self.node.settle().await.unwrap();
    }
}
