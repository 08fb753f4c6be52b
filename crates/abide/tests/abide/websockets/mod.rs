//! WebSockets as objects see them: a fake gateway holds the other end, the clock stands still until it is moved.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod accept;
mod auto_response;
mod bridge;
mod broadcast;
mod close;
mod connect;
mod gated;
mod hibernation;
mod incoming;
mod outgoing;
mod room;
