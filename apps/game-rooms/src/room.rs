//! A room: what a peer sends goes to all hosts, what a host sends goes to all peers.
//!
//! Contract: messages arrive as they were sent, in the order of their sender. The room stores nothing: who is there follows from
//! the open sockets alone, so the object leaves memory while nobody sends, and a process that ends leaves nothing behind but
//! clients that come again.

use abide::prelude::*;
use axum::extract::Query;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Sockets of a room: a game has a few players, and a room is no broadcast.
pub const MAX_SOCKETS: usize = 32;

/// Bytes of a message: a sensor reading has less than a hundred.
pub const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Codes of closing: of RFC 6455, and one of our own for a room that is full.
const TOO_BIG: u16 = 1_009;
const FULL: u16 = 4_000;

/// Which side of a room somebody is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A screen.
    Host,
    /// A controller.
    Peer,
}

impl Role {
    fn tag(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Peer => "peer",
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Host => Self::Peer,
            Self::Peer => Self::Host,
        }
    }
}

/// What the edge says of somebody who comes in.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Entrance {
    pub(crate) role: Role,
}

/// A room.
#[durable_object]
pub struct GameRoom {
    state: State,
}

impl DurableObject for GameRoom {
    fn new(state: State, _env: Env) -> Result<Self> {
        Ok(Self { state })
    }

    /// Lets somebody in.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let Query(Entrance { role }) =
            Query::try_from_uri(request.uri()).map_err(Error::from_std)?;
        let is_full = self.state.get_websockets(None).len() >= MAX_SOCKETS;
        let pair = WebSocketPair::new();
        let socket = self.state.accept_websocket(pair.server, &[role.tag()])?;
        socket.serialize_attachment(&role)?;
        if is_full {
            socket.close(FULL, "the room is full")?;
        } else {
            self.tell_who_is_here();
        }
        Ok(websocket_response(pair.client))
    }

    async fn websocket_message(&self, socket: WebSocket, message: Message) -> Result<()> {
        if message.len() > MAX_MESSAGE_BYTES {
            return socket.close(TOO_BIG, "a message of a room has at most 4 KiB");
        }
        let role: Role = socket
            .deserialize_attachment()?
            .ok_or("a socket without its role")?;
        for other in self.state.get_websockets(Some(role.other().tag())) {
            // One that closes at this moment hears nothing more.
            let _ = other.send(message.clone());
        }
        Ok(())
    }

    async fn websocket_close(
        &self,
        _socket: WebSocket,
        _code: u16,
        _reason: String,
        _was_clean: bool,
    ) -> Result<()> {
        self.tell_who_is_here();
        Ok(())
    }
}

#[rpc]
impl GameRoom {
    /// How many screens and how many controllers are here.
    pub async fn present(&self) -> Result<(usize, usize)> {
        Ok(self.count())
    }
}

impl GameRoom {
    fn count(&self) -> (usize, usize) {
        let count = |role: Role| self.state.get_websockets(Some(role.tag())).len();
        (count(Role::Host), count(Role::Peer))
    }

    fn tell_who_is_here(&self) {
        let (hosts, peers) = self.count();
        let news = json!({ "room": { "hosts": hosts, "peers": peers } }).to_string();
        for socket in self.state.get_websockets(None) {
            let _ = socket.send(Message::from(news.clone()));
        }
    }
}
