//! Point-in-time recovery as objects and those who look after them see it, tested through the public API on a disk in
//! memory.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod admin;
mod ledger;
mod session;
#[path = "../support/mod.rs"]
mod support;
