//! WebSockets of clients, and those that objects open: the connections behind objects' sockets.
//!
//! Contract: a response that carries a client's end ([`ClientSocket`](abide_runtime::socket::ClientSocket)) becomes an
//! upgraded connection if its request asked for one; otherwise the client gets an error and the socket ends. An open
//! socket is one task with one timer, and without its own buffers while idle. It does not count as a request in
//! flight, and `server.request_timeout` does not end it; it keeps its slot of `server.max_connections`.
//!
//! The bytes are RFC 6455 without extensions. Frame headers and the handshake's key use `tungstenite`. Reading and
//! writing are implemented here, because a library's connection keeps its buffers for life: here an idle socket has
//! none, and a message to a thousand sockets is written from one buffer.

mod connector;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod handshake;
mod hub;
mod pump;
mod reader;
mod upgrade;
mod writer;

use std::time::Duration;

use crate::{WebSocketConfig, limits};

pub(crate) use self::{
    connector::Connector,
    hub::{Hub, OwnedHub},
    upgrade::{ConnectionHold, upgrading},
};

/// Which end of the connection this is. Clients mask what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Client,
}

impl KeepAlive {
    /// The keep-alive configuration from the settings.
    pub(crate) fn of(config: &WebSocketConfig) -> Self {
        Self {
            ping_interval: config.ping_interval,
            pong_timeout: config.pong_timeout,
            close_timeout: limits::CLOSE_TIMEOUT,
            message_timeout: config.message_timeout,
        }
    }
}

/// When a silent peer is pinged and disconnected, and when a peer that does not close is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlive {
    /// `None` disables pings.
    pub(crate) ping_interval: Option<Duration>,
    pub(crate) pong_timeout: Duration,
    pub(crate) close_timeout: Duration,
    /// Time limit for a message that has begun to arrive.
    pub(crate) message_timeout: Duration,
}
