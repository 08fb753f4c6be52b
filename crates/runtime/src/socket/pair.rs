//! A socket before it is one: the two ends that an object makes, and the response that hands one to the gateway.

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
/// use abide_runtime::{Request, Response, Result, State};
/// use abide_runtime::socket::{WebSocketPair, websocket_response};
///
/// fn join(state: &State, _request: &Request) -> Result<Response> {
///     let pair = WebSocketPair::new();
///     state.accept_websocket(pair.server, &["lobby"])?;
///     Ok(websocket_response(pair.client))
/// }
/// ```
#[derive(Debug)]
pub struct WebSocketPair {
    /// The end that goes to the client, in the response.
    pub client: ClientSocket,
    /// The end that an object keeps.
    pub server: ServerSocket,
}

impl WebSocketPair {
    /// Two ends of a socket that nobody has accepted.
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
/// If the last clone of it is dropped before a gateway has claimed it, because the client is gone or another response
/// was sent, the socket ends with 1006; also if the object accepts its own end only after that.
#[derive(Clone)]
pub struct ClientSocket(Arc<Unclaimed>);

struct Unclaimed {
    link: Arc<Link>,
    claimed: AtomicBool,
}

impl ClientSocket {
    /// Becomes the gateway's end. Fails if no object has accepted the other end, or this one has been claimed.
    pub fn claim(self) -> Result<Endpoint> {
        if self.0.link.owner().is_none() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the response carries a WebSocket that no object has accepted: call `state.accept_websocket` with the \
                 pair's server end before you answer",
            ));
        }
        if self.0.claimed.swap(true, Ordering::AcqRel) {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "the WebSocket of this response is served already: a pair is for one response",
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

/// Ends a socket that an object has and no gateway can claim any more.
pub(crate) fn end_if_orphaned(link: &Arc<Link>) {
    if link.take_orphaned() {
        // Its end is the close event.
        drop(Endpoint::new(Arc::clone(link)));
    }
}

impl fmt::Debug for ClientSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSocket").finish_non_exhaustive()
    }
}

/// The answer to a request for a WebSocket: status 101 with the client's end. Headers may be added to it, such as
/// `Sec-WebSocket-Protocol`; those of the protocol itself are the gateway's work.
pub fn websocket_response(client: ClientSocket) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.extensions_mut().insert(client);
    response
}
