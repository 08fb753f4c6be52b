//! Tests of games and their rooms.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod hub;
mod lives;
mod page;
mod rooms;
mod support;
mod walk;
