//! What reaches an object and what it answers.
//!
//! [`Event`] and [`Reply`] are the whole vocabulary between the runtime and a class, whatever language the
//! class is written in: a method is a name, arguments and results are bytes.

use std::borrow::Cow;

use axum_core::body::Body;

use crate::{
    AlarmInfo, Error, ErrorKind, Result, body,
    limits::EVENT_BYTES,
    socket::{Message, WebSocket},
};

/// The HTTP request that an object's `fetch` takes.
pub type Request<T = Body> = http::Request<T>;

/// The HTTP response that an object's `fetch` gives.
pub type Response<T = Body> = http::Response<T>;

/// How arguments and results are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// CBOR (RFC 8949), as between Rust programs.
    #[default]
    Cbor = 0,
    /// JSON (RFC 8259), for callers that have no Rust types. A method's `Result` is `{"Ok":…}` or `{"Err":…}`.
    Json = 1,
}

/// Something that happens to an object.
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
        /// How the arguments are encoded, and the result is to be.
        encoding: Encoding,
        /// The key under which the result is remembered. The runtime sees to that; a class need not look.
        idempotency_key: Option<String>,
    },
    /// An operator's request to a component of the object. The runtime hands it to the component: a class does not see it.
    Operation {
        /// The component's name; `None` lists those that the object has.
        component: Option<String>,
        /// What is asked of it.
        request: Box<Request>,
    },
    /// The object's alarm goes off.
    Alarm(AlarmInfo),
    /// A message of a WebSocket that the object has accepted.
    WebSocketMessage {
        /// The socket.
        socket: WebSocket,
        /// The message.
        message: Message,
    },
    /// A WebSocket has ended. The object gets this once for each socket, and nothing of that socket after it.
    WebSocketClose {
        /// The socket.
        socket: WebSocket,
        /// The peer's close code; 1005 if it gave none, 1006 if the connection broke.
        code: u16,
        /// The peer's reason.
        reason: String,
        /// True if both sides said that they close.
        was_clean: bool,
    },
    /// A WebSocket failed: what came was not the protocol, or too long. The close event follows.
    WebSocketError {
        /// The socket.
        socket: WebSocket,
        /// What was wrong.
        error: Error,
    },
}

/// In a request's extensions: whoever made it counts its body against the memory budget while it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeteredBody;

impl Event {
    /// True for what a socket's peer says, and not for the news of the socket's end.
    pub(crate) fn is_socket_message(&self) -> bool {
        matches!(self, Self::WebSocketMessage { .. })
    }

    /// What it takes of the memory budget. A socket counts its messages itself.
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
                head + request.uri().path().len() + body
            }
            Self::Rpc {
                args,
                idempotency_key,
                ..
            } => args.capacity() + idempotency_key.as_ref().map_or(0, String::len),
            Self::Alarm(_)
            | Self::WebSocketMessage { .. }
            | Self::WebSocketClose { .. }
            | Self::WebSocketError { .. } => 0,
        };
        EVENT_BYTES + content
    }

    /// True for events that nobody waits for an answer to, so that nobody would repeat them.
    pub(crate) fn is_of_socket(&self) -> bool {
        matches!(
            self,
            Self::WebSocketMessage { .. }
                | Self::WebSocketClose { .. }
                | Self::WebSocketError { .. }
        )
    }
}

/// What an object answers to an [`Event`].
#[derive(Debug)]
pub enum Reply {
    /// To [`Event::Fetch`] and [`Event::Operation`].
    Fetch(Response),
    /// To [`Event::Rpc`]: the result, encoded as the arguments were.
    Rpc(Vec<u8>),
    /// To an event that has no answer: it has been handled.
    Done,
}

impl Reply {
    pub(crate) fn into_response(self) -> Result<Response> {
        let Self::Fetch(response) = self else {
            return Err(Self::wrong());
        };
        Ok(response)
    }

    pub(crate) fn into_result(self) -> Result<Vec<u8>> {
        let Self::Rpc(result) = self else {
            return Err(Self::wrong());
        };
        Ok(result)
    }

    /// The error of a class that answers with a reply of another kind than the event's.
    fn wrong() -> Error {
        Error::with_kind(
            ErrorKind::Decode,
            "the object's class answered with a reply of another kind",
        )
    }
}
