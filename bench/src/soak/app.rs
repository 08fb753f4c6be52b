//! The program that the soak kills: ledgers with outboxes, clocks with alarms, lines with sockets.

use std::{path::Path, time::Duration};

use abide::outbox::{Deliver, Outbox, OutboxOptions, Pace, Registry, RetryPolicy};
use abide::{
    prelude::*,
    server::{AllowPrivate, Host, object_router},
};
use serde::{Deserialize, Serialize};

use crate::ours::{
    node,
    outbox::{Post, Poster},
};

/// Entries that a ledger keeps, so that its file does not grow.
const KEPT: u64 = 100;
/// Log between checkpoints and the archive's retention are small, so that a short run sees many of both.
const CHECKPOINT_BYTES: u64 = 16 << 20;
const SEGMENT_BYTES: u64 = 4 << 20;
const RETENTION: Duration = Duration::from_mins(1);
/// Objects leave memory in every pause of their clients.
const IDLE: Duration = Duration::from_secs(1);

/// Entries with rising numbers, each of which is announced by the outbox.
#[durable_object]
struct Ledger {
    ctx: Ctx,
    outbox: Outbox,
}

/// What is in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entries {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) count: u64,
}

impl Entries {
    /// The last entries are there, without a hole.
    pub(crate) fn are_whole(self) -> bool {
        let count = self.last.min(KEPT);
        self.count == count && self.first == self.last + u64::from(count > 0) - count
    }
}

impl DurableObject for Ledger {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let options = OutboxOptions::default()
            .pace(Pace::unlimited(4))
            .retry(RetryPolicy::Exponential {
                base: Duration::from_millis(50),
                max: Duration::from_secs(1),
                max_attempts: u32::MAX,
            })
            .keep_finished(Duration::from_secs(20))
            .recovery(Duration::from_millis(500));
        let outbox = Outbox::open(&ctx, options)?;
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, text TEXT NOT NULL)",
            (),
        )?;
        Ok(Self { ctx, outbox })
    }
}

#[rpc]
impl Ledger {
    /// Writes an entry and announces it, once however often it is asked.
    pub(crate) async fn write(&self, number: u64, post: Post) -> Result<()> {
        let entries = self.entries()?;
        if number <= entries.last {
            return Ok(());
        }
        let sql = self.ctx.sql();
        let number = number.cast_signed();
        sql.exec(
            "INSERT INTO entries (number, text) VALUES (?1, ?2)",
            (number, &post.text),
        )?;
        sql.exec(
            "DELETE FROM entries WHERE number <= ?1",
            (number - KEPT.cast_signed(),),
        )?;
        let message = Poster::message(&post).map_err(Error::from_std)?;
        self.outbox
            .enqueue(&message.ordering_key("announcements"))
            .map_err(Error::from_std)?;
        Ok(())
    }

    pub(crate) async fn read(&self) -> Result<Entries> {
        self.entries()
    }

    fn entries(&self) -> Result<Entries> {
        let (first, last, count): (Option<i64>, Option<i64>, i64) = self
            .ctx
            .sql()
            .exec("SELECT min(number), max(number), count(*) FROM entries", ())?
            .one()?;
        Ok(Entries {
            first: first.unwrap_or(0).cast_unsigned(),
            last: last.unwrap_or(0).cast_unsigned(),
            count: count.cast_unsigned(),
        })
    }
}

/// One alarm after the other.
#[durable_object]
struct Clock {
    ctx: Ctx,
    env: Env,
}

/// Which alarm went off last, and when, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fired {
    pub(crate) alarm: u64,
    pub(crate) at: i64,
}

impl DurableObject for Clock {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self { ctx, env })
    }

    async fn alarm(&self, _info: AlarmInfo) -> Result<()> {
        let storage = self.ctx.storage();
        let alarm = storage.get("set")?.unwrap_or(0);
        let at = self.env.now().unix_millis();
        storage.put("fired", &Fired { alarm, at })
    }
}

#[rpc]
impl Clock {
    /// Sets an alarm, once however often it is asked.
    pub(crate) async fn set(&self, alarm: u64, at: i64) -> Result<()> {
        let storage = self.ctx.storage();
        if storage.get::<u64>("set")?.unwrap_or(0) < alarm {
            storage.put("set", &alarm)?;
            storage.set_alarm(at)?;
        }
        Ok(())
    }

    pub(crate) async fn fired(&self) -> Result<Fired> {
        Ok(self.ctx.storage().get("fired")?.unwrap_or_default())
    }
}

/// Numbers that come over a socket in order, each answered when it is stored.
#[durable_object]
struct Line {
    ctx: Ctx,
}

impl DurableObject for Line {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn fetch(&self, _request: Request) -> Result<Response> {
        let (_, response) = self.ctx.accept_websocket(&[])?;
        Ok(response)
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        let number: u64 = message
            .as_text()
            .unwrap_or_default()
            .parse()
            .map_err(Error::from_std)?;
        let known = self.known()?;
        if number > known + 1 {
            return ws.send(format!("{number} came after {known}"));
        }
        self.ctx.storage().put("number", &number.max(known))?;
        ws.send(number.to_string())
    }
}

#[rpc]
impl Line {
    pub(crate) async fn last(&self) -> Result<u64> {
        self.known()
    }

    fn known(&self) -> Result<u64> {
        Ok(self.ctx.storage().get("number")?.unwrap_or(0))
    }
}

/// Serves at a port until standard input closes, or until it is killed.
pub(crate) fn serve(dir: &Path, port: u16) -> anyhow::Result<()> {
    let host = Host::builder(dir)
        .with(Registry::new().with(Poster))
        .object::<Ledger>()
        .object::<Clock>()
        .object::<Line>()
        .json_rpc()
        .configure(|config| {
            config.outbound.allow_private = AllowPrivate::All;
            config.objects.idle_timeout = IDLE;
            config.storage.segment_bytes = SEGMENT_BYTES;
            config.storage.checkpoint_bytes = CHECKPOINT_BYTES;
            config.archive.retention = RETENTION;
        })
        .router(|env| axum::Router::new().nest("/line", object_router::<Line>(&env)));
    node::serve_at(host, port)
}
