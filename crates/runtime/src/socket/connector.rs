//! The interface for sockets that objects open: establishes and serves the connection.

use std::{fmt, future::Future, pin::Pin};

use http::{HeaderMap, Request};

use super::Endpoint;
use crate::Result;

/// The future result of [`WebSocketConnector::connect`].
pub type Connecting = Pin<Box<dyn Future<Output = Result<ConnectedWebSocket>> + Send>>;

/// Opens WebSockets to other servers. The runtime calls it once the request has passed the object's output gate.
pub trait WebSocketConnector: Send + Sync + 'static {
    /// Connects and performs the handshake. The request's URI is `ws://…` or `wss://…`; its headers are sent in
    /// addition to those of the handshake.
    ///
    /// Polled on the object's thread: background work must run elsewhere.
    fn connect(&self, request: Request<()>) -> Connecting;
}

/// A connection after its handshake.
pub struct ConnectedWebSocket {
    /// The headers of the server's response.
    pub headers: HeaderMap,
    /// Serves the connection of the socket that an object has accepted. Called on the object's thread: its tasks must
    /// run on a runtime of the program, because tasks of the object's thread deliver no messages.
    pub serve: Box<dyn FnOnce(Endpoint) + Send>,
}

impl fmt::Debug for ConnectedWebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectedWebSocket")
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
