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
//! The hub ([`GameHub`]) gives out codes of four characters. A room ([`GameRoom`]) relays what a player sends to the screen, and what
//! the screen sends to all players. It stores who they are, so that they come back to their places, and no message.
#![forbid(unsafe_code)]

mod code;
mod http;
mod hub;
pub mod limits;
mod pace;
mod pages;
mod qr;
mod room;
mod secret;

pub use code::{Code, Codes};
pub use http::router;
pub use hub::{GameHub, HubError, RoomRecord};
pub use limits::Limits;
pub use room::{GameRoom, Role};
pub use secret::Secret;

/// Registers the classes, the limits and the routes of the program.
pub fn install(
    host: abide::server::HostBuilder,
    limits: Limits,
    codes: Codes,
) -> abide::server::HostBuilder {
    host.object::<GameHub>()
        .object::<GameRoom>()
        .with(codes)
        .with(limits)
        .configure(|config| {
            let websocket = &mut config.websocket;
            let most = u64::from(limits::GATEWAY_MESSAGE_BYTES);
            websocket.max_message_bytes = websocket.max_message_bytes.min(most);
        })
        .router(router)
}

/// The name of the one hub.
pub(crate) const HUB: &str = "hub";
