//! Arbitrary bytes on a connection of a running host: it answers or closes, and nothing panics.
//!
//! The host is complete: gateway, guard, extractors, JSON calls, WebSockets and an object. It runs in the process and
//! serves on loopback, and its objects are in memory.

use abide::prelude::*;
use abide::server::{JsonBody, RunningHost, UrlPath, UrlQuery, object_router};
use abide::{Host, Message};
use axum::Router;
use axum::routing::{any, get, post};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Time from the end of the input to the end of the connection. Far longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Echoes requests and messages.
#[durable_object]
struct Echo {
    ctx: Ctx,
}

impl DurableObject for Echo {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        if request.headers().contains_key("upgrade") {
            let (_, response) = self.ctx.accept_websocket(&[])?;
            return Ok(response);
        }
        Ok(Response::new(request.into_body()))
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        ws.send(message)
    }
}

#[rpc]
impl Echo {
    /// Repeats its argument.
    pub async fn say(&self, text: String, times: u8) -> String {
        text.repeat(usize::from(times.min(3)))
    }
}

struct World {
    runtime: Runtime,
    host: RunningHost,
}

fn world() -> World {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let host = runtime.block_on(
        Host::open_in_memory()
            .object::<Echo>()
            .json_rpc()
            .configure(|config| {
                config.admin.listen = None;
                config.objects.workers = Some(1);
                config.server.max_body_bytes = 4096;
                config.websocket.max_message_bytes = 4096;
            })
            .router(|env| {
                Router::new()
                    .route(
                        "/json",
                        post(async |JsonBody(value): JsonBody<serde_json::Value>| {
                            value.to_string()
                        }),
                    )
                    .route(
                        "/path/{word}/{number}",
                        get(async |UrlPath((word, number)): UrlPath<(String, u32)>| {
                            format!("{word} {number}")
                        }),
                    )
                    .route(
                        "/query",
                        any(async |UrlQuery(query): UrlQuery<HashMap<String, u32>>| {
                            query.len().to_string()
                        }),
                    )
                    .nest("/echo", object_router::<Echo>(&env))
            })
            .start(),
    );
    World {
        runtime,
        host: host.expect("a host"),
    }
}

/// The input is what a client sends before it closes its sending side.
pub fn target(bytes: &[u8]) {
    static WORLD: Mutex<Option<World>> = Mutex::new(None);
    let mut world_ = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let World { runtime, host } = world_.get_or_insert_with(world);
    let connection = talk(host, bytes);
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, connection).await });
    ended.expect("the host neither answers nor closes");
}

/// Sends the bytes and reads until the host closes. The host may close before it has read everything.
async fn talk(host: &RunningHost, bytes: &[u8]) {
    let stream = TcpStream::connect(host.addr())
        .await
        .expect("the host accepts");
    let (mut from, mut to) = stream.into_split();
    let send = async {
        let _ = to.write_all(bytes).await;
        let _ = to.shutdown().await;
    };
    let mut answer = Vec::new();
    let (_, ()) = tokio::join!(from.read_to_end(&mut answer), send);
    if answer.starts_with(b"HTTP/1.1 ") {
        let status = answer
            .get(9..12)
            .and_then(|code| std::str::from_utf8(code).ok());
        let status = status.and_then(|code| code.parse::<u16>().ok());
        assert!(
            status.is_some_and(|status| status != 500),
            "answered {:?}",
            String::from_utf8_lossy(&answer)
        );
    }
}
