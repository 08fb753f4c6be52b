//! A socket before it is accepted: the two ends that an object creates, and the response that passes one to the
//! gateway.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum_core::body::Body;
use http::StatusCode;

use super::{Endpoint, Link};
use crate::{Error, ErrorKind, Response, Result};

/// The two ends of a new WebSocket. The object accepts `server` and answers the request with `client`:
///
/// ```
/// use abide_runtime::{Request, Response, Result, Ctx};
/// use abide_runtime::socket::{WebSocketPair, websocket_response};
///
/// fn join(ctx: &Ctx, _request: &Request) -> Result<Response> {
///     let pair = WebSocketPair::new();
///     ctx.accept_websocket(pair.server, &["lobby"])?;
///     Ok(websocket_response(pair.client))
/// }
/// ```
#[derive(Debug)]
pub struct WebSocketPair {
    /// The client's end, which the response carries.
    pub client: ClientSocket,
    /// The object's end.
    pub server: ServerSocket,
}

impl WebSocketPair {
    /// Two ends of a socket that no object has accepted yet.
    #[allow(clippy::new_without_default, reason = "each call makes another socket")]
    pub fn new() -> Self {
        let link = Arc::new(Link::default());
        Self {
            client: ClientSocket(Arc::new(Unclaimed {
                link: Arc::clone(&link),
                claimed: AtomicBool::new(false),
            })),
            server: ServerSocket(link),
        }
    }
}

/// The object's end of a [`WebSocketPair`], until the object accepts it.
pub struct ServerSocket(pub(crate) Arc<Link>);

impl fmt::Debug for ServerSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSocket").finish_non_exhaustive()
    }
}

/// The client's end of a [`WebSocketPair`]: a response carries it to the gateway in its extensions.
///
/// If its last clone is dropped before a gateway has claimed it, because the client is gone or another response was
/// sent, the socket ends with 1006, even if the object accepts its own end only later.
#[derive(Clone)]
pub struct ClientSocket(Arc<Unclaimed>);

struct Unclaimed {
    link: Arc<Link>,
    claimed: AtomicBool,
}

impl ClientSocket {
    /// Turns it into the gateway's end. Fails if no object has accepted the other end, or if this one was already
    /// claimed.
    pub fn claim(self) -> Result<Endpoint> {
        if self.0.link.owner().is_none() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the response carries a WebSocket that no object has accepted: call `ctx.accept_websocket` with the \
                 pair's server end before you answer",
            ));
        }
        if self.0.claimed.swap(true, Ordering::AcqRel) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the WebSocket of this response is already being served: use each pair for one response only",
            ));
        }
        Ok(Endpoint::new(Arc::clone(&self.0.link)))
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if !*self.claimed.get_mut() {
            self.link.orphan();
            end_if_orphaned(&self.link);
        }
    }
}

/// Ends a socket that an object has accepted and no gateway can claim any more.
pub(crate) fn end_if_orphaned(link: &Arc<Link>) {
    if link.take_orphaned() {
        // Dropping it sends the close event.
        drop(Endpoint::new(Arc::clone(link)));
    }
}

impl fmt::Debug for ClientSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSocket").finish_non_exhaustive()
    }
}

/// The response to a WebSocket request: status 101 with the client's end. Headers may be added, such as
/// `Sec-WebSocket-Protocol`; the gateway adds those of the protocol itself.
pub fn websocket_response(client: ClientSocket) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.extensions_mut().insert(client);
    response
}
