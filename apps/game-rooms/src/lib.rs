//! A game on the computer, played with the phone.
//!
//! ```text
//! computer ── POST /rooms ──▶ edge ── code for a new room ──▶ GameHub
//!     │                                                           │
//!     │ host                                                      │ what room has this code?
//!     ▼                                                           ▼
//!  GameRoom ◀──────────────────────── peer ──────────────────── phone
//! ```
//!
//! The hub ([`GameHub`]) gives out codes of four characters. A room ([`GameRoom`]) relays what a peer sends to all hosts, and what
//! a host sends to all peers; it stores nothing, so nothing of it waits for a disk.
#![forbid(unsafe_code)]

mod code;
mod http;
mod hub;
mod pages;
mod qr;
mod room;

pub use code::{Code, Codes};
pub use http::router;
pub use hub::{ATTEMPTS, GameHub, HubError, LIFETIME, RoomRecord};
pub use room::{GameRoom, MAX_MESSAGE_BYTES, MAX_SOCKETS, Role};

/// The name under which the class of the hub is registered.
pub const HUB_BINDING: &str = "HUB";

/// The name under which the class of rooms is registered.
pub const ROOM_BINDING: &str = "ROOMS";

/// The name of the one hub.
pub(crate) const HUB: &str = "hub";
