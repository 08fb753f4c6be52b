//! The real binary, and its clients.

use std::path::Path;

use abide_harness::{Client, Program, in_time};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};

pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_game-rooms"), data)
}

/// A new room, as its screen knows it.
pub(crate) struct Room {
    /// What everyone may know of it.
    pub(crate) record: Value,
    pub(crate) id: String,
    pub(crate) code: String,
    secret: String,
}

/// Makes a room.
pub(crate) async fn make(client: &Client) -> Room {
    let answer = client.post("/rooms", &json!({})).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let record = answer.body["room"].clone();
    Room {
        id: text(&record["durableObjectId"]),
        code: text(&record["roomCode"]),
        secret: text(&answer.body["hostSecret"]),
        record,
    }
}

/// Someone in a room.
pub(crate) struct Player(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Player {
    /// The screen of a room.
    pub(crate) async fn host(address: &str, room: &Room) -> Self {
        Self::enter(address, &room.id, "host", &room.secret).await
    }

    /// A phone, with a secret that this number stands for.
    pub(crate) async fn peer(address: &str, room: &Room, phone: u32) -> Self {
        Self::enter(address, &room.id, "peer", &format!("{phone:032x}")).await
    }

    pub(crate) async fn enter(address: &str, id: &str, role: &str, secret: &str) -> Self {
        let url = format!("ws://{address}/sockets/{id}?role={role}");
        let mut request = url.into_client_request().expect("an address");
        let protocols = format!("blips, secret.{secret}");
        let protocols = protocols.parse().expect("a header");
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocols);
        let (socket, _) = connect_async(request).await.expect("a WebSocket");
        Self(socket)
    }

    pub(crate) async fn send(&mut self, message: impl Into<Message>) {
        self.0.send(message.into()).await.expect("the line is open");
    }

    /// The next message that is not about who is here. `None` if the line has ended.
    pub(crate) async fn hear(&mut self) -> Option<Message> {
        loop {
            let message = self.next().await?;
            let is_notice = message
                .to_text()
                .is_ok_and(|text| text.starts_with("{\"room\"") || text.starts_with("{\"you\""));
            if !is_notice && !message.is_ping() {
                return Some(message);
            }
        }
    }

    /// The text of the next message that is not about who is here.
    pub(crate) async fn text(&mut self) -> String {
        let message = self.hear().await.expect("the line is open");
        message.to_text().expect("a text").to_owned()
    }

    /// The code and the reason with which the room closes the socket, and which nothing precedes.
    pub(crate) async fn closed(&mut self) -> (u16, String) {
        let Some(Message::Close(Some(frame))) = self.hear().await else {
            panic!("no close frame");
        };
        // The client confirms when it is read again.
        while self.next().await.is_some() {}
        (frame.code.into(), frame.reason.to_string())
    }

    /// The number that the room gives this player.
    pub(crate) async fn number(&mut self) -> u64 {
        loop {
            let message = self.next().await.expect("the line is open");
            let text = message.to_text().expect("a text");
            if let Ok(news) = serde_json::from_str::<Value>(text)
                && let Some(number) = news["you"]["player"].as_u64()
            {
                return number;
            }
        }
    }

    /// Waits until the screen and these players are here.
    pub(crate) async fn sees(&mut self, host: bool, players: &[u32]) {
        let expected = json!({ "room": { "host": host, "players": players } });
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
