//! The object: what waits under one name, and the batch that is on its way.
//!
//! Contract: a post that was accepted leaves the object only when the upstream has answered 2xx to a batch with it.
//! Batches are sent one after the other, each as it was first sent. The alarm is set whenever something waits.

use std::{sync::Arc, time::Duration};

use abide::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Upstream;

/// Bytes of one post, at most.
pub const MAX_POST: usize = 64 << 10;

/// Posts that may wait under one name, at most.
pub const MAX_WAITING: i64 = 10_000;

/// Posts in one batch, at most: with the longest posts, 32 MiB.
pub const MAX_BATCH: i64 = 500;

/// Where the batch that is on its way is kept.
const BATCH: &str = "batch";

/// The posts under one name.
#[durable_object]
pub struct Batcher {
    state: State,
    env: Env,
    upstream: Arc<Upstream>,
}

/// A post that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its place in the order of all posts under this name.
    pub id: i64,
    /// Posts that wait under this name, with this one.
    pub queued: i64,
}

/// What waits under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Posts that the upstream has not taken yet.
    pub waiting: i64,
    /// When the next attempt is, in milliseconds since 1970, if anything waits and no attempt is being made.
    pub due: Option<i64>,
    /// The key of the batch that is on its way.
    pub batch: Option<String>,
}

/// Why a post was not taken.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
pub enum BatcherError {
    /// The upstream does not keep up.
    #[error("{MAX_WAITING} posts wait already. Post again when the upstream has taken some.")]
    Full,
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] abide::Error),
}

/// The posts of a batch as they are stored.
#[derive(Debug)]
pub struct Batch {
    /// The same at each attempt.
    pub(crate) key: String,
    posts: Vec<String>,
}

impl Batch {
    /// A JSON array of the posts, which are JSON already.
    pub(crate) fn body(&self) -> String {
        format!("[{}]", self.posts.join(","))
    }
}

/// Which posts are in the batch that is on its way: those up to an id.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Bounds {
    /// When the batch was made. With the id of its last post this names the batch, also after the object was brought
    /// back to an earlier state, which would give out the same ids once more.
    at: u64,
    through: i64,
}

impl Bounds {
    fn key(self, object: ObjectId) -> String {
        format!("{object}-{}-{}", self.at, self.through)
    }
}

impl DurableObject for Batcher {
    fn new(state: State, env: Env) -> Result<Self> {
        state.storage().sql().exec(
            "CREATE TABLE IF NOT EXISTS posts (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, body TEXT NOT NULL)",
            (),
        )?;
        Ok(Self {
            upstream: env.require()?,
            state,
            env,
        })
    }

    /// Sends the next batch. An error keeps it, and the alarm is tried again.
    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        let storage = self.state.storage();
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
    /// Takes a post, which is a JSON text.
    pub async fn post(&self, body: String) -> Result<Accepted, BatcherError> {
        if self.waiting()? >= MAX_WAITING {
            return Err(BatcherError::Full);
        }
        let storage = self.state.storage();
        let now = i64::try_from(self.env.clock().unix_millis()).unwrap_or(i64::MAX);
        let sql = storage.sql();
        let id = sql
            .exec(
                "INSERT INTO posts (at, body) VALUES (?, ?) RETURNING id",
                (now, body),
            )?
            .one()?;
        // An alarm that is being handled sets the next one itself when it is done; until then this one stands.
        if storage.get_alarm()?.is_none() {
            storage.set_alarm(self.upstream.window)?;
        }
        let queued = self.waiting()?;
        Ok(Accepted { id, queued })
    }

    /// What waits.
    pub async fn queue(&self) -> Result<Queue, BatcherError> {
        let storage = self.state.storage();
        let bounds: Option<Bounds> = storage.get(BATCH)?;
        Ok(Queue {
            waiting: self.waiting()?,
            due: storage.get_alarm()?.map(AlarmTime::unix_millis),
            batch: bounds.map(|bounds| bounds.key(self.state.id())),
        })
    }
}

impl Batcher {
    /// Which posts are on their way; if none are, those that wait, up to the limit, are from now on.
    fn bounds(&self) -> Result<Option<Bounds>> {
        let storage = self.state.storage();
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
        let sql = self.state.storage().sql();
        let posts = "SELECT body FROM posts WHERE id <= ? ORDER BY id";
        Ok(Batch {
            key: bounds.key(self.state.id()),
            posts: sql.exec(posts, (bounds.through,))?.to_array()?,
        })
    }

    fn waiting(&self) -> Result<i64> {
        let sql = self.state.storage().sql();
        // Ids have no gaps: none is given back, and only the oldest are deleted. SQLite finds one end at a time without
        // reading what is between.
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
