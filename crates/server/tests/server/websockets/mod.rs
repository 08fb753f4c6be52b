//! WebSockets over real connections: the gateway's half.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod ends;
mod handshake;
mod limits;
mod memory;
mod messages;
mod outgoing;
mod world;
