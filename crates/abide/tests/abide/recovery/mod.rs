//! Point-in-time recovery as objects and operators see it, tested through the public API on an in-memory disk.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod admin;
mod cold;
mod forks;
mod ledger;
mod session;
mod timelines;
