//! The object's WebSockets: accepting and listing them.

use std::{rc::Rc, sync::Arc};

use tokio::sync::oneshot;

use super::Object;
use crate::{
    Error, ErrorKind, Result,
    gate::{Departure, GatePermit},
    limits::{GATED_OVERHEAD, MAX_TAG, MAX_TAGS},
    socket::{ClientSocket, Link, RequestResponsePair, SocketOwner, WebSocket},
};

impl Object {
    /// Makes the object the owner of a new socket; the other end is the client's.
    pub(crate) fn accept_websocket(
        self: &Rc<Self>,
        tags: &[&str],
    ) -> Result<(WebSocket, ClientSocket)> {
        self.must_be_current()?;
        let tags = checked(tags)?;
        let key = self.binding.key(self.id);
        let sockets = &self.worker.sockets;
        sockets.has_room(key)?;
        let link = Arc::new(Link::new(SocketOwner {
            router: Arc::clone(&self.worker.router),
            key,
            binding: self.binding.index,
            id: self.id,
            serial: self.worker.next_token().0,
            tags,
            auto_responses: sockets.auto_responses(key),
            held_bytes: sockets.held_bytes(key),
            creator: self.creator(),
        }));
        let socket = WebSocket::new(Arc::clone(&link));
        sockets.add(&socket);
        Ok((socket, ClientSocket::of(link)))
    }

    /// Opens a socket to another server, once the object's earlier writes are durable.
    pub(crate) async fn connect_websocket(
        self: &Rc<Self>,
        request: http::Request<()>,
        tags: &[&str],
    ) -> Result<WebSocket> {
        self.must_be_current()?;
        // Detect invalid tags before connecting.
        checked(tags)?;
        let Some(connector) = self.worker.connector.clone() else {
            return Err(Error::with_kind(
                ErrorKind::Unavailable,
                "this node cannot open WebSockets: set a connector with `NodeBuilder::websocket_connector`",
            ));
        };
        let (leave, left) = oneshot::channel();
        self.push(Departure::Connect(request, leave));
        let request = left.await.map_err(|_| Error::log_failed())?;
        let connected = connector.connect(request.into_inner()).await?;
        let (socket, other_end) = self.accept_websocket(tags)?;
        (connected.serve)(other_end.claim()?);
        Ok(socket)
    }

    pub(crate) fn websockets(&self, tag: Option<&str>) -> Vec<WebSocket> {
        let key = self.binding.key(self.id);
        match self.must_be_current() {
            Ok(()) => self.worker.sockets.list(key, tag),
            Err(_) => Vec::new(),
        }
    }

    pub(crate) fn set_auto_response(
        self: &Rc<Self>,
        pair: Option<Arc<RequestResponsePair>>,
    ) -> Result<()> {
        self.must_be_current()?;
        let (key, worker) = (self.binding.key(self.id), &self.worker);
        let bytes = pair
            .as_ref()
            .map_or(0, |pair| pair.request().len() + pair.response().len());
        let permit = GatePermit::acquire(
            bytes + GATED_OVERHEAD,
            &worker.sockets.held_bytes(key),
            &worker.mailbox,
        )?;
        let shared = worker.sockets.auto_responses(key);
        let number = shared.set(pair);
        self.push(Departure::AutoResponse(shared, number, permit));
        Ok(())
    }

    pub(crate) fn auto_response(&self) -> Option<Arc<RequestResponsePair>> {
        self.must_be_current().ok()?;
        let key = self.binding.key(self.id);
        self.worker.sockets.auto_responses(key).get()
    }
}

/// Removes duplicate tags, keeping their order.
fn checked(tags: &[&str]) -> Result<Box<[Arc<str>]>> {
    let mut kept: Vec<Arc<str>> = Vec::with_capacity(tags.len().min(MAX_TAGS));
    for tag in tags {
        if tag.len() > MAX_TAG {
            return Err(Error::with_kind(
                ErrorKind::Limit,
                format!(
                    "a WebSocket tag has {} bytes, but the limit is {MAX_TAG}: use the attachment for longer values",
                    tag.len()
                ),
            ));
        }
        if kept.iter().any(|known| **known == **tag) {
            continue;
        }
        if kept.len() == MAX_TAGS {
            return Err(Error::with_kind(
                ErrorKind::Limit,
                format!("a WebSocket may have at most {MAX_TAGS} tags"),
            ));
        }
        kept.push((*tag).into());
    }
    Ok(kept.into())
}
