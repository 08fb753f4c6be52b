//! Tests of the outbox, its handlers and its service.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod handlers;
mod live;
mod outbox;
mod service;
#[path = "../../../../verify/harness/shared/world.rs"]
mod world;
