//! Chat rooms over WebSockets: one durable object for each room, and one for each address that writes.
//!
//! A room ([`ChatRoom`]) keeps its history in SQLite and its members in its sockets. When no one writes, the object
//! is evicted and the sockets stay open; the next message brings it back. Messages of a room pass its output gate, so
//! every member who sees a message, its author included, knows that it is on disk. A second class ([`RateLimiter`])
//! limits how fast one address may write, in all rooms together.
#![forbid(unsafe_code)]

mod http;
mod limiter;
mod protocol;
mod room;

pub use http::router;
pub use limiter::{Pace, RateLimiter, Verdict};
pub use protocol::{
    Entry, FromClient, Invalid, MAX_MARK, MAX_NAME, MAX_TEXT, Name, RoomName, ToClient,
};
pub use room::ChatRoom;
