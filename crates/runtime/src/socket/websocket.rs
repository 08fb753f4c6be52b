//! An accepted socket, as its object's code uses it.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::{Link, SocketOwner};
use crate::Timestamp;

/// The state of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyState {
    /// Messages may be sent.
    #[default]
    Open,
    /// The object or the node has closed it; the peer has not confirmed.
    Closing,
    /// The close event has arrived.
    Closed,
}

/// A WebSocket that an object has accepted. Clones refer to the same socket, and are equal.
///
/// It outlives the object in memory: after an eviction or a reset,
/// [`Ctx::websockets`](crate::Ctx::websockets) returns it again. Its methods work only in handlers of its
/// own object.
#[derive(Clone)]
pub struct WebSocket(Arc<Link>);

impl WebSocket {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self(link)
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.0
    }

    pub(crate) fn owner(&self) -> &SocketOwner {
        self.0.owner()
    }

    /// The state of the socket.
    pub fn ready_state(&self) -> ReadyState {
        self.0.state()
    }

    /// A number that no other socket of this object has had since the process started; later sockets have higher ones.
    pub fn id(&self) -> u64 {
        self.owner().serial
    }

    /// The tags that it was accepted with, in order.
    pub fn tags(&self) -> Vec<String> {
        let tags = self.owner().tags.iter();
        tags.map(|tag| tag.as_ref().to_owned()).collect()
    }

    /// Returns whether it was accepted with this tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.owner().tags.iter().any(|known| &**known == tag)
    }

    /// When the gateway last answered this socket on the object's behalf, if ever.
    pub fn auto_response_timestamp(&self) -> Option<Timestamp> {
        let millis = self.0.auto_responded_at()?;
        Some(Timestamp::from_unix_millis(millis.cast_signed()))
    }
}

impl PartialEq for WebSocket {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for WebSocket {}

impl Hash for WebSocket {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("id", &self.id())
            .field("state", &self.ready_state())
            .finish_non_exhaustive()
    }
}
