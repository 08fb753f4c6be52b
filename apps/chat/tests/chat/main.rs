//! Tests of the chat.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod crash;
mod page;
mod rooms;
mod support;
mod walk;
