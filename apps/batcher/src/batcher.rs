//! The object: the posts waiting under one name, and the batch in transit.
//!
//! Contract: an accepted post leaves the object only after the upstream has answered 2xx to a batch that contains it.
//! Batches are sent one at a time, each with unchanged content on every attempt. The alarm is set whenever a post is
//! waiting.

use std::{sync::Arc, time::Duration};

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Upstream;

/// Maximum size of a post in bytes.
pub const MAX_POST: usize = 64 << 10;

/// Maximum number of posts waiting under one name.
pub const MAX_WAITING: i64 = 10_000;

/// Maximum number of posts in a batch: with the longest posts, 32 MiB.
pub const MAX_BATCH: i64 = 500;

/// The key under which the batch in transit is stored.
const BATCH: &str = "batch";

/// The posts under one name.
#[durable_object]
pub struct Batcher {
    ctx: Ctx,
    env: Env,
    upstream: Arc<Upstream>,
}

/// An accepted post.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its position in the order of all posts under this name.
    pub id: i64,
    /// Posts waiting under this name, including this one.
    pub queued: i64,
}

/// The queue of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Posts that the upstream has not accepted yet.
    pub waiting: i64,
    /// When the next attempt is due, in milliseconds since 1970, if posts are waiting and no attempt is running.
    pub due: Option<i64>,
    /// The key of the batch in transit.
    pub batch: Option<String>,
}

/// Why a post was not accepted.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum BatcherError {
    /// The upstream does not keep up.
    #[error("{MAX_WAITING} posts are already waiting. Retry after the upstream has accepted some.")]
    Full,
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] abide::Error),
}

/// The posts of a batch, as stored.
#[derive(Debug)]
pub struct Batch {
    /// The same at each attempt.
    pub(crate) key: String,
    posts: Vec<String>,
}

impl Batch {
    /// A JSON array of the posts, which are JSON texts themselves.
    pub(crate) fn body(&self) -> String {
        format!("[{}]", self.posts.join(","))
    }
}

/// The posts of the batch in transit: those up to an id.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Bounds {
    /// When the batch was created. Together with the id of its last post this identifies the batch, even after the
    /// object was restored to an earlier state, which would assign the same ids again.
    at: u64,
    through: i64,
}

impl Bounds {
    fn key(self, object: ObjectId) -> String {
        format!("{object}-{}-{}", self.at, self.through)
    }
}

impl DurableObject for Batcher {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS posts (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, body TEXT NOT NULL)",
            (),
        )?;
        Ok(Self {
            upstream: env.require()?,
            ctx,
            env,
        })
    }

    /// Sends the next batch. On an error the batch is kept, and the alarm is retried.
    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        let storage = self.ctx.storage();
        let Some(bounds) = self.bounds()? else {
            return Ok(());
        };
        let batch = self.batch(bounds)?;
        self.upstream
            .send(&self.env, &batch)
            .await
            .map_err(Error::from_std)?;
        let sql = storage.sql();
        sql.exec("DELETE FROM posts WHERE id <= ?", (bounds.through,))?;
        storage.delete(BATCH)?;
        let oldest: Option<i64> = sql.exec("SELECT min(at) FROM posts", ())?.one()?;
        match oldest {
            Some(at) => storage.set_alarm(at + self.window()),
            None => storage.delete_alarm(),
        }
    }
}

#[rpc]
impl Batcher {
    /// Accepts a post, which is a JSON text.
    pub async fn post(&self, body: String) -> Result<Accepted, BatcherError> {
        if self.waiting()? >= MAX_WAITING {
            return Err(BatcherError::Full);
        }
        let storage = self.ctx.storage();
        let now = self.env.now().unix_millis();
        let sql = storage.sql();
        let id = sql
            .exec(
                "INSERT INTO posts (at, body) VALUES (?, ?) RETURNING id",
                (now, body),
            )?
            .one()?;
        // An alarm handler that is running sets the next alarm itself when it is done; until then the current one
        // stays.
        if storage.alarm()?.is_none() {
            storage.set_alarm(self.upstream.window)?;
        }
        let queued = self.waiting()?;
        Ok(Accepted { id, queued })
    }

    /// The state of the queue.
    pub async fn queue(&self) -> Result<Queue, BatcherError> {
        let storage = self.ctx.storage();
        let bounds: Option<Bounds> = storage.get(BATCH)?;
        Ok(Queue {
            waiting: self.waiting()?,
            due: storage.alarm()?.map(Timestamp::unix_millis),
            batch: bounds.map(|bounds| bounds.key(self.ctx.id())),
        })
    }
}

impl Batcher {
    /// The posts in transit; if there are none, the waiting posts, up to the limit, become the batch.
    fn bounds(&self) -> Result<Option<Bounds>> {
        let storage = self.ctx.storage();
        if let Some(bounds) = storage.get(BATCH)? {
            return Ok(Some(bounds));
        }
        let through: Option<i64> = storage
            .sql()
            .exec(
                "SELECT max(id) FROM (SELECT id FROM posts ORDER BY id LIMIT ?)",
                (MAX_BATCH,),
            )?
            .one()?;
        let Some(through) = through else {
            return Ok(None);
        };
        let bounds = Bounds {
            at: self.env.clock().unix_millis(),
            through,
        };
        storage.put(BATCH, &bounds)?;
        Ok(Some(bounds))
    }

    fn batch(&self, bounds: Bounds) -> Result<Batch> {
        let sql = self.ctx.sql();
        let posts = "SELECT body FROM posts WHERE id <= ? ORDER BY id";
        Ok(Batch {
            key: bounds.key(self.ctx.id()),
            posts: sql.exec(posts, (bounds.through,))?.all()?,
        })
    }

    fn waiting(&self) -> Result<i64> {
        let sql = self.ctx.sql();
        // Ids have no gaps: none is reused, and only the oldest are deleted. SQLite finds each end without reading the
        // rows in between.
        sql.exec(
            "SELECT coalesce((SELECT max(id) FROM posts) - (SELECT min(id) FROM posts) + 1, 0)",
            (),
        )?
        .one()
    }

    fn window(&self) -> i64 {
        millis(self.upstream.window)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
