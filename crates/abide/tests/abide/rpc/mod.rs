//! Calls between objects and from outside, background work, and outgoing requests, tested through the public API on an
//! in-memory disk.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod background;
mod cancellation;
mod cycles;
mod errors;
mod handlers;
mod idempotency;
mod order;
mod outbound;
mod size;
mod transactions;
