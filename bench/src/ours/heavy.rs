//! Objects that take memory in all possible ways, and a host of them with a budget.

use std::{path::Path, time::Duration};

use abide::{
    prelude::*,
    server::{Host, ListenAddress, object_router},
};
use anyhow::{Context as _, Result};
use axum::body::Bytes;

use super::node;

const MEBIBYTE: usize = 1 << 20;

/// Does what the path says.
#[durable_object]
pub(crate) struct Heavy {
    ctx: Ctx,
}

impl DurableObject for Heavy {
    fn new(ctx: Ctx, _: Env) -> abide::Result<Self> {
        let create = "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, content BLOB)";
        ctx.sql().exec(create, ())?;
        Ok(Self { ctx })
    }

    async fn fetch(&self, request: Request) -> abide::Result<Response> {
        let path = request.uri().path()[1..].to_owned();
        let number = request.uri().query().and_then(|query| query.parse().ok());
        let number: usize = number.unwrap_or(0);
        match path.as_str() {
            "touch" => self.ctx.storage().put("touched", &true)?,
            "fill" => self.fill(number)?,
            "sort" => return Ok(Response::new(Body::from(self.sort()?.to_string()))),
            "give" => return Ok(Response::new(Body::from(vec![b'x'; number]))),
            "take" => {
                let taken = axum::body::to_bytes(request.into_body(), usize::MAX).await;
                let taken: Bytes = taken.map_err(abide::Error::from_std)?;
                return Ok(Response::new(Body::from(taken.len().to_string())));
            }
            _ => {
                let (_, response) = self.ctx.accept_websocket(&[])?;
                return Ok(response);
            }
        }
        Ok(Response::new(Body::from("1")))
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> abide::Result<()> {
        ws.send(message)
    }
}

impl Heavy {
    /// Adds this many rows of 100 KB.
    fn fill(&self, rows: usize) -> abide::Result<()> {
        let insert = "INSERT INTO rows (content) VALUES (randomblob(100000))";
        for _ in 0..rows {
            self.ctx.sql().exec(insert, ())?;
        }
        Ok(())
    }

    /// Reads all rows in an order that no index has.
    fn sort(&self) -> abide::Result<usize> {
        let mut rows = 0;
        let sorted = "SELECT content FROM rows ORDER BY content";
        self.ctx.sql().for_each(sorted, (), |_| {
            rows += 1;
            Ok(())
        })?;
        Ok(rows)
    }
}

/// Serves at `/heavy/NAME/` until standard input closes, with a budget of this many MiB. Prints the address.
pub(crate) fn serve(dir: &Path, budget_mebibytes: usize) -> Result<()> {
    let runtime = node::runtime()?;
    let host = Host::builder(dir)
        .object::<Heavy>()
        .configure(|config| {
            config.server.listen = ListenAddress::any_port();
            config.admin.listen = None;
            config.memory.budget = Some((budget_mebibytes * MEBIBYTE) as u64);
            config.server.request_timeout = Duration::from_mins(5);
        })
        .router(|env| axum::Router::new().nest("/heavy", object_router::<Heavy>(&env)));
    let running = runtime
        .block_on(host.start())
        .context("cannot start the host")?;
    println!("{}", running.addr());
    node::wait_for_owner()?;
    runtime
        .block_on(running.shutdown())
        .context("the host did not end cleanly")
}
