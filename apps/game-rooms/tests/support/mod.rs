//! The real binary, and its clients.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::Path;

use abide_harness::{Client, Program, in_time};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_game-rooms"), data)
}

/// Makes a room: what is told of it.
pub(crate) async fn make(client: &Client) -> Value {
    let answer = client.post("/rooms", &json!({})).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.body["room"].clone()
}

/// Somebody in a room.
pub(crate) struct Player(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Player {
    pub(crate) async fn enter(address: &str, id: &str, role: &str) -> Self {
        let url = format!("ws://{address}/sockets/{id}?role={role}");
        let (socket, _) = connect_async(url)
            .await
            .expect("the room lets everybody in");
        Self(socket)
    }

    pub(crate) async fn send(&mut self, message: impl Into<Message>) {
        self.0.send(message.into()).await.expect("the line is open");
    }

    /// The next message that is not about who is here. `None` if the line has ended.
    pub(crate) async fn hear(&mut self) -> Option<Message> {
        loop {
            let message = self.next().await?;
            if !message
                .to_text()
                .is_ok_and(|text| text.starts_with("{\"room\""))
            {
                return Some(message);
            }
        }
    }

    /// Waits until so many screens and controllers are here.
    pub(crate) async fn sees(&mut self, hosts: u64, peers: u64) {
        let expected = json!({ "room": { "hosts": hosts, "peers": peers } });
        loop {
            let message = self.next().await.expect("the line is open");
            let text = message.to_text().expect("a text");
            if serde_json::from_str::<Value>(text).is_ok_and(|news| news == expected) {
                return;
            }
        }
    }

    async fn next(&mut self) -> Option<Message> {
        in_time("the room to say something", self.0.next())
            .await?
            .ok()
    }

    pub(crate) async fn leave(mut self) {
        let _ = self.0.close(None).await;
    }
}
