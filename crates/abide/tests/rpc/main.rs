//! Calls between objects and from outside, background work, and requests that objects send, tested through the public
//! API on a disk in memory.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod background;
mod cancellation;
mod cycles;
mod errors;
mod idempotency;
mod order;
mod outbound;
mod size;
#[path = "../support/mod.rs"]
mod support;
