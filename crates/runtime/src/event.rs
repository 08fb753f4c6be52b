//! Events that reach an object.
//!
//! [`Event`] and [`Reply`](crate::Reply) are the complete interface between the runtime and a class, whatever language
//! the class is written in: a method is a name, arguments and results are bytes.

use std::borrow::Cow;

use crate::{
    Activation, AlarmInfo, Encoding, Error, Request, Timeline, body,
    limits::EVENT_BYTES,
    socket::{Close, Message, WebSocket},
    visit::Visit,
};

/// An event for an object.
#[derive(Debug)]
pub enum Event {
    /// An HTTP request.
    Fetch(Box<Request>),
    /// A call of a method by name.
    Rpc {
        /// The method's name.
        method: Cow<'static, str>,
        /// The arguments: an array.
        args: Vec<u8>,
        /// The encoding of the arguments and the result.
        encoding: Encoding,
        /// The key under which the result is remembered. The runtime handles it; a class can ignore it.
        idempotency_key: Option<String>,
    },
    /// An operator's request to a component of the object. The runtime passes it to the component; a class does not see
    /// it.
    Operation {
        /// The component's name; `None` lists the object's components.
        component: Option<String>,
        /// The request.
        request: Box<Request>,
    },
    /// The object's alarm goes off.
    Alarm(AlarmInfo),
    /// The object is stored with what its constructor did, if it is new. The runtime handles it; a class does not see it.
    Create,
    /// The object is on a new timeline. Handled in one poll, before any other event.
    Timeline(Timeline),
    /// The object is no longer dormant. Handled in one poll.
    Activation(Activation),
    /// The object leaves memory. Handled in one poll.
    Leaving,
    /// A function for the instance, of a test. Handled in one poll.
    Visit(Visit),
    /// A message of a WebSocket that the object has accepted.
    WebSocketMessage {
        /// The socket.
        socket: WebSocket,
        /// The message.
        message: Message,
    },
    /// A WebSocket has ended. The object gets this once for each socket, as its last event of that socket.
    WebSocketClose {
        /// The socket.
        socket: WebSocket,
        /// How it ended.
        close: Close,
    },
    /// A WebSocket failed: the received data violated the protocol, or was too long. The close event follows.
    WebSocketError {
        /// The socket.
        socket: WebSocket,
        /// What was wrong.
        error: Error,
    },
}

/// In a request's extensions: its creator charges its body to the memory budget while it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeteredBody;

/// In a request's extensions: the encoded value with which [`Stub::upgrade`](crate::Stub::upgrade) has sent it.
#[derive(Clone)]
pub(crate) struct HandedOver(pub(crate) Vec<u8>);

impl HandedOver {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Event {
    /// Returns whether this is a message of a socket's peer, and not an event of the socket's end.
    pub(crate) fn is_socket_message(&self) -> bool {
        matches!(self, Self::WebSocketMessage { .. })
    }

    /// Its charge to the memory budget. A socket charges its messages itself.
    pub(crate) fn weight(&self) -> usize {
        let content = match self {
            Self::Fetch(request) | Self::Operation { request, .. } => {
                let head = request.headers().iter();
                let head: usize = head
                    .map(|(name, value)| name.as_str().len() + value.len())
                    .sum();
                let body = match request.extensions().get::<MeteredBody>() {
                    Some(MeteredBody) => 0,
                    None => body::known_bytes(request.body()),
                };
                let value = request.extensions().get::<HandedOver>();
                head + request.uri().path().len() + value.map_or(0, HandedOver::len) + body
            }
            Self::Rpc {
                args,
                idempotency_key,
                ..
            } => args.capacity() + idempotency_key.as_ref().map_or(0, String::len),
            Self::Create
            | Self::Alarm(_)
            | Self::Timeline(_)
            | Self::Activation(_)
            | Self::Leaving
            | Self::Visit(_)
            | Self::WebSocketMessage { .. }
            | Self::WebSocketClose { .. }
            | Self::WebSocketError { .. } => 0,
        };
        EVENT_BYTES + content
    }

    /// Returns whether the runtime itself sends it to its object.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Alarm(_) | Self::Timeline(_))
    }

    /// Returns whether no caller waits for an answer to the event, so that no caller would resend it.
    pub(crate) fn is_of_socket(&self) -> bool {
        matches!(
            self,
            Self::WebSocketMessage { .. }
                | Self::WebSocketClose { .. }
                | Self::WebSocketError { .. }
        )
    }
}
