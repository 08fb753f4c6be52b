//! The objects that the benches talk to.
#![allow(clippy::unused_async)] // a remote method is async, whether it waits for something or not

use std::time::Instant;

use abide::prelude::*;
use serde::{Deserialize, Serialize};

use crate::workload;

const COUNT: &str = "count";

/// A counter: storage read-modify-write and reply.
#[durable_object]
pub(crate) struct Counter {
    ctx: Ctx,
    env: Env,
}

impl DurableObject for Counter {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        Ok(Self { ctx, env })
    }

    async fn fetch(&self, _request: Request) -> Result<Response> {
        let count = self.next()?;
        Ok(Response::new(Body::from(count.to_string())))
    }
}

impl Counter {
    fn next(&self) -> Result<u64> {
        let storage = self.ctx.storage();
        let next = storage.get::<u64>(COUNT)?.unwrap_or(0) + 1;
        storage.put(COUNT, &next)?;
        Ok(next)
    }
}

#[rpc]
impl Counter {
    /// No storage at all.
    pub(crate) async fn ping(&self, value: u64) -> u64 {
        value
    }

    /// Read, write, reply when durable.
    pub(crate) async fn increment(&self) -> Result<u64, String> {
        self.next().map_err(|error| error.to_string())
    }

    /// Calls another counter, one call after the other.
    pub(crate) async fn relay(&self, calls: u64, kind: Kind) -> Result<u64, String> {
        let other = self.env.object::<Self>().get_by_name("relayed");
        let mut last = 0;
        for call in 0..calls {
            last = match kind {
                Kind::Read => other.ping(call).await?,
                Kind::Write => other.increment().await?,
            };
        }
        Ok(last)
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// An object that works: `/ROUNDS` computes this many rounds, then adds one to a stored count.
#[durable_object]
pub(crate) struct Busy {
    ctx: Ctx,
}

impl DurableObject for Busy {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        let rounds = request.uri().path().trim_matches('/').parse();
        workload::compute(rounds.map_err(Error::from_std)?);
        let storage = self.ctx.storage();
        let count = storage.get::<u64>(COUNT)?.unwrap_or(0) + 1;
        storage.put(COUNT, &count)?;
        Ok(Response::new(Body::from(count.to_string())))
    }
}

/// An object with a schema and some rows, made in its constructor.
#[durable_object]
pub(crate) struct Table {
    ctx: Ctx,
}

impl DurableObject for Table {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        let sql = ctx.sql();
        if ctx.storage().get::<bool>("seeded")?.is_none() {
            sql.exec(workload::SCHEMA, ())?;
            for row in 0..workload::SEED_ROWS {
                sql.exec(workload::INSERT, (row.cast_signed(), "a row's value"))?;
            }
            ctx.storage().put("seeded", &true)?;
        }
        Ok(Self { ctx })
    }
}

#[rpc]
impl Table {
    /// One row by its key.
    pub(crate) async fn value(&self, id: i64) -> Result<String, String> {
        let read = || -> Result<String> { self.ctx.sql().exec(workload::SELECT, (id,))?.one() };
        read().map_err(|error| error.to_string())
    }
}

/// A room of `WebSockets`: `all …` goes to all, anything else comes back.
#[durable_object]
pub(crate) struct Room {
    ctx: Ctx,
}

impl DurableObject for Room {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn fetch(&self, _request: Request) -> Result<Response> {
        let (ws, response) = self.ctx.accept_websocket(&["member"])?;
        ws.set_attachment(&("member", 1))?;
        Ok(response)
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        match message.as_text().and_then(|text| text.strip_prefix("all ")) {
            None => ws.send(message),
            Some(text) => self.ctx.broadcast(text),
        }
    }
}

/// Parents and their children, read in two ways.
#[durable_object]
pub(crate) struct Family {
    ctx: Ctx,
}

impl DurableObject for Family {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        Ok(Self { ctx })
    }
}

/// How children are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fetch {
    /// A query for the parents, then one for each parent.
    OneByOne,
    /// One query.
    Join,
}

impl Family {
    fn create(&self, parents: u32, children: u32) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec(workload::FAMILY_SCHEMA, ())?;
        for parent in 1..=parents {
            sql.exec(
                workload::INSERT_PARENT,
                (parent, format!("parent {parent}")),
            )?;
            for child in 0..children {
                sql.exec(
                    workload::INSERT_CHILD,
                    (parent, format!("child {child} of {parent}")),
                )?;
            }
        }
        Ok(())
    }

    fn fetch_all(&self, fetch: Fetch) -> Result<usize> {
        let sql = self.ctx.sql();
        if fetch == Fetch::Join {
            return Ok(sql
                .exec(workload::JOIN, ())?
                .all::<(String, String)>()?
                .len());
        }
        let mut found = 0;
        for (id, _name) in sql.exec(workload::PARENTS, ())?.all::<(i64, String)>()? {
            found += sql.exec(workload::CHILDREN, (id,))?.all::<String>()?.len();
        }
        Ok(found)
    }
}

#[rpc]
impl Family {
    pub(crate) async fn populate(&self, parents: u32, children: u32) -> Result<(), String> {
        self.create(parents, children)
            .map_err(|error| error.to_string())
    }

    /// Fetches everything this many times; the children found and the mean microseconds of one time.
    pub(crate) async fn measure(&self, fetch: Fetch, times: u32) -> Result<(usize, f64), String> {
        let (begun, mut found) = (Instant::now(), 0);
        for _ in 0..times {
            found = self.fetch_all(fetch).map_err(|error| error.to_string())?;
        }
        Ok((
            found,
            begun.elapsed().as_secs_f64() * 1e6 / f64::from(times.max(1)),
        ))
    }
}
