//! The seam for sockets that objects open: who connects, and serves the connection.

use std::{fmt, future::Future, pin::Pin};

use http::{HeaderMap, Request};

use super::Endpoint;
use crate::Result;

/// The outcome of [`WebSocketConnector::connect`], later.
pub type Connecting = Pin<Box<dyn Future<Output = Result<ConnectedWebSocket>> + Send>>;

/// Opens WebSockets to other servers. The runtime calls it when the request has passed the object's output gate.
pub trait WebSocketConnector: Send + Sync + 'static {
    /// Connects and performs the handshake. The request's URI is `ws://…` or `wss://…`; its headers are sent besides
    /// those of the handshake.
    ///
    /// Polled on the object's thread: what does work of its own runs elsewhere.
    fn connect(&self, request: Request<()>) -> Connecting;
}

/// A connection after its handshake.
pub struct ConnectedWebSocket {
    /// The headers of the server's answer.
    pub headers: HeaderMap,
    /// Serves the connection, given the socket that an object has accepted it as. Called on the object's thread: what it
    /// starts runs on a runtime of the program's, because tasks of the object's thread deliver no messages.
    pub serve: Box<dyn FnOnce(Endpoint) + Send>,
}

impl fmt::Debug for ConnectedWebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectedWebSocket")
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
