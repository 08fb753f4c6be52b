//! Hibernating WebSockets: the object's half, the gateway's half, and the link between them.
//!
//! ```text
//! peer ⇄ gateway: Endpoint ──Event──▶ worker ──▶ object: websocket_message(ws, …)
//!                    ▲                                      │ ws.send(…)
//!                    └── Link (send buffer) ◀── output gate ◀┘
//! ```
//!
//! - The gateway owns the connection; the object owns the socket's state. An object that is evicted or reset keeps its
//!   sockets with their tags and attachments: they are in its worker's registry, not in the object. They end with the
//!   process; a client reconnects.
//! - Messages that an object sends to a socket pass its output gate, in order, into the socket's bounded send buffer.
//!   Only released frames get there.
//! - Messages of one socket reach the object in order. Their number in flight is limited: beyond it, the gateway stops
//!   reading.
//! - Each accepted socket ends once, with one close event.
//!
//! Out of scope: the protocol's bytes, TCP, and HTTP. A gateway reads and writes them and holds an [`Endpoint`].

mod audience;
mod auto_response;
mod client;
mod close;
mod connector;
mod delivery;
mod endpoint;
mod link;
mod message;
mod options;
mod registry;
mod sending;
mod sent;
mod websocket;

pub use self::{
    audience::Audience,
    auto_response::RequestResponsePair,
    client::ClientSocket,
    close::{Close, CloseFrame, code},
    connector::{ConnectedWebSocket, Connecting, WebSocketConnector},
    endpoint::{Endpoint, EndpointHandle},
    link::{CloseAhead, Frame},
    message::Message,
    options::{SlowReader, WebSocketOptions},
    websocket::{ReadyState, WebSocket},
};
pub(crate) use self::{
    auto_response::AutoResponses,
    delivery::Delivery,
    link::{Link, Outgoing, SocketOwner},
    registry::Registry,
    sent::{FrameCharge, Sent},
};
