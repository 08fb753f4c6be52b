//! A host whose objects echo, and its clients.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use abide::{Host, prelude::*, server::RunningHost};
use abide_harness::{in_time, until};
use abide_server::HostBuilder;
use axum::routing::any;
use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        self, Message as Sent,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role},
    },
};

pub(crate) const SHORT: Duration = Duration::from_millis(50);

pub(crate) type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What the objects have noted, in order.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    /// Waits for a note that begins so.
    pub(crate) async fn wait(&self, beginning: &str) -> String {
        let find = || {
            let notes = self.0.lock().unwrap();
            notes
                .iter()
                .find(|note| note.starts_with(beginning))
                .cloned()
        };
        until(beginning, async || find()).await
    }

    pub(crate) fn count(&self, beginning: &str) -> usize {
        let notes = self.0.lock().unwrap();
        notes
            .iter()
            .filter(|note| note.starts_with(beginning))
            .count()
    }
}

/// Echoes, and does what some words say.
#[durable_object]
pub(crate) struct Echo {
    ctx: Ctx,
    pub(crate) notes: Notes,
}

impl DurableObject for Echo {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let notes = Notes::clone(&*env.require::<Notes>()?);
        notes.add("new");
        Ok(Self { ctx, notes })
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        if request.uri().path() == "/plain" {
            return Ok(Response::new(Body::from("no socket")));
        }
        if request.uri().path() == "/dial" {
            let told = self.dial(request.uri().query().unwrap_or_default()).await;
            let told = told.map_or_else(|error| error.to_string(), |()| "connected".to_owned());
            return Ok(Response::new(Body::from(told)));
        }
        let (_, mut response) = self.ctx.accept_websocket(&[])?;
        if let Some(protocol) = request.headers().get("sec-websocket-protocol") {
            let headers = response.headers_mut();
            headers.insert("sec-websocket-protocol", protocol.clone());
        }
        Ok(response)
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        if ws.has_tag("dialled") {
            self.notes.add(format!("heard {message:?}"));
            return match message.as_text() {
                Some("hang up") => ws.close(4_003, "told to"),
                _ => Ok(()),
            };
        }
        match message
            .as_text()
            .map(|text| text.split_once(' ').unwrap_or((text, "")))
        {
            Some(("all", rest)) => {
                let message = Message::from(rest);
                for other in self.ctx.websockets() {
                    other.send(&message)?;
                }
                Ok(())
            }
            Some(("close", rest)) => ws.close(rest.parse().unwrap_or(0), "as you wish"),
            Some(("flood", rest)) => {
                let message = Message::from("x".repeat(100_000));
                for _ in 0..rest.parse().unwrap_or(0) {
                    ws.send(&message)?;
                }
                Ok(())
            }
            _ => ws.send(message),
        }
    }

    async fn websocket_close(&self, _ws: WebSocket, close: Close) -> Result<()> {
        let Close {
            code,
            reason,
            was_clean,
        } = close;
        self.notes
            .add(format!("closed {code} {reason:?} {was_clean}"));
        Ok(())
    }

    async fn websocket_error(&self, _ws: WebSocket, error: Error) -> Result<()> {
        self.notes.add(format!("error {error}"));
        Ok(())
    }
}

impl Echo {
    /// Opens a socket to another server and says something.
    async fn dial(&self, url: &str) -> Result<()> {
        let request = http::Request::get(url).body(())?;
        let ws = self.ctx.connect_websocket(request, &["dialled"]).await?;
        ws.send("hello from here")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.notes.add("left memory");
    }
}

pub(crate) struct World {
    pub(crate) host: RunningHost,
    pub(crate) notes: Notes,
}

pub(crate) async fn world(outfit: impl FnOnce(HostBuilder) -> HostBuilder) -> World {
    let notes = Notes::default();
    let builder = Host::open_in_memory()
        .object::<Echo>()
        .with(notes.clone())
        // Most tests leave their clients open.
        .configure(|c| c.server.shutdown_grace = SHORT)
        .router(|env| {
            abide::server::object_router::<Echo>(&env).route("/axum/own", any(echo_by_itself))
        });
    let host = outfit(builder).start().await.unwrap();
    World { host, notes }
}

/// A handler that does the whole of a WebSocket without objects.
pub(crate) async fn echo_by_itself(
    mut request: http::Request<axum::body::Body>,
) -> http::Response<String> {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let stream = hyper_util::rt::TokioIo::new(upgrade.await.unwrap());
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        while let Some(Ok(message)) = socket.next().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
    });
    let key = request.headers()["sec-websocket-key"].as_bytes();
    http::Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-accept", derive_accept_key(key))
        .body(String::new())
        .unwrap()
}

impl World {
    pub(crate) async fn client(&self) -> Client {
        self.client_of("/room/").await
    }

    pub(crate) async fn client_of(&self, path: &str) -> Client {
        self.try_client_of(path).await.unwrap()
    }

    pub(crate) async fn try_client_of(&self, path: &str) -> tungstenite::Result<Client> {
        let url = format!("ws://{}{path}", self.host.addr());
        Ok(connect_async(url).await?.0)
    }
}

pub(crate) async fn say(client: &mut Client, text: &str) {
    client.send(Sent::text(text)).await.unwrap();
}

/// The next message that is neither ping nor pong.
pub(crate) async fn hear(client: &mut Client) -> Sent {
    loop {
        let next = in_time("something to be said", client.next()).await;
        match next.unwrap().unwrap() {
            Sent::Ping(_) | Sent::Pong(_) => {}
            message => return message,
        }
    }
}

pub(crate) fn close_frame(message: Sent) -> CloseFrame {
    match message {
        Sent::Close(Some(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

/// The refusal of a handshake.
pub(crate) fn refused(error: tungstenite::Error) -> http::Response<Option<Vec<u8>>> {
    match error {
        tungstenite::Error::Http(response) => *response,
        other => panic!("{other}"),
    }
}
