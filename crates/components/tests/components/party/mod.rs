//! What rooms promise, tested through the public API: a fake gateway holds the clients' ends, the disk is in memory.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod refusals;
mod room;
mod support;
